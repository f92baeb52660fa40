# SPDX-License-Identifier: MIT
"""DINOv3 vision transformer with the tensor names of Transformers; its output is the condition of the flow models."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from flow import attend

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


def normalize_pictures(pictures):
    """u8 [B, H, W, 3] -> float [B, 3, H, W]."""
    return (torch.from_numpy(pictures.copy()).permute(0, 3, 1, 2).float() / 255 - MEAN) / DEVIATION


class LayerScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lambda1 = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x):
        return x * self.lambda1


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.v_proj, self.o_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, cos, sin):
        q, k, v = (layer(x).view(x.shape[0], x.shape[1], self.heads, -1) for layer in (self.q_proj, self.k_proj, self.v_proj))
        first = x.shape[1] - len(cos)  # class and register tokens do not turn

        def turn(tokens):
            patches = tokens[:, first:]
            low, high = patches.chunk(2, dim=-1)
            return torch.cat([tokens[:, :first], patches * cos[:, None] + torch.cat([-high, low], -1) * sin[:, None]], dim=1)

        return self.o_proj(attend(turn(q), turn(k), v))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up_proj, self.down_proj = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down_proj(F.gelu(self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self, width, hidden, heads, eps):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attention, self.mlp = SelfAttention(width, heads), FeedForward(width, hidden)
        self.layer_scale1, self.layer_scale2 = LayerScale(width), LayerScale(width)

    def forward(self, x, cos, sin):
        x = x + self.layer_scale1(self.attention(self.norm1(x), cos, sin))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class Embeddings(nn.Module):
    def __init__(self, width, registers, patch, channels):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))  # in checkpoints, not used
        self.register_tokens = nn.Parameter(torch.randn(1, registers, width) * 0.02)
        self.patch_embeddings = nn.Conv2d(channels, width, patch, patch)


class ImageEncoder(nn.Module):
    def __init__(self, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, patch_size=16, num_register_tokens=4,
                 layer_norm_eps=1e-5, rope_theta=100.0, num_channels=3, **_):
        super().__init__()
        self.head_width, self.theta = hidden_size // num_attention_heads, rope_theta
        self.embeddings = Embeddings(hidden_size, num_register_tokens, patch_size, num_channels)
        self.layer = nn.ModuleList([Layer(hidden_size, intermediate_size, num_attention_heads, layer_norm_eps)
                                    for _ in range(num_hidden_layers)])
        self.norm = nn.LayerNorm(hidden_size, layer_norm_eps)  # in checkpoints; the pipeline normalises without it

    def rope(self, rows, columns):
        frequencies = 1 / self.theta ** torch.arange(0, 1, 4 / self.head_width, dtype=torch.float32)
        y, x = ((torch.arange(count, dtype=torch.float32) + 0.5) / count * 2 - 1 for count in (rows, columns))
        grid = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).reshape(-1, 2, 1)
        angles = (2 * math.pi * grid * frequencies).flatten(1).repeat(1, 2)
        return angles.cos(), angles.sin()

    def forward(self, pixels):
        patches = self.embeddings.patch_embeddings(pixels)
        cos, sin = self.rope(*patches.shape[2:])
        count = len(pixels)
        x = torch.cat([self.embeddings.cls_token.expand(count, -1, -1), self.embeddings.register_tokens.expand(count, -1, -1),
                       patches.flatten(2).transpose(1, 2)], dim=1)
        for layer in self.layer:
            x = layer(x, cos, sin)
        return F.layer_norm(x, x.shape[-1:])
