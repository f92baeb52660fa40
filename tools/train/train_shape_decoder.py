# SPDX-License-Identifier: MIT
"""Trains the shape decoder of a model directory on the latents of a frozen encoder: with the encoder's own uncertainty as noise, and with
--flow also on latents that the shape flow has been at: true ones, made noisy up to a time below 1 and brought back by the flow. These have
the flow's kind of error but still show the true surface, which a sample from nothing does not. With --samples also on such samples, cells
and all, from pictures alone: towards the closed surface that is nearest to what the decoder made of them at the start (consistent.py).
Writes WORK/shape_decoder.pt.

    train_shape_decoder.py LIBRARY WORK --encoder shape_encoder_cut.pt [--steps 6000] [--flow WORK/shape_flow.pt [--samples]]"""
import argparse
import copy
import os

import numpy as np
import torch

import fast
import kernels
from consistent import consistent_voxels
from flow import dense_coords, sample
from objects import Object, load_library, preprocess
from image_encoder import normalize_pictures
from pipeline import POSITION_CHANNELS, TinyPipeline
from shape_data import Batch, Voxels, encoder_of, reconstruction_losses, voxels_of
from slat_data import position_channels
from sparse import Grid
from structure_data import VALIDATION
from training import Trainer, add_options, average_of, keep_memory

FIRST_SEED = 300000
MOST_NOISE = 1.3       # of the encoder's own deviation
FLOW_TIMES = 0.15, 0.6
STEPS_PER_TIME = 12    # a flow from t makes 12 t steps
POOL_SHARES = (), (0.5,), (0.25, 0.5)  # of batches, by the number of pools
FIRST_SAMPLES, NEW_SAMPLE = 40, 12  # in each pool at the start; steps after which it gets a new one
TRUE_CELLS = 0.3       # of the samples from pictures: with the object's own cells
MOST_ADDED = 0.25      # a consistent surface with more new voxels is one around a hole in the cells: not what should be learned


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

    def condition(self, item):
        picture = preprocess(item.picture(0), self.pipeline.args["espalier"]["image_size"])
        return self.pipeline.image_encoder(normalize_pictures(picture[None]))

    def flowed(self, data, grid, condition, times):
        """The latent at the end of Euler steps without guidance."""
        coords, begin = torch.from_numpy(grid.coords[:, 1:]).float(), torch.tensor([0, len(grid)])
        for now, then in zip(times, times[1:]):
            data = data - (now - then) * fast.velocity(self.flow, data, torch.tensor([now]).float(), condition, coords, begin)
        latent = data * self.deviation + self.mean
        latent[:, -POSITION_CHANNELS:] = 0
        return latent

    @torch.no_grad()
    def make(self, seed, random):
        item = Object(self.library, seed)
        voxels = Voxels(*item.voxels())
        latent, grid = encoded(self.encoder, Batch([voxels]), 0.0)
        data = (latent - self.mean) / self.deviation
        data[:, -POSITION_CHANNELS:] = torch.from_numpy(position_channels(grid.coords[:, 1:]))
        t = random.uniform(*FLOW_TIMES)
        data = (1 - t) * data + t * torch.randn_like(data)
        return voxels, self.flowed(data, grid, self.condition(item), np.linspace(t, 0, max(1, round(STEPS_PER_TIME * t)) + 1)), grid

    def add(self, seed, random):
        self.items.append(self.make(seed, random))
        if len(self.items) > self.size:
            self.items.pop(0)


