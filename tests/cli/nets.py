# SPDX-License-Identifier: MIT
#
# nets.py: matting networks made by hand, so small that they run in no time and so simple that their matte is known: a pixel belongs to the
# object when it is red. All convolutions are zero but one chain of single taps from the picture to the result; batch norms are folded away.
# Standard library only.
import os
import struct

from support import SOURCE, tensors_bytes, tensors_read

DEPTH = {'stage1': 7, 'stage2': 6, 'stage3': 5, 'stage4': 4, 'stage5': 4, 'stage6': 4,
         'stage5d': 4, 'stage4d': 4, 'stage3d': 5, 'stage2d': 6, 'stage1d': 7}
REDNESS = (1.0, -0.5, -0.5)


class Net:
    def __init__(self):
        self.tensors = {}

    def conv(self, name, out, channels, kernel, taps=(), bias=0.0):
        """taps: (output channel, input channel, weight) at the centre of the kernel; bias of output channel 0."""
        values = [0.0] * (out * channels * kernel * kernel)
        for o, c, weight in taps:
            values[(o * channels + c) * kernel * kernel + kernel * kernel // 2] = weight
        self.tensors[name + '.weight'] = ([out, channels, kernel, kernel], values)
        self.tensors[name + '.bias'] = ([out], [bias] + [0.0] * (out - 1))

    def block(self, stage, channels, out, taps=()):
        """A residual U-block that gives relu(taps) of its input."""
        depth, middle = DEPTH[stage], 1
        self.conv(stage + '.rebnconvin.conv_s1', out, channels, 3, taps)
        for i in range(1, depth + 1):
            self.conv('%s.rebnconv%d.conv_s1' % (stage, i), middle, out if i == 1 else middle, 3)
        for i in range(1, depth):
            self.conv('%s.rebnconv%dd.conv_s1' % (stage, i), out if i == 1 else middle, 2 * middle, 3)

    def bytes(self):
        header, data = {}, b''
        for name, (shape, values) in self.tensors.items():
            packed = struct.pack('<%df' % len(values), *values)
            header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + len(packed)]}
            data += packed
        return tensors_bytes(header, data)


def red_net(kind, gain=None, level=None, scale=REDNESS):
    """kind: u2net, u2netp, isnet. The matte's logit is gain * (max(scale . normalised picture, 0) - level)."""
    if kind == 'isnet':
        gain, level = (60.0 if gain is None else gain), (0.3 if level is None else level)
    else:
        gain, level = (8.0 if gain is None else gain), (1.5 if level is None else level)
    n = Net()
    last = 2 if kind == 'u2net' else 1               # what tells U2-Net from U2-NetP: stage 6 is as wide as stage 1
    picture = [(0, c, scale[c]) for c in range(3)]
    channels = 3
    if kind == 'isnet':
        n.conv('conv_in', 1, 3, 3, picture)
        channels, picture = 1, [(0, 0, 1.0)]
    n.block('stage1', channels, 1, picture)
    for i in range(2, 6):
        n.block('stage%d' % i, 1, 1)
    n.block('stage6', 1, last)
    n.block('stage5d', last + 1, 1)
    for i in range(4, 1, -1):
        n.block('stage%dd' % i, 2, 1)
    n.block('stage1d', 2, 1, [(0, 1, 1.0)])          # the deeper one comes first
    n.conv('side1', 1, 1, 3, [(0, 0, gain)], -gain * level)
    for i in range(2, 7):
        n.conv('side%d' % i, 1, last if i == 6 else 1, 3)
    if kind != 'isnet':
        n.conv('outconv', 1, 6, 1, [(0, 0, 1.0)])
    return n.bytes()


def golden_net(case):
    """The network of a golden case as a weight file."""
    header, data = tensors_read(os.path.join(SOURCE, 'tests', 'golden', case, 'case.safetensors'))
    out, packed = {}, b''
    for name, tensor in header.items():
        if not name.startswith('w.'):
            continue
        begin, end = tensor['data_offsets']
        out[name[2:]] = dict(tensor, data_offsets=[len(packed), len(packed) + end - begin])
        packed += data[begin:end]
    return tensors_bytes(out, packed)
