# SPDX-License-Identifier: MIT
"""What the stages of the sparse encoders share: an encoder is trained on half objects against a frozen decoder, so that the latent space
stays what it is."""
import argparse
import os

import numpy as np
import torch

import kernels
from objects import load_library
from pipeline import TinyPipeline
from shape_data import Batch, new_encoder, voxels_of
from training import Trainer, add_options, keep_memory

FIRST_SEED = 300000


def train_encoder(description, name, steps, batch_size, held_out_seed, decoder_of, train_losses, held_out_losses):
    """Writes WORK/NAME.pt. decoder_of(pipeline); train_losses(encoder, decoder, batch, random) and held_out_losses(encoder, decoder,
    batch) give a dictionary of losses."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    add_options(parser, steps=steps, rate=2e-3)
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build: several times faster")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    kernels.load(options.kernels)
    os.makedirs(options.work, exist_ok=True)
    library, random = load_library(options.library), np.random.default_rng(0)
    decoder = decoder_of(TinyPipeline(options.model)).requires_grad_(False)
    held_out = [Batch([voxels_of(library, held_out_seed + i)]) for i in range(options.held_out)]
    trainer = Trainer(new_encoder(), os.path.join(options.work, name + ".pt"), options.steps, options.rate, 0.99, stop=options.stop)
    items = []

    def losses():
        while len(items) < min(options.objects, 60 + 2 * trainer.step):  # made as they are needed
            items.append(voxels_of(library, FIRST_SEED + len(items)))
        batch = Batch([items[i].half(random) for i in random.integers(len(items), size=options.batch or batch_size)])
        return train_losses(trainer.model, decoder, batch, random)

    def evaluate(encoder):
        values = [held_out_losses(encoder, decoder, batch) for batch in held_out]
        return {key: float(np.mean([v[key] for v in values])) for key in values[0]}

    trainer.run(losses, evaluate)
