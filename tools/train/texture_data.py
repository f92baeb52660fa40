# SPDX-License-Identifier: MIT
"""Textures of training objects, recoloured at random, and the texture autoencoder's loss."""
import numpy as np
import torch

from vae import children_in

WEIGHTS = torch.tensor([1.0, 1.0, 1.0, 0.4, 0.4, 0.2])  # colour, metallic, roughness, alpha
REGIONS = 16
KEPT = 0.6  # share of regions that keep their colours


def recolored(batch, random):
    """Material [n, 6] with other colours in some of the regions nearest to random voxels: borders anywhere, not only between parts."""
    coords = batch.grids[-1].coords
    material = batch.material.clone()
    for number in range(coords[-1, 0] + 1):
        rows = np.flatnonzero(coords[:, 0] == number)
        at = coords[rows, 1:].astype(np.float32)
        centers = at[random.integers(len(at), size=REGIONS)]
        region = ((at[:, None] - centers) ** 2).sum(-1).argmin(1)
        keep = random.random(REGIONS) < KEPT
        scale = np.where(keep[:, None], 1, random.choice([-1.0, 1.0], (REGIONS, 3)) * random.uniform(0.5, 1, (REGIONS, 3)))
        shift = np.where(keep[:, None], 0, random.uniform(-0.6, 0.6, (REGIONS, 3)))
        flip = np.where(keep[:, None] | (random.random((REGIONS, 2)) < 0.7), 1, -1)
        colors = material[rows, :3] * torch.from_numpy(scale[region]).float() + torch.from_numpy(shift[region]).float()
        material[rows, :3] = colors.clamp(-1, 1)
        material[rows, 3:5] *= torch.from_numpy(flip[region]).float()
    return material


def texture_losses(encoder, decoder, batch, material, kl_weight=0.03, noise=True):
    """Losses of an encoder and a decoder that subdivides as the objects do; "color" is the mean error of colours in 0..1."""
    mean, log_variance, grid = encoder(material, batch.grids[-1])
    log_variance = log_variance.clamp(-12, 4)
    latent = mean + (0.5 * log_variance).exp() * torch.randn_like(mean) if noise else mean
    out, fine, _ = decoder(latent, grid, lambda level, _, at: children_in(at, batch.grids[level + 1]))
    error = out - material[torch.from_numpy(batch.grids[-1].rows_of(fine.coords))]
    values = {"absolute": (error.abs() * WEIGHTS).mean(), "square": (error ** 2 * WEIGHTS).mean(),
              "kl": 0.5 * (mean ** 2 + log_variance.exp() - log_variance - 1).mean()}
    values["loss"] = values["absolute"] + 2 * values["square"] + kl_weight * values["kl"]
    values.update(color=error[:, :3].abs().mean() / 2, deviation=mean.std())
    return values