class PictureSamples(FlowSamples):
    """Latents from pictures alone, with the voxels of the closed surface nearest to what the decoder, as it is now, makes of them."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.decoder = copy.deepcopy(self.pipeline.shape_decoder).eval().requires_grad_(False)

    def cells(self, item, condition, random):
        if random.random() < TRUE_CELLS:
            return np.unique(item.voxels()[0] // 4, axis=0)
        args = self.pipeline.config("sparse_structure_flow_model")
        side, channels = args["resolution"], args["in_channels"]
        latent = sample(self.pipeline.structure_flow, torch.randn(1, side ** 3, channels), condition, dense_coords(side),
                        self.pipeline.sampler("sparse_structure"), dense=True)
        return torch.nonzero(self.pipeline.structure_decoder(latent.transpose(1, 2).unflatten(2, (side,) * 3))[0, 0] > 0).numpy()

    @torch.no_grad()
    def make(self, seed, random):
        item = Object(self.library, seed)
        condition = self.condition(item)
        grid = Grid(np.insert(self.cells(item, condition, random), 0, 0, axis=1))
        sampler = self.pipeline.sampler("shape_slat")
        steps, rescale = random.integers(sampler["steps"]) + 1, sampler["rescale_t"]  # fewer steps are often as good
        times = np.linspace(1, 0, steps + 1)
        latent = self.flowed(torch.randn(len(grid), len(self.mean)), grid, condition, rescale * times / (1 + (rescale - 1) * times))
        voxels, added = consistent_voxels(self.library, self.decoder, latent, grid)
        return (voxels, latent, grid) if added <= MOST_ADDED else self.make(seed + 1, random)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=6000, rate=1e-3)
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build: several times faster")
    parser.add_argument("--encoder", default="shape_encoder.pt", help="in WORK (%(default)s)")
    parser.add_argument("--flow", help="checkpoint of the shape flow")
    parser.add_argument("--samples", action="store_true", help="half of the pool's uses: samples from pictures alone")
    parser.add_argument("--pool", type=int, default=200, help="objects with the flow's latents (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    kernels.load(options.kernels)
    library, random, pipeline = load_library(options.library), np.random.default_rng(), TinyPipeline(options.model)
    encoder, decoder = encoder_of(os.path.join(options.work, options.encoder)), pipeline.shape_decoder.train()
    held_out = [Batch([voxels_of(library, VALIDATION + i)]) for i in range(options.held_out)]
    pools, held_samples = [], []
    if options.flow:
        average_of(options.flow, pipeline.shape_flow)
        for kind in (FlowSamples, PictureSamples)[:1 + options.samples]:
            pools.append(kind(library, pipeline, encoder, pipeline.shape_flow, options.pool))
            torch.manual_seed(5)
            held_samples.append([pools[-1].make(VALIDATION + i, np.random.default_rng(i)) for i in range(options.held_out)])
    trainer = Trainer(decoder, os.path.join(options.work, "shape_decoder.pt"), options.steps, options.rate, 0.995, stop=options.stop)
    items = []

    def next_losses():
        while len(items) < min(options.objects, 60 + 2 * trainer.step):
            items.append(voxels_of(library, FIRST_SEED + len(items)))
        for pool in pools:
            for _ in range(max(trainer.step % NEW_SAMPLE == 0, min(FIRST_SAMPLES, pool.size) - len(pool.items))):
                pool.add(FIRST_SEED + int(random.integers(10 ** 5)), random)
        number = int(np.searchsorted(np.cumsum(POOL_SHARES[len(pools)]), random.random(), "right"))
        if number < len(pools):
            voxels, latent, grid = pools[number].items[random.integers(len(pools[number].items))]
            return reconstruction_losses(trainer.model, latent, grid, Batch([voxels]))
        batch = Batch([items[i].half(random) for i in random.integers(len(items), size=options.batch or 2)])
        return reconstruction_losses(trainer.model, *encoded(encoder, batch, MOST_NOISE * random.random()), batch)

    def evaluate(average):
        results = {"": [reconstruction_losses(average, *encoded(encoder, batch, 0.0), batch) for batch in held_out]}
        for kind, items in zip(("flow_", "sample_"), held_samples):
            results[kind] = [reconstruction_losses(average, latent, grid, Batch([voxels])) for voxels, latent, grid in items]
        return {kind + name: float(np.mean([v[name] for v in values])) for kind, values in results.items() if values for name in values[0]}

    trainer.run(next_losses, evaluate)


if __name__ == "__main__":
    main()
