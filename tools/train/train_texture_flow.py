# SPDX-License-Identifier: MIT
"""Trains the texture flow on WORK/latents, WORK/texture and WORK/conditions (of slat_data.py --texture), from the weights of a model
directory or, with --fresh, from local heads. With --shape-flow, for shapes sampled in one step. Writes WORK/texture_flow.pt; export.py
makes a checkpoint of it.

    train_texture_flow.py LIBRARY WORK [--steps 8000] [--kernels libespalier-train-kernels.so]"""
import argparse
import os

import numpy as np
import torch

import fast
from flow import FlowModel, add_noise
from pipeline import POSITION_CHANNELS, TinyPipeline
from train_shape_flow import add_local_heads, flow_options, spread_over, train_flow
from training import average_of

SHAPE_NOISE = 0.3  # a sampled shape is not as exact as those of the training
NO_POSITION = 0.1


def blurred_shape(batch, random):
    """The shape latents as a careless shape flow might make them: noise of up to SHAPE_NOISE, sometimes without position channels."""
    items = len(batch["begin"]) - 1
    noise = torch.from_numpy(random.uniform(0, SHAPE_NOISE, items)).float()
    position = torch.from_numpy((random.random(items) >= NO_POSITION).astype(np.float32))
    shape = batch["shape"] + spread_over(noise, batch["begin"]) * torch.randn_like(batch["shape"])
    shape[:, -POSITION_CHANNELS:] = batch["shape"][:, -POSITION_CHANNELS:] * spread_over(position, batch["begin"])
    return shape


@torch.no_grad()
def sampled_shape(flow, batch):
    """What one Euler step makes of noise."""
    noise = torch.randn_like(batch["shape"])
    return noise - fast.velocity(flow, noise, torch.ones(len(batch["begin"]) - 1), batch["condition"], batch["coords"], batch["begin"])


def losses(model, batch, t, random, shape_flow=None):
    noised, wanted = add_noise(batch["texture"], torch.randn_like(batch["texture"]), spread_over(t, batch["begin"]))
    if shape_flow is not None:
        shape = sampled_shape(shape_flow, batch)
    else:
        shape = batch["shape"] if random is None else blurred_shape(batch, random)
    got = fast.velocity(model, torch.cat([noised, shape], dim=1), t, batch["condition"], batch["coords"], batch["begin"])
    square = ((got - wanted) ** 2).mean()
    return {"loss": square, "latent": square}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape-flow", help="checkpoint of train_shape_flow.py")
    options = flow_options(parser)
    pipeline = TinyPipeline(options.model)
    model, shape_flow = pipeline.texture_flow.train(), None
    if options.shape_flow:
        shape_flow = average_of(options.shape_flow, pipeline.shape_flow).requires_grad_(False)
    if options.fresh:
        model = FlowModel(**pipeline.config("tex_slat_flow_model_512"))
        add_local_heads(model)
    train_flow(model, os.path.join(options.work, "texture_flow.pt"), options, ("latents", "texture", "conditions"),
               lambda *arguments: losses(*arguments, shape_flow), np.random.default_rng())


if __name__ == "__main__":
    main()
