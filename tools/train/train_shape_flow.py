# SPDX-License-Identifier: MIT
"""Trains the shape flow on the latents of WORK/shape_encoder.pt, from the weights of a model directory or, with --fresh, from nothing but
local heads (see docs/training.md). Writes WORK/shape_flow.pt; export.py makes a checkpoint of it.

    train_shape_flow.py LIBRARY WORK [--steps 2000]"""
import argparse
import os

import numpy as np
import torch

from flow import FlowModel, add_noise
from image_encoder import normalize_pictures
from objects import HELD_OUT, Object, load_library, preprocess
from pipeline import TinyPipeline
from shape_data import POSITION, Batch, Voxels, new_encoder
from training import Trainer, add_options, average_of

FIRST_SEED = 300000
VIEWS = 2
NO_CONDITION = 0.1  # share of samples that train the branch without a picture
HELD_OUT_TIMES = (0.15, 0.5, 0.85, 1.0)
BUCKET = 40  # objects of a batch come from so many of similar size


def position_channels(coords, side=16):
    return 1.7 * ((coords.astype(np.float32) + 0.5) / (side / 2) - 1)


class Latents:
    """Makes flow training items: coords [n, 3], normalised latent [n, 32], conditions of some views [v, tokens, channels]."""

    def __init__(self, library, pipeline, encoder):
        self.library, self.encoder, self.image_encoder = library, encoder, pipeline.image_encoder
        self.mean, self.deviation = pipeline.normalization("shape")
        self.side = pipeline.args["espalier"]["image_size"]

    @torch.no_grad()
    def make(self, seed, views=VIEWS):
        item = Object(self.library, seed)
        batch = Batch([Voxels(*item.voxels())])
        mean, _, grid = self.encoder(batch.features(), batch.grids[-1])
        latent = (mean - self.mean) / self.deviation
        coords = grid.coords[:, 1:]
        latent[:, -POSITION:] = torch.from_numpy(position_channels(coords))
        pictures = np.stack([preprocess(item.picture(view), self.side) for view in range(views)])
        return torch.from_numpy(coords.astype(np.uint8)), latent.half(), self.image_encoder(normalize_pictures(pictures)).half()


def padded(items, random=None):
    """Tensors of a batch, filled up to the largest item; the mask says which tokens exist."""
    most = max(len(coords) for coords, _, _ in items)
    coords, mask = torch.zeros(len(items), most, 3), torch.zeros(len(items), most, dtype=torch.bool)
    latent = torch.zeros(len(items), most, items[0][1].shape[1])
    for row, (at, values, _) in enumerate(items):
        coords[row, :len(at)], latent[row, :len(at)], mask[row, :len(at)] = at.float(), values.float(), True
    views = [c[random.integers(len(c)) if random is not None else 0] for _, _, c in items]
    return coords, latent, mask, torch.stack(views).float()


def losses(model, batch, t):
    """Flow matching at times t [B]: mean squared error of the velocity, over the latent's channels and over the position channels."""
    coords, latent, mask, condition = batch
    noised, velocity = add_noise(latent, torch.randn_like(latent), t[:, None, None])
    square = (model(noised, t, condition, coords, mask) - velocity)[mask] ** 2
    return {"loss": square.mean(), "latent": square[:, :-POSITION].mean(), "position": square[:, -POSITION:].mean()}


def add_local_heads(model):
    """Starts three of each block's heads as views of the token itself and of its two neighbours along one axis (by block in turn): biases
    that the rotary embedding turns into a preference for an offset, and smaller weights so that content matters less at first."""
    frequencies = [model.rope_freq[1] ** (-k / 4) for k in range(4)]
    width = model.channels // model.heads

    def wanted(offset):
        bias = torch.zeros(width)
        for axis in range(3):
            for k, strength in enumerate((1.0, 0.7, 0.3, 0.3)):
                pair = 2 * (4 * axis + k)
                bias[pair] = strength * np.cos(frequencies[k] * offset[axis])
                bias[pair + 1] = strength * np.sin(frequencies[k] * offset[axis])
        return 1.5 * bias

    with torch.no_grad():
        for number, block in enumerate(model.blocks):
            step = np.eye(3)[number % 3]
            attention = block.self_attn
            for head, offset, gain in ((0, 0 * step, 1.9), (1, step, 2.3), (2, -step, 2.3)):
                query = slice(head * width, (head + 1) * width)
                key = slice(model.channels + head * width, model.channels + (head + 1) * width)
                for rows, bias in ((query, wanted(offset)), (key, wanted(0 * step))):
                    attention.to_qkv.weight[rows] *= 0.15
                    attention.to_qkv.bias[rows] = bias
                attention.q_rms_norm.gamma[head] = gain
                attention.k_rms_norm.gamma[head] = gain


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=2000, rate=8e-4)
    parser.add_argument("--fresh", action="store_true", help="do not start from the model directory's weights")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    library, random, pipeline = load_library(options.library), np.random.default_rng(), TinyPipeline(options.model)
    data = Latents(library, pipeline, average_of(os.path.join(options.work, "shape_encoder.pt"), new_encoder()))
    held_out = sorted((data.make(HELD_OUT + i, 1) for i in range(options.held_out)), key=lambda item: len(item[0]))
    model = pipeline.shape_flow.train()
    if options.fresh:
        model = FlowModel(**pipeline.config("shape_slat_flow_model_512"))
        add_local_heads(model)
    trainer = Trainer(model, os.path.join(options.work, "shape_flow.pt"), options.steps, options.rate, stop=options.stop)
    items, size = [], options.batch or 8

    def next_losses():
        while len(items) < options.objects and len(items) < 100 + 2 * trainer.step:
            items.append(data.make(FIRST_SEED + len(items)))
        items.sort(key=lambda item: len(item[0])) if trainer.step % 20 == 0 else None
        first = int(random.integers(max(1, len(items) - BUCKET)))
        chosen = [items[i] for i in first + random.choice(min(BUCKET, len(items)), size, replace=False)]
        coords, latent, mask, condition = padded(chosen, random)
        condition = condition * (torch.rand(size, 1, 1) >= NO_CONDITION)
        return losses(model, (coords, latent, mask, condition), torch.sigmoid(torch.randn(size) * 1.2 + 0.5))

    def evaluate(average):
        groups = [held_out[i:i + 4] for i in range(0, len(held_out), 4)]
        return {f"t={t}": float(np.mean([losses(average, padded(group), torch.full((len(group),), t))["latent"] for group in groups]))
                for t in HELD_OUT_TIMES}

    trainer.run(next_losses, evaluate)


if __name__ == "__main__":
    main()
