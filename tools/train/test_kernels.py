# SPDX-License-Identifier: MIT
"""The training kernels against PyTorch in float: results and gradients differ by no more than rounding to bfloat16. Exit code 77 (skipped)
without torch. Usage: test_kernels.py LIBRARY SOURCE_DIR"""
import os
import sys
import unittest

try:
    import torch
except ImportError:
    print("SKIPPED: the trainer needs python3-torch, which is not installed")
    sys.exit(77)

import numpy as np
from torch.nn import functional as F

import fast
import kernels
from flow import FlowModel, attend, rotate
from sparse import Grid, SparseConv3d

LIBRARY, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2]
# Products of two numbers rounded to 8 bits: each has an error of up to 2^-8 of itself, sums of many about 2^-9 of their size.
LIMIT = 6e-3
EXACT = 2e-6  # float on both sides, only the order of additions differs


def error(got, want):
    return ((got - want).norm() / want.norm()).item()


class Kernels(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        kernels.load(LIBRARY)

    def tearDown(self):
        kernels.load(None)

    def compare(self, limit, got, want, inputs):
        """Two functions of the inputs: values, and gradients of a random sum."""
        results = []
        for function in (want, got):
            for tensor in inputs:
                tensor.grad = None
            out = function()
            if not results:
                direction = torch.randn_like(out)
            (out * direction).sum().backward()
            results.append([out.detach()] + [tensor.grad.clone() for tensor in inputs])
        for number, (a, b) in enumerate(zip(results[1], results[0])):
            self.assertEqual(a.shape, b.shape)
            self.assertLess(error(a, b), limit, f"result {number}")

    def test_linear(self):
        for rows, ci, co in ((1, 16, 16), (7, 32, 48), (533, 96, 288), (40, 80, 16)):
            x, w, b = (torch.randn(*shape, requires_grad=True) for shape in ((rows, ci), (co, ci), (co,)))
            self.compare(LIMIT, lambda: fast.Linear.apply(x, w, b), lambda: F.linear(x, w, b), (x, w, b))

    def test_pointwise(self):
        begin = torch.tensor([0, 5, 5, 38])  # one item is empty
        items = torch.repeat_interleave(torch.arange(3), begin.diff())
        for channels in (16, 96):
            x, z = (torch.randn(38, channels, requires_grad=True) for _ in range(2))
            gain, shift = (torch.randn(3, channels, requires_grad=True) for _ in range(2))
            self.compare(EXACT, lambda: fast.Norm.apply(x, gain, shift, begin),
                         lambda: F.layer_norm(x, (channels,), eps=1e-6) * gain[items] + shift[items], (x, gain, shift))
            self.compare(EXACT, lambda: fast.Gate.apply(x, z, gain, begin), lambda: x + gain[items] * z, (x, z, gain))
            self.compare(EXACT, lambda: fast.Gelu.apply(3 * x), lambda: F.gelu(3 * x, approximate="tanh"), (x,))

    def test_attention(self):
        """Self attention with turned tokens, and attention to a context, for items of several sizes."""
        for heads, width, sizes, context in ((1, 8, (5,), 3), (4, 24, (70, 1, 129), 69), (2, 32, (16, 64), 17)):
            channels, rows = heads * width, sum(sizes)
            begin, keys_begin = torch.tensor((0,) + sizes).cumsum(0), torch.arange(len(sizes) + 1) * context
            angles = torch.randn(rows, width // 2)
            turn = torch.stack([angles.cos(), angles.sin()], dim=-1).reshape(rows, width)
            qkv = torch.randn(rows, 3 * channels, requires_grad=True)
            kv = torch.randn(len(sizes) * context, 2 * channels, requires_grad=True)
            gains = [(1 + 0.3 * torch.randn(heads, width)).requires_grad_(True) for _ in range(2)]

            def head_norm(x, gain):
                return F.normalize(x, dim=-1) * gain * width ** 0.5

            def one_by_one(queries, keys, values, key_rows, turned):
                results = []
                for (a, b), (c, d) in zip(zip(begin, begin[1:]), zip(key_rows, key_rows[1:])):
                    q, k, v = queries[None, a:b], keys[None, c:d], values[None, c:d]
                    q, k = head_norm(q, gains[0]), head_norm(k, gains[1])
                    if turned:
                        q, k = (rotate(t, angles[None, a:b].cos(), angles[None, a:b].sin()) for t in (q, k))
                    results.append(attend(q, k, v)[0])
                return torch.cat(results)

            self.compare(2 * LIMIT, lambda: fast.Attention.apply(qkv, None, *gains, turn, begin, begin),
                         lambda: one_by_one(*qkv.view(rows, 3, heads, width).unbind(1), begin, True), (qkv, *gains))
            queries = qkv.detach()[:, :channels].clone().requires_grad_(True)
            self.compare(2 * LIMIT, lambda: fast.Attention.apply(queries, kv, *gains, None, begin, keys_begin),
                         lambda: one_by_one(queries.view(rows, heads, width), *kv.view(-1, 2, heads, width).unbind(1), keys_begin, False),
                         (queries, kv, *gains))

    def test_convolution(self):
        """Channels that are multiples of 16 and others; a grid with lone voxels."""
        coords = np.unique(np.random.default_rng(2).integers(0, 9, (700, 4)) * [0, 1, 1, 1], axis=0)
        coords = np.concatenate([coords, [[1, 0, 0, 0], [1, 5, 5, 5]]])
        for ci, co in ((16, 32), (64, 48), (6, 4)):
            conv, grid = SparseConv3d(ci, co), Grid(coords)
            torch.nn.init.normal_(conv.bias)
            feats = torch.randn(len(coords), ci, requires_grad=True)

            def plain():
                kernels.load(None)
                out = conv(feats, grid)
                kernels.load(LIBRARY)
                return out

            self.compare(LIMIT, lambda: conv(feats, grid), plain, (feats, conv.weight, conv.bias))

    def test_flow(self):
        """The whole network: packed items by the kernels, one by one by PyTorch."""
        model = FlowModel(16, 16, 96, 128, 2, 4, 4, rope_freq=(1.0, 100.0))
        torch.nn.init.normal_(model.out_layer.weight, std=0.1)
        torch.nn.init.normal_(model.adaLN_modulation[1].weight, std=0.05)
        begin = torch.tensor([0, 90, 131])
        x, coords, context, t = torch.randn(131, 16), torch.randint(0, 16, (131, 3)), torch.randn(2, 69, 128), torch.tensor([0.2, 0.9])
        velocities, gradients = [], []
        for path in (None, LIBRARY):
            kernels.load(path)
            model.zero_grad()
            velocities.append(fast.velocity(model, x, t, context, coords, begin))
            (velocities[-1] ** 2).mean().backward()
            gradients.append(torch.cat([p.grad.reshape(-1) for p in model.parameters()]))
        self.assertLess(error(velocities[1], velocities[0]), 2 * LIMIT)
        self.assertLess(error(gradients[1], gradients[0]), 4 * LIMIT)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
