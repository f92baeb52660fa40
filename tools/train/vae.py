# SPDX-License-Identifier: MIT
"""Sparse autoencoders (TRELLIS.2 FlexiDualGridVaeDecoder, SparseUnetVaeDecoder and their encoder) with the checkpoints' tensor names."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from sparse import Grid, SparseConv3d

EPS = 1e-6


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels, mlp_ratio=4):
        super().__init__()
        self.norm = nn.LayerNorm(channels, EPS)
        self.conv = SparseConv3d(channels, channels)
        self.mlp = nn.Sequential(nn.Linear(channels, mlp_ratio * channels), nn.SiLU(), nn.Linear(mlp_ratio * channels, channels))
        nn.init.zeros_(self.mlp[2].weight)
        nn.init.zeros_(self.mlp[2].bias)

    def forward(self, feats, grid):
        return feats + self.mlp(self.norm(self.conv(feats, grid)))


def children_of(coords):
    """[P, 4] -> [P * 8, 4]; child k of a voxel has the bits of k as the last bits of x, y, z."""
    fine = np.repeat(coords, 8, axis=0)
    k = np.tile(np.arange(8), len(coords))
    fine[:, 1:] *= 2
    fine[:, 1:] += np.stack([k & 1, k >> 1 & 1, k >> 2 & 1], axis=1)
    return fine


class UpBlock(nn.Module):
    """Channel to space: a voxel's features become those of its (up to) 8 children."""

    def __init__(self, ci, co, predicts):
        super().__init__()
        self.ci, self.co = ci, co
        self.norm1 = nn.LayerNorm(ci, EPS)
        self.conv1 = SparseConv3d(ci, 8 * co)
        self.conv2 = SparseConv3d(co, co, zero=True)
        self.to_subdiv = nn.Linear(ci, 8) if predicts else None

    def forward(self, feats, grid, choose):
        """choose(logits or None, grid) -> bool [P, 8]: which children exist."""
        logits = self.to_subdiv(feats) if self.to_subdiv is not None else None
        slots = np.flatnonzero(choose(logits, grid))
        fine = Grid(children_of(grid.coords)[slots])
        slots = torch.from_numpy(slots)
        hidden = self.conv1(F.silu(self.norm1(feats)), grid).reshape(-1, self.co)[slots]
        hidden = self.conv2(F.silu(F.layer_norm(hidden, (self.co,), eps=EPS)), fine)
        skip = feats.reshape(-1, self.ci // 8)[slots]
        return hidden + skip.repeat_interleave(self.co // (self.ci // 8), dim=1), fine, logits


class DownBlock(nn.Module):
    """Space to channel, the mirror of UpBlock."""

    def __init__(self, ci, co):
        super().__init__()
        self.ci, self.co = ci, co
        self.norm1 = nn.LayerNorm(ci, EPS)
        self.conv1 = SparseConv3d(ci, co // 8)
        self.conv2 = SparseConv3d(co, co, zero=True)

    def forward(self, feats, grid):
        parents, index = np.unique(np.concatenate([grid.coords[:, :1], grid.coords[:, 1:] >> 1], axis=1), axis=0, return_inverse=True)
        coarse = Grid(parents)
        bits = grid.coords[:, 1:] & 1
        slots = torch.from_numpy(index.reshape(-1) * 8 + bits[:, 0] + 2 * bits[:, 1] + 4 * bits[:, 2])
        hidden = self.conv1(F.silu(self.norm1(feats)), grid)
        hidden = hidden.new_zeros(8 * len(coarse), hidden.shape[1]).index_copy(0, slots, hidden).reshape(len(coarse), -1)
        hidden = self.conv2(F.silu(F.layer_norm(hidden, (self.co,), eps=EPS)), coarse)
        skip = feats.new_zeros(8 * len(coarse), self.ci).index_copy(0, slots, feats)
        return hidden + skip.reshape(len(coarse), self.co, -1).mean(-1), coarse


class SparseDecoder(nn.Module):
    def __init__(self, out_channels, model_channels, num_blocks, pred_subdiv, latent_channels=32):
        super().__init__()
        self.from_latent = nn.Linear(latent_channels, model_channels[0])
        self.output_layer = nn.Linear(model_channels[-1], out_channels)
        self.blocks = nn.ModuleList()
        for level, channels in enumerate(model_channels):
            stage = nn.ModuleList([ConvNeXtBlock(channels) for _ in range(num_blocks[level])])
            if level + 1 < len(model_channels):
                stage.append(UpBlock(channels, model_channels[level + 1], pred_subdiv))
            self.blocks.append(stage)

    def forward(self, latent, grid, choose):
        """choose(level, logits, grid) -> bool [P, 8]. Returns the output, its grid and the subdivision logits per level."""
        feats, all_logits = self.from_latent(latent), []
        for level, stage in enumerate(self.blocks):
            for block in stage:
                if isinstance(block, UpBlock):
                    feats, grid, logits = block(feats, grid, lambda logits, at, level=level: choose(level, logits, at))
                    all_logits.append(logits)
                else:
                    feats = block(feats, grid)
        return self.output_layer(F.layer_norm(feats, feats.shape[-1:])), grid, all_logits


class SparseEncoder(nn.Module):
    """Not part of released or shipped checkpoints; needed to make latents for the flow models."""

    def __init__(self, in_channels, model_channels, num_blocks, latent_channels=32):
        super().__init__()
        self.input_layer = nn.Linear(in_channels, model_channels[0])
        self.to_latent = nn.Linear(model_channels[-1], 2 * latent_channels)
        self.blocks = nn.ModuleList()
        for level, channels in enumerate(model_channels):
            stage = nn.ModuleList([ConvNeXtBlock(channels) for _ in range(num_blocks[level])])
            if level + 1 < len(model_channels):
                stage.append(DownBlock(channels, model_channels[level + 1]))
            self.blocks.append(stage)

    def forward(self, feats, grid):
        """Mean, log variance and the grid of the latent."""
        feats = self.input_layer(feats)
        for stage in self.blocks:
            for block in stage:
                if isinstance(block, DownBlock):
                    feats, grid = block(feats, grid)
                else:
                    feats = block(feats, grid)
        mean, log_variance = self.to_latent(F.layer_norm(feats, feats.shape[-1:])).chunk(2, dim=-1)
        return mean, log_variance, grid


def predicted(level, logits, grid):
    """The choice of the released pipeline: children whose logit is above 0."""
    return (logits > 0).numpy()


def children_in(grid, wanted):
    """bool [P, 8]: which children of grid's voxels are voxels of the finer grid `wanted`."""
    return (wanted.rows_of(children_of(grid.coords)) >= 0).reshape(-1, 8)
