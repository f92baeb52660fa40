# SPDX-License-Identifier: MIT
"""U2-Net, U2-NetP and IS-Net as lists of convolutions with PyTorch's names, each with what it reads. That is enough to name the
convolutions of an ONNX graph whatever its exporter called them, and to check the names and shapes of a state dict. Widths come from the
file. After Qin et al., "U2-Net" (2020) and "Highly Accurate Dichotomous Image Segmentation" (2022)."""
from collections import namedtuple

from common import FLOATS, Refused, shown

PICTURE = "picture"
STAGES = (("stage1", 7), ("stage2", 6), ("stage3", 5), ("stage4", 4), ("stage5", 4), ("stage6", 4))
FLAT = ("stage5", "stage6", "stage5d")  # dilated instead of pooled
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")

# reads: a tuple of parts side by side; each part is the set of convolutions whose results are added. norm: None where there is none.
Conv = namedtuple("Conv", "name norm reads kernel stride dilation optional")


def conv(name, reads, kernel=3, stride=1, optional=False):
    return Conv(name, None, reads, kernel, stride, 1, optional)


def residual_block(stage, depth, reads):
    """The convolutions of a residual U-block in the order of its forward pass, and what its result is the sum of."""
    flat = stage in FLAT

    def layer(part, reads, dilation):
        scope = f"{stage}.rebnconv{part}."
        return Conv(scope + "conv_s1", scope + "bn_s1", reads, 3, 1, dilation, False)

    def one(part):
        return frozenset([f"{stage}.rebnconv{part}.conv_s1"])

    layers = [layer("in", reads, 1)]
    for i in range(1, depth + 1):
        dilation = 1 << (i - 1) if flat else 2 if i == depth else 1
        layers.append(layer(i, (one("in" if i == 1 else i - 1),), dilation))
    for i in range(depth - 1, 0, -1):
        deeper = one(depth) if i == depth - 1 else one(f"{i + 1}d")
        layers.append(layer(f"{i}d", (deeper, one(i)), 1 << (i - 1) if flat else 1))
    return layers, one("1d") | one("in")


def convolutions(isnet):
    """All convolutions of U2-Net (any width), or of IS-Net, whose side maps beyond the first only training needs."""
    reads = (frozenset([PICTURE]),)
    layers, result = [], {}
    if isnet:
        layers.append(conv("conv_in", reads, stride=2))
        reads = (frozenset(["conv_in"]),)
    for stage, depth in STAGES:
        block, result[stage] = residual_block(stage, depth, reads)
        layers += block
        reads = (result[stage],)
    deeper = result["stage6"]
    for stage, depth in reversed(STAGES[:-1]):
        block, result[stage + "d"] = residual_block(stage + "d", depth, (deeper, result[stage]))
        layers += block
        deeper = result[stage + "d"]
    for i in range(1, 7):
        level = "stage6" if i == 6 else f"stage{i}d"
        layers.append(conv(f"side{i}", (result[level],), optional=isnet and i > 1))
    if not isnet:
        layers.append(conv("outconv", tuple(frozenset([f"side{i}"]) for i in range(1, 7)), kernel=1))
    return layers


def kind_name(isnet, tensors):
    if isnet:
        return "IS-Net"
    narrow = tensors["stage6.rebnconvin.conv_s1.weight"].shape[0] == tensors["stage1.rebnconvin.conv_s1.weight"].shape[0]
    return "U2-NetP" if narrow else "U2-Net"


def input_width(layer, width):
    """Channels that a layer reads: parts side by side, added ones alike."""
    total = 0
    for part in layer.reads:
        widths = {width[name] for name in part}
        if len(widths) != 1:
            raise Refused(f"{layer.name} would add maps of different widths: no U2-Net, U2-NetP or IS-Net")
        total += widths.pop()
    return total


def check_tensor(tensors, name, shape):
    tensor = tensors.get(name)
    if tensor is None:
        raise Refused(f"tensor {name} is missing")
    if tensor.dtype not in FLOATS:
        raise Refused(f"tensor {name}: {tensor.dtype}, expected floating-point numbers")
    if tensor.shape != tuple(shape):
        raise Refused(f"tensor {name}: shape {list(tensor.shape)}, expected {list(shape)}")


def check(tensors, isnet):
    """Every tensor that the network needs is there with a shape that fits its neighbours; returns whether batch norms are apart."""
    layers = [layer for layer in convolutions(isnet) if not layer.optional or layer.name + ".weight" in tensors]
    with_norms = any(layer.norm and layer.norm + ".running_var" in tensors for layer in layers)
    width = {PICTURE: 3}
    for layer in layers:
        weight = tensors.get(layer.name + ".weight")
        single = layer.name.startswith("side") or layer.name == "outconv"
        out = 1 if single else weight.shape[0] if weight is not None and weight.shape else 0
        check_tensor(tensors, layer.name + ".weight", (out, input_width(layer, width), layer.kernel, layer.kernel))
        check_tensor(tensors, layer.name + ".bias", (out,))
        for part in NORM_PARTS if layer.norm and with_norms else ():
            check_tensor(tensors, f"{layer.norm}.{part}", (out,))
        width[layer.name] = out
    return with_norms


def recognise(tensors):
    """The network that a state dict belongs to and whether its batch norms are apart. BiRefNet is checked by the program that reads it."""
    if "stage1.rebnconvin.conv_s1.weight" in tensors and ("outconv.weight" in tensors or "conv_in.weight" in tensors):
        isnet = "outconv.weight" not in tensors
        with_norms = check(tensors, isnet)
        return kind_name(isnet, tensors), with_norms
    if "bb.layers.0.blocks.0.attn.qkv.weight" in tensors and "decoder.conv_out1.0.weight" in tensors:
        return "BiRefNet", any(name.endswith(".running_var") for name in tensors)
    found = shown(next(iter(tensors))) if tensors else "nothing"
    raise Refused(f"neither U2-Net, U2-NetP, IS-Net nor BiRefNet: {len(tensors)} tensors, the first is {found}")
