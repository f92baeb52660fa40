# SPDX-License-Identifier: MIT
"""Sparse voxel grids for training on CPUs: neighbour tables and the submanifold 3x3x3 convolution, by the C kernels or as one matrix
product."""
import ctypes

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import kernels
from kernels import address, check

TAPS = [(dx, dy, dz) for dx in (-1, 0, 1) for dy in (-1, 0, 1) for dz in (-1, 0, 1)]


class Grid:
    """Occupied voxels: rows of (batch, x, y, z). rows_of() finds rows by coordinates; the neighbour table is made at first use."""

    def __init__(self, coords):
        self.coords = np.ascontiguousarray(coords, np.int64)
        self.shape = self.coords.max(0) + 3 if len(self.coords) else np.full(4, 3, np.int64)
        self._lookup = np.full(int(np.prod(self.shape)), -1, np.int32)
        self._lookup[self._keys(self.coords)] = np.arange(len(self.coords), dtype=np.int32)
        self._neighbours = self._links = None

    def __len__(self):
        return len(self.coords)

    def _keys(self, coords):  # one empty layer around the grid, so that a neighbour's key is always valid
        size = self.shape
        return ((coords[:, 0] * size[1] + coords[:, 1] + 1) * size[2] + coords[:, 2] + 1) * size[3] + coords[:, 3] + 1

    def rows_of(self, coords):
        """The row of each (batch, x, y, z), or -1."""
        coords = np.asarray(coords, np.int64)
        inside = np.all((coords >= 0) & (coords < self.shape - 2 + (np.arange(4) == 0) * 2), axis=1)
        rows = np.full(len(coords), -1, np.int64)
        rows[inside] = self._lookup[self._keys(coords[inside])]
        return rows

    def shifted(self, offset):
        """The row of each voxel's neighbour at offset (x, y, z, each -1..1), or -1."""
        size = self.shape
        step = (offset[0] * size[2] + offset[1]) * size[3] + offset[2]
        return self._lookup[self._keys(self.coords) + step]

    @property
    def neighbours(self):
        """[N, 27] rows of the neighbours in the order of TAPS; N where there is none."""
        if self._neighbours is None:
            table = np.stack([self.shifted(tap) for tap in TAPS], axis=1).astype(np.int64)
            table[table < 0] = len(self)
            self._neighbours = torch.from_numpy(table)
        return self._neighbours


    @property
    def links(self):
        """struct conv_links, and the arrays that it points to."""
        if self._links is None:
            found = [self.shifted(tap) for tap in TAPS[:13]]
            rows = [np.flatnonzero(neighbours >= 0).astype(np.int32) for neighbours in found]
            counts = np.array([len(r) for r in rows], np.int64)
            out, into = np.concatenate(rows), np.concatenate([n[r] for n, r in zip(found, rows)]).astype(np.int32)
            self._links = kernels.ConvLinks(len(self), *(a.ctypes.data for a in (counts, into, out))), (counts, into, out)
        return self._links


def gather(feats, neighbours):
    padded = torch.cat([feats, feats.new_zeros(1, feats.shape[1])])
    return padded[neighbours.reshape(-1)].reshape(len(neighbours), -1)


class Convolution(torch.autograd.Function):
    """y[i] = sum over taps of W[tap] x[neighbour]. If j is i's neighbour at tap t, then i is j's at tap 26 - t; so the gradient
    is a convolution too, and nothing has to be scattered."""

    @staticmethod
    def forward(ctx, feats, weight, neighbours):  # [N, Ci], [27, Ci, Co]
        ctx.save_for_backward(feats, weight, neighbours)
        return gather(feats, neighbours) @ weight.reshape(-1, weight.shape[2])

    @staticmethod
    def backward(ctx, grad):
        feats, weight, neighbours = ctx.saved_tensors
        taps, ci, co = weight.shape
        grad_feats = None
        if ctx.needs_input_grad[0]:
            mirrored = weight.flip(0).transpose(1, 2).reshape(taps * co, ci)
            grad_feats = gather(grad, neighbours) @ mirrored
        grad_weight = (gather(feats, neighbours).t() @ grad).reshape(weight.shape) if ctx.needs_input_grad[1] else None
        return grad_feats, grad_weight, None


class FastConvolution(torch.autograd.Function):
    """The same by the C kernels; channels are multiples of 16."""

    @staticmethod
    def forward(ctx, feats, weight, bias, grid):
        feats, out = feats.contiguous(), bias.expand(len(feats), -1).contiguous()
        links, ctx.grid = ctypes.byref(grid.links[0]), grid
        check(kernels.library.train_convolve(links, address(feats), address(weight), address(out), *weight.shape[1:], 0))
        ctx.save_for_backward(feats, weight)
        return out

    @staticmethod
    def backward(ctx, grad):
        feats, weight = ctx.saved_tensors
        grad, grad_feats, links, ci, co = grad.contiguous(), None, ctypes.byref(ctx.grid.links[0]), *weight.shape[1:]
        if ctx.needs_input_grad[0]:
            turned, grad_feats = weight.transpose(1, 2).contiguous(), torch.zeros_like(feats)
            check(kernels.library.train_convolve(links, address(grad), address(turned), address(grad_feats), co, ci, 1))
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        if grad_weight is not None:
            check(kernels.library.train_convolve_weights(links, address(feats), address(grad), address(grad_weight), ci, co))
        return grad_feats, grad_weight, grad.sum(0), None


def fast_convolution(feats, weight, bias, grid):
    """Weight [27, Ci, Co]; channels are filled up with zeros to what the kernels take."""
    _, ci, co = weight.shape
    more_in, more_out = -ci % 16, -co % 16
    if more_in or more_out:
        feats, weight, bias = F.pad(feats, (0, more_in)), F.pad(weight, (0, more_out, 0, more_in)), F.pad(bias, (0, more_out))
    return FastConvolution.apply(feats, weight.contiguous(), bias, grid)[:, :co]


class SparseConv3d(nn.Module):
    """Submanifold convolution, weights [Co, 3, 3, 3, Ci] as in checkpoints."""

    def __init__(self, ci, co, zero=False):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(co, 3, 3, 3, ci))
        self.bias = nn.Parameter(torch.zeros(co))
        if not zero:
            nn.init.normal_(self.weight, std=(1 / (13 * ci)) ** 0.5)

    def forward(self, feats, grid):
        co, ci = self.weight.shape[0], self.weight.shape[4]
        weight = self.weight.reshape(co, 27, ci).permute(1, 2, 0).contiguous()
        if kernels.library is not None:
            return fast_convolution(feats, weight, self.bias, grid)
        return Convolution.apply(feats, weight, grid.neighbours) + self.bias
