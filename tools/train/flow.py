# SPDX-License-Identifier: MIT
"""The flow transformers (TRELLIS.2 SparseStructureFlowModel and SLatFlowModel: one network, dense or sparse tokens) with the
checkpoints' tensor names, the flow matching loss, and the Euler sampler with guidance."""
import math

import torch
from torch import nn
from torch.nn import functional as F

EPS = 1e-6


class RmsNorm(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(heads, width))

    def forward(self, x):
        inverse = x.float().square().sum(-1, keepdim=True).clamp_min(1e-24).rsqrt()
        return x * inverse * (self.gamma * self.gamma.shape[1] ** 0.5)


def rotate(x, cos, sin):
    """Rotary embedding of interleaved pairs; x [B, N, heads, width], cos and sin [B, N, width / 2]."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.complex(cos, sin).unsqueeze(-2)).flatten(-2)


def attend(q, k, v, mask=None):
    """[B, N, heads, width] each; mask [B, keys], true for tokens that exist."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, channels, heads, context_channels=None):
        super().__init__()
        self.heads = heads
        if context_channels is None:
            self.to_qkv = nn.Linear(channels, 3 * channels)
        else:
            self.to_q = nn.Linear(channels, channels)
            self.to_kv = nn.Linear(context_channels, 2 * channels)
        self.q_rms_norm = RmsNorm(heads, channels // heads)
        self.k_rms_norm = RmsNorm(heads, channels // heads)
        self.to_out = nn.Linear(channels, channels)

    def split(self, x, parts):
        return x.view(x.shape[0], x.shape[1], parts, self.heads, -1).unbind(2)

    def forward(self, x, rope=None, mask=None, context=None):
        """context [B or fewer, M, C]: rows of x that follow each other may share one."""
        if context is None:
            q, k, v = self.split(self.to_qkv(x), 3)
            q, k = rotate(self.q_rms_norm(q), *rope), rotate(self.k_rms_norm(k), *rope)
        else:
            (q,), (k, v) = self.split(self.to_q(x), 1), self.split(self.to_kv(context), 2)
            q, k, mask = self.q_rms_norm(q).reshape(len(k), -1, *q.shape[2:]), self.k_rms_norm(k), None
        return self.to_out(attend(q, k, v, mask).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, channels, ratio):
        super().__init__()
        hidden = int(channels * ratio)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, channels))

    def forward(self, x):
        return self.mlp(x)


class Block(nn.Module):
    def __init__(self, channels, context_channels, heads, ratio):
        super().__init__()
        self.modulation = nn.Parameter(torch.randn(6 * channels) / channels ** 0.5)
        self.norm2 = nn.LayerNorm(channels, EPS)
        self.self_attn = Attention(channels, heads)
        self.cross_attn = Attention(channels, heads, context_channels)
        self.mlp = FeedForward(channels, ratio)

    def forward(self, x, modulation, context, rope, mask):
        shift1, scale1, gate1, shift2, scale2, gate2 = (self.modulation + modulation).unsqueeze(1).chunk(6, dim=-1)
        width = x.shape[-1:]
        x = x + gate1 * self.self_attn(F.layer_norm(x, width, eps=EPS) * (1 + scale1) + shift1, rope, mask)
        x = x + self.cross_attn(self.norm2(x), context=context)
        return x + gate2 * self.mlp(F.layer_norm(x, width, eps=EPS) * (1 + scale2) + shift2)


class TimestepEmbedder(nn.Module):
    def __init__(self, channels, frequencies=256):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(frequencies, channels), nn.SiLU(), nn.Linear(channels, channels))

    def forward(self, t):  # t in 0..1000
        half = self.mlp[0].in_features // 2
        angles = t[:, None] * torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        return self.mlp(torch.cat([angles.cos(), angles.sin()], dim=-1))


