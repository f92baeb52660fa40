# SPDX-License-Identifier: MIT
"""Trains a texture encoder against the frozen texture decoder of a model directory, so that its latent space stays what it is. The encoder
makes latents for train_texture_flow.py and is never shipped. Writes WORK/texture_encoder.pt.

    train_texture_encoder.py LIBRARY WORK [--steps 2000] [--kernels libespalier-train-kernels.so]"""
import argparse
import os

import numpy as np
import torch

import kernels
from objects import load_library
from pipeline import TinyPipeline
from shape_data import Batch, new_encoder, voxels_of
from texture_data import recolored, texture_losses
from structure_data import VALIDATION
from training import Trainer, add_options, keep_memory

FIRST_SEED = 300000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=2000, rate=2e-3)
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build: several times faster")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    kernels.load(options.kernels)
    os.makedirs(options.work, exist_ok=True)
    library, random = load_library(options.library), np.random.default_rng(0)
    decoder = TinyPipeline(options.model).texture_decoder.requires_grad_(False)
    held_out = [Batch([voxels_of(library, VALIDATION + i)]) for i in range(options.held_out)]
    trainer = Trainer(new_encoder(), os.path.join(options.work, "texture_encoder.pt"), options.steps, options.rate, 0.99, stop=options.stop)
    items = []

    def losses():
        while len(items) < min(options.objects, 60 + 2 * trainer.step):  # made as they are needed
            items.append(voxels_of(library, FIRST_SEED + len(items)))
        batch = Batch([items[i].half(random) for i in random.integers(len(items), size=options.batch or 4)])
        return texture_losses(trainer.model, decoder, batch, recolored(batch, random))

    def evaluate(encoder):
        values = [texture_losses(encoder, decoder, batch, batch.material, noise=False) for batch in held_out]
        return {name: float(np.mean([v[name] for v in values])) for name in values[0]}

    trainer.run(losses, evaluate)


if __name__ == "__main__":
    main()
