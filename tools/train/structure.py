# SPDX-License-Identifier: MIT
"""Dense decoder of the structure latent (TRELLIS.2 SparseStructureDecoder) with the checkpoint's tensor names, and an encoder for it."""
import torch
from torch import nn
from torch.nn import functional as F


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of a volume [B, C, X, Y, Z]."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1).float()).movedim(-1, 1)


class ResBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm1, self.norm2 = ChannelNorm(channels), ChannelNorm(channels)
        self.conv1, self.conv2 = nn.Conv3d(channels, channels, 3, padding=1), nn.Conv3d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))


def pixel_shuffle_3d(x):
    """[B, C * 8, X, Y, Z] -> [B, C, 2X, 2Y, 2Z]."""
    count, channels, sx, sy, sz = x.shape
    x = x.reshape(count, channels // 8, 2, 2, 2, sx, sy, sz).permute(0, 1, 5, 2, 6, 3, 7, 4)
    return x.reshape(count, channels // 8, 2 * sx, 2 * sy, 2 * sz)


class Up(nn.Module):
    def __init__(self, ci, co):
        super().__init__()
        self.conv = nn.Conv3d(ci, 8 * co, 3, padding=1)

    def forward(self, x):
        return pixel_shuffle_3d(self.conv(x))


class StructureDecoder(nn.Module):
    def __init__(self, out_channels, latent_channels, num_res_blocks, num_res_blocks_middle, channels, norm_type="layer", **_):
        super().__init__()
        self.input_layer = nn.Conv3d(latent_channels, channels[0], 3, padding=1)
        self.middle_block = nn.Sequential(*[ResBlock(channels[0]) for _ in range(num_res_blocks_middle)])
        self.blocks = nn.ModuleList()
        for level, width in enumerate(channels):
            self.blocks.extend(ResBlock(width) for _ in range(num_res_blocks))
            if level + 1 < len(channels):
                self.blocks.append(Up(width, channels[level + 1]))
        norm = nn.GroupNorm(32, channels[-1]) if norm_type == "group" else ChannelNorm(channels[-1])
        self.out_layer = nn.Sequential(norm, nn.SiLU(), nn.Conv3d(channels[-1], out_channels, 3, padding=1))

    def forward(self, latent):
        """Occupancy logits of a volume with 2^(levels - 1) times the side of the latent [B, C, X, Y, Z]."""
        x = self.middle_block(self.input_layer(latent))
        for block in self.blocks:
            x = block(x)
        return self.out_layer(x)


def position_channels(side):
    """[3, side, side, side]: the last channels of every latent, constants that tell the flow's tokens where they are."""
    index = torch.arange(side, dtype=torch.float32)
    axis = (index - index.mean()) / index.std(unbiased=False)
    return torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"))


class StructureEncoder(nn.Module):
    """Occupancy [B, 1, X, Y, Z] to mean and log variance of the latent, the decoder's mirror. Not part of released or shipped checkpoints;
    needed to make latents for the flow."""

    def __init__(self, latent_channels, channels, num_res_blocks=1):
        super().__init__()
        self.input_layer = nn.Conv3d(1, channels[0], 3, padding=1)
        self.blocks = nn.ModuleList()
        for level, width in enumerate(channels):
            self.blocks.extend(ResBlock(width) for _ in range(num_res_blocks))
            if level + 1 < len(channels):
                self.blocks.append(nn.Conv3d(width, channels[level + 1], 2, stride=2))
        self.out_layer = nn.Sequential(ChannelNorm(channels[-1]), nn.SiLU(), nn.Conv3d(channels[-1], 2 * latent_channels, 3, padding=1))

    def forward(self, occupied):
        x = self.input_layer(occupied)
        for block in self.blocks:
            x = block(x)
        return self.out_layer(x).chunk(2, dim=1)
