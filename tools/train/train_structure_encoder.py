# SPDX-License-Identifier: MIT
"""Trains a structure encoder against the frozen structure decoder of a model directory, so that its latent space stays what it is. The
encoder makes latents for the structure flow and is never shipped. Needs the pictures of structure_data.py (for their occupancy). Writes
WORK/structure_encoder.pt.

    train_structure_encoder.py LIBRARY WORK [--steps 1500]"""
import argparse
import os

import numpy as np
import torch
from torch.nn import functional as F

from pipeline import TinyPipeline
from structure import StructureEncoder, position_channels
from structure_data import Pictures
from training import Trainer, add_options

POSITION = 3
CHANNELS = (16, 32, 64)


def new_structure_encoder(latent=8):
    return StructureEncoder(latent - POSITION, CHANNELS)


def with_position(latent):
    """The decoder and the flow also get the position channels."""
    return torch.cat([latent, position_channels(latent.shape[-1]).expand(len(latent), -1, -1, -1, -1)], dim=1)


def overlap(logits, occupied):
    """Intersection over union per object, bool occupied [B, X, Y, Z]."""
    got = logits.squeeze(1) > 0
    return (got & occupied).flatten(1).sum(1) / (got | occupied).flatten(1).sum(1)


def autoencoder_losses(encoder, decoder, occupied, kl_weight, noise=True):
    mean, log_variance = encoder(occupied[:, None].float())
    log_variance = log_variance.clamp(-12, 4)
    latent = mean + (0.5 * log_variance).exp() * torch.randn_like(mean) if noise else mean
    logits = decoder(with_position(latent))
    kl = 0.5 * (mean ** 2 + log_variance.exp() - log_variance - 1).mean()
    error = F.binary_cross_entropy_with_logits(logits[:, 0], occupied.float())
    return {"loss": error + kl_weight * kl, "error": error, "kl": kl, "iou": overlap(logits, occupied).mean(),
            "deviation": mean.std()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=1500, rate=2e-3)
    parser.add_argument("--kl", type=float, default=0.025, help="weight of the divergence (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    random, size = np.random.default_rng(), options.batch or 16
    decoder = TinyPipeline(options.model).structure_decoder.requires_grad_(False)
    pictures = Pictures(os.path.join(options.work, "pictures"))
    validation = torch.from_numpy(Pictures(os.path.join(options.work, "validation")).volumes()[:options.held_out])
    trainer = Trainer(new_structure_encoder(), os.path.join(options.work, "structure_encoder.pt"), options.steps, options.rate, 0.99,
                      stop=options.stop)
    volumes = pictures.volumes()

    def losses():
        nonlocal volumes
        if trainer.step % 100 == 0 and pictures.scan():
            volumes = pictures.volumes()
        chosen = torch.from_numpy(volumes[random.integers(len(volumes), size=size)])
        return autoencoder_losses(trainer.model, decoder, chosen.flip(1) if random.random() < 0.5 else chosen, options.kl)

    def evaluate(encoder):
        return {name: float(value) for name, value in autoencoder_losses(encoder, decoder, validation, options.kl, False).items()}

    trainer.run(losses, evaluate)


if __name__ == "__main__":
    main()
