# SPDX-License-Identifier: MIT
"""Trains the shape flow on WORK/latents and WORK/conditions (of slat_data.py), from the weights of a model directory or, with --fresh,
from nothing but local heads (see docs/training.md). Writes WORK/shape_flow.pt; export.py makes a checkpoint of it.

    train_shape_flow.py LIBRARY WORK [--steps 8000] [--kernels libespalier-train-kernels.so]"""
import argparse
import os

import numpy as np
import torch

import fast
import kernels
from flow import FlowModel, add_noise
from pipeline import POSITION_CHANNELS, TinyPipeline
from slat_data import Items, pack
from training import Trainer, add_options, keep_memory

NO_CONDITION = 0.1  # share of samples that train the branch without a picture
HELD_OUT_TIMES = (0.15, 0.5, 0.85, 1.0)


def spread_over(t, begin):
    """t [items] to rows [T, 1]."""
    return torch.repeat_interleave(t, begin.diff())[:, None]


def losses(model, batch, t):
    """Flow matching at times t [B]: mean squared error of the velocity, over the latent's channels and over the position channels."""
    noised, wanted = add_noise(batch["shape"], torch.randn_like(batch["shape"]), spread_over(t, batch["begin"]))
    square = (fast.velocity(model, noised, t, batch["condition"], batch["coords"], batch["begin"]) - wanted) ** 2
    return {"loss": square.mean(), "latent": square[:, :-POSITION_CHANNELS].mean(), "position": square[:, -POSITION_CHANNELS:].mean()}


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


def flow_options(parser):
    """The command line of both sparse flows."""
    add_options(parser, steps=8000, rate=8e-4)
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build: several times faster")
    parser.add_argument("--fresh", action="store_true", help="do not start from the model directory's weights")
    parser.add_argument("--first-step", type=float, default=0, metavar="SHARE",
                        help="of the samples at the time where a sampler begins, for a sampler of few steps (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    kernels.load(options.kernels)
    return options


def train_flow(model, path, options, kinds, batch_losses, random):
    """batch_losses(model, batch, t, random or None for evaluation)."""
    data, validation = Items(options.work, kinds), Items(options.work, kinds, "validation-")
    held_out = validation.items[:options.held_out]
    trainer = Trainer(model, path, options.steps, options.rate, stop=options.stop)
    trainer.log(f"{len(data)} objects, {len(held_out)} held out")
    size = options.batch or 8

    def next_losses():
        if trainer.step % 100 == 0:
            data.scan(options.objects)
        chosen = [data.items[i] for i in random.choice(len(data), min(size, len(data)), replace=False)]
        batch = pack(chosen, random)
        batch["condition"] = batch["condition"] * (torch.rand(len(chosen), 1, 1) >= NO_CONDITION)
        t = torch.sigmoid(torch.randn(len(chosen)) * 1.2 + 0.5)
        t[torch.rand(len(chosen)) < options.first_step] = 1
        return batch_losses(trainer.model, batch, t, random)

    def evaluate(average):
        groups = [pack(held_out[i:i + 4]) for i in range(0, len(held_out), 4)]
        return {f"t={t}": float(np.mean([batch_losses(average, group, torch.full((len(group["begin"]) - 1,), t), None)["latent"]
                                         for group in groups])) for t in HELD_OUT_TIMES}

    trainer.run(next_losses, evaluate)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options = flow_options(parser)
    pipeline = TinyPipeline(options.model)
    model = pipeline.shape_flow.train()
    if options.fresh:
        model = FlowModel(**pipeline.config("shape_slat_flow_model_512"))
        add_local_heads(model)
    train_flow(model, os.path.join(options.work, "shape_flow.pt"), options, ("latents", "conditions"),
               lambda network, batch, t, random: losses(network, batch, t), np.random.default_rng())


if __name__ == "__main__":
    main()