class FlowModel(nn.Module):
    """args as in the checkpoint's JSON; keys that do not change the network here are ignored."""

    def __init__(self, in_channels, out_channels, model_channels, cond_channels, num_blocks, num_heads, mlp_ratio,
                 rope_freq=(1.0, 10000.0), **_):
        super().__init__()
        self.channels, self.heads, self.rope_freq = model_channels, num_heads, rope_freq
        self.t_embedder = TimestepEmbedder(model_channels)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(model_channels, 6 * model_channels))
        self.input_layer = nn.Linear(in_channels, model_channels)
        self.blocks = nn.ModuleList([Block(model_channels, cond_channels, num_heads, mlp_ratio) for _ in range(num_blocks)])
        self.out_layer = nn.Linear(model_channels, out_channels)
        self.initialize(in_channels, num_blocks)

    def initialize(self, in_channels, num_blocks):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=(2 / (5 * self.channels)) ** 0.5)
                nn.init.zeros_(module.bias)
        for block in self.blocks:
            for layer in (block.self_attn.to_out, block.cross_attn.to_out, block.mlp.mlp[2]):
                nn.init.normal_(layer.weight, std=(5 * num_blocks * self.channels) ** -0.5)
        nn.init.normal_(self.input_layer.weight, std=in_channels ** -0.5)
        for layer in (self.t_embedder.mlp[0], self.t_embedder.mlp[2]):
            nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(self.adaLN_modulation[1].weight)
        nn.init.zeros_(self.out_layer.weight)

    def rope(self, coords):
        """cos and sin [B, N, head width / 2] of coordinates [B, N, 3]; pairs that are left over do not turn."""
        pairs = self.channels // self.heads // 2
        per_axis = pairs // 3
        frequencies = self.rope_freq[0] / self.rope_freq[1] ** (torch.arange(per_axis, dtype=torch.float32) / per_axis)
        angles = (coords.float()[..., None] * frequencies).flatten(-2)
        angles = F.pad(angles, (0, pairs - angles.shape[-1]))
        return angles.cos(), angles.sin()

    def forward(self, x, t, context, coords, mask=None):
        """Velocity [B, N, out] of tokens x [B, N, in] at times t [B] (0: data, 1: noise); context [B, M, cond] (or fewer, see Attention),
        coords [B, N, 3]."""
        modulation = self.adaLN_modulation(self.t_embedder(t * 1000))
        rope = self.rope(coords)
        hidden = self.input_layer(x)
        for block in self.blocks:
            hidden = block(hidden, modulation, context, rope, mask)
        return self.out_layer(F.layer_norm(hidden, hidden.shape[-1:]))


def dense_coords(side):
    axis = torch.arange(side)
    return torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1).reshape(1, -1, 3)


def add_noise(data, noise, t, sigma_min=1e-5):
    """The noised sample at t and the velocity that a model has to predict there; t broadcasts over data."""
    return (1 - t) * data + (sigma_min + (1 - sigma_min) * t) * noise, (1 - sigma_min) * noise - data


def guided_velocity(x, t, with_context, without_context, sampler, dense):
    strength, rescale, sigma = sampler["guidance_strength"], sampler["guidance_rescale"], sampler["sigma_min"]
    velocity = strength * with_context + (1 - strength) * without_context
    if rescale <= 0:
        return velocity
    a, b = 1 - sigma, sigma + (1 - sigma) * t

    def spread(data):  # a dense volume: deviation over all elements; tokens: of the means over channels, as the reference has it
        if dense:
            return data.flatten(1).std(1).view(-1, 1, 1)
        mean, square = data.mean(-1, keepdim=True).mean(1, keepdim=True), (data ** 2).mean(-1, keepdim=True).mean(1, keepdim=True)
        return (square - mean ** 2).sqrt()

    positive, guided = a * x - b * with_context, a * x - b * velocity
    guided = rescale * guided * (spread(positive) / spread(guided)) + (1 - rescale) * guided
    return (a * x - guided) / b


@torch.no_grad()
def sample(model, noise, context, coords, sampler, concat=None, dense=False):
    """Euler steps from noise to a latent. sampler: steps, guidance_strength, guidance_rescale, guidance_interval, rescale_t, sigma_min."""
    x, steps, rescale_t = noise, sampler["steps"], sampler["rescale_t"]
    times = [1 - i / steps for i in range(steps + 1)]
    times = [rescale_t * t / (1 + (rescale_t - 1) * t) for t in times]
    begin, end = sampler["guidance_interval"]
    for t, t_next in zip(times, times[1:]):
        tokens = x if concat is None else torch.cat([x, concat], dim=-1)
        at = torch.full((len(x),), t)
        velocity = model(tokens, at, context, coords)
        if begin <= t <= end and sampler["guidance_strength"] != 1:
            velocity = guided_velocity(x, t, velocity, model(tokens, at, torch.zeros_like(context), coords), sampler, dense)
        x = x - (t - t_next) * velocity
    return x
