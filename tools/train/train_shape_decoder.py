# SPDX-License-Identifier: MIT
"""Trains the shape decoder of a model directory on the latents of a frozen encoder: with the encoder's own uncertainty as noise, and with
--flow also on latents that the shape flow has been at: true ones, made noisy up to a time below 1 and brought back by the flow. These have
the flow's kind of error but still show the true surface, which a sample from nothing does not. Writes WORK/shape_decoder.pt.

    train_shape_decoder.py LIBRARY WORK --encoder shape_encoder_cut.pt [--steps 6000] [--flow WORK/shape_flow.pt]"""
import argparse
import os

import numpy as np
import torch
from torch.nn import functional as F

import fast
import kernels
from objects import Object, load_library, preprocess
from image_encoder import normalize_pictures
from pipeline import POSITION_CHANNELS, TinyPipeline
from shape_data import Batch, Voxels, encoder_of, reconstruction_losses, voxels_of
from slat_data import position_channels
from structure_data import VALIDATION
from training import Trainer, add_options, average_of, keep_memory

FIRST_SEED = 300000
MOST_NOISE = 1.3       # of the encoder's own deviation
FLOW_TIMES = 0.15, 0.6
STEPS_PER_TIME = 12    # a flow from t makes 12 t steps
FLOW_SHARE = 0.5       # of batches, where there is a pool


@torch.no_grad()
def encoded(encoder, batch, noise):
    """Latents of a batch with that much of the posterior's deviation, position channels zero, and their grid."""
    mean, log_variance, grid = encoder(batch.features(), batch.grids[-1])
    latent = mean + noise * (0.5 * log_variance.clamp(-12, 4)).exp() * torch.randn_like(mean)
    latent[:, -POSITION_CHANNELS:] = 0
    return latent, grid


class FlowSamples:
    """Objects with latents that the flow has been at: a pool in which the oldest is replaced."""

    def __init__(self, library, pipeline, encoder, flow, size):
        self.library, self.pipeline, self.encoder, self.flow, self.size, self.items = library, pipeline, encoder, flow, size, []
        self.mean, self.deviation = pipeline.normalization("shape")

    @torch.no_grad()
    def make(self, seed, random):
        item = Object(self.library, seed)
        voxels = Voxels(*item.voxels())
        latent, grid = encoded(self.encoder, Batch([voxels]), 0.0)
        data, coords = (latent - self.mean) / self.deviation, torch.from_numpy(grid.coords[:, 1:]).float()
        data[:, -POSITION_CHANNELS:] = torch.from_numpy(position_channels(grid.coords[:, 1:]))
        picture = preprocess(item.picture(0), self.pipeline.args["espalier"]["image_size"])
        condition = self.pipeline.image_encoder(normalize_pictures(picture[None]))
        begin, t = torch.tensor([0, len(coords)]), random.uniform(*FLOW_TIMES)
        data = (1 - t) * data + t * torch.randn_like(data)
        times = np.linspace(t, 0, max(1, round(STEPS_PER_TIME * t)) + 1)
        for now, then in zip(times, times[1:]):
            data = data - (now - then) * fast.velocity(self.flow, data, torch.tensor([now]).float(), condition, coords, begin)
        latent = data * self.deviation + self.mean
        latent[:, -POSITION_CHANNELS:] = 0
        return voxels, latent, grid

    def add(self, seed, random):
        self.items.append(self.make(seed, random))
        if len(self.items) > self.size:
            self.items.pop(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=6000, rate=1e-3)
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build: several times faster")
    parser.add_argument("--encoder", default="shape_encoder.pt", help="in WORK (%(default)s)")
    parser.add_argument("--flow", help="checkpoint of the shape flow")
    parser.add_argument("--pool", type=int, default=200, help="objects with the flow's latents (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    kernels.load(options.kernels)
    library, random, pipeline = load_library(options.library), np.random.default_rng(), TinyPipeline(options.model)
    encoder, decoder = encoder_of(os.path.join(options.work, options.encoder)), pipeline.shape_decoder.train()
    held_out = [Batch([voxels_of(library, VALIDATION + i)]) for i in range(options.held_out)]
    samples, held_samples = None, []
    if options.flow:
        samples = FlowSamples(library, pipeline, encoder, average_of(options.flow, pipeline.shape_flow), options.pool)
        held_samples = [samples.make(VALIDATION + i, np.random.default_rng(i)) for i in range(options.held_out)]
    trainer = Trainer(decoder, os.path.join(options.work, "shape_decoder.pt"), options.steps, options.rate, 0.995, stop=options.stop)
    items = []

    def next_losses():
        while len(items) < min(options.objects, 60 + 2 * trainer.step):
            items.append(voxels_of(library, FIRST_SEED + len(items)))
        if samples and (trainer.step % 4 == 0 or not samples.items):
            samples.add(FIRST_SEED + int(random.integers(10 ** 5)), random)
        if samples and random.random() < FLOW_SHARE:
            voxels, latent, grid = samples.items[random.integers(len(samples.items))]
            return reconstruction_losses(trainer.model, latent, grid, Batch([voxels]))
        batch = Batch([items[i].half(random) for i in random.integers(len(items), size=options.batch or 2)])
        return reconstruction_losses(trainer.model, *encoded(encoder, batch, MOST_NOISE * random.random()), batch)

    def evaluate(average):
        results = {"": [reconstruction_losses(average, *encoded(encoder, batch, 0.0), batch) for batch in held_out],
                   "flow_": [reconstruction_losses(average, latent, grid, Batch([voxels])) for voxels, latent, grid in held_samples]}
        return {kind + name: float(np.mean([v[name] for v in values])) for kind, values in results.items() if values for name in values[0]}

    trainer.run(next_losses, evaluate)


if __name__ == "__main__":
    main()
