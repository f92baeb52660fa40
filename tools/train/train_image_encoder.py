# SPDX-License-Identifier: MIT
"""Trains the image encoder together with the structure flow: the flow's loss reaches into the encoder, and heads (thrown away later) ask
it for what each patch shows: how much of it the object covers, where in space that is, its base colour; and for category and camera.
Starts from the weights of a model directory; patches of half the size (--patch 8) and more layers are allowed, which begin as no change.
Needs the pictures of structure_data.py and WORK/structure_encoder.pt. Writes WORK/image_encoder.pt. With --one-step all three networks
from the picture to the cells are trained together for a sampler of one step without guidance, the structure decoder too.

    train_image_encoder.py LIBRARY WORK [--steps 4000] [--patch 8] [--layers 6] [--one-step] [--bf16]"""
import argparse
import json
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import kernels
from image_encoder import ImageEncoder
from pipeline import TinyPipeline
from structure_data import PATCHES, SIDE
from structure_training import NO_CONDITION, Objects, flow_losses, sampled_overlap
from training import Trainer, add_options, keep_memory, mixed_precision

CATEGORIES = 13
REPEATS, REPEATS_ONE_STEP = 3, 1  # flow samples per picture
WEIGHTS = {"flow": 1, "cells": 1, "overlap": 0, "covered": 0.5, "position": 4, "colour": 1, "category": 0.05, "camera": 1}


class Heads(nn.Module):
    def __init__(self, width, side):
        """side: patches along an edge of the picture. A patch answers for all targets (structure_data.PATCHES) that lie in it."""
        super().__init__()
        self.side, self.finer = side, PATCHES // side
        self.patch, self.whole = nn.Linear(width, 7 * self.finer ** 2), nn.Linear(width, CATEGORIES + 4)

    def losses(self, tokens, batch):
        """tokens [B, 1 + registers + patches, width]."""
        shape = len(tokens), self.side, self.finer, self.side, self.finer, 7
        target = batch.patches.reshape(shape).transpose(2, 3).reshape(len(tokens), self.side ** 2, -1, 7)
        got = self.patch(tokens[:, -self.side ** 2:]).float().reshape(target.shape)
        covered = target[..., 0]
        whole = self.whole(tokens[:, 0]).float()
        error = ((got - target)[..., 1:].abs() * covered[..., None]).sum((0, 1, 2)) / covered.sum()
        return {"covered": F.binary_cross_entropy_with_logits(got[..., 0], covered), "position": error[:3].mean(),
                "colour": error[3:].mean(), "category": F.cross_entropy(whole[:, :CATEGORIES], batch.categories),
                "camera": F.mse_loss(whole[:, CATEGORIES:], batch.cameras)}


class Chain(nn.Module):
    """All that is trained here; the decoder only for a sampler of one step."""

    def __init__(self, encoder, flow, decoder=None):
        super().__init__()
        self.encoder, self.flow, self.decoder = encoder, flow, decoder
        self.heads = Heads(encoder.norm.weight.shape[0], SIDE // encoder.embeddings.patch_embeddings.kernel_size[0])


def with_patches(encoder, config, patch):
    """The encoder for other patches: an object looks the same in a picture of twice the size, so kernels shrink by summing pixels."""
    other = ImageEncoder(**{**config, "patch_size": patch})
    state, name = encoder.state_dict(), "embeddings.patch_embeddings.weight"
    factor = state[name].shape[-1] // patch
    state[name] = F.avg_pool2d(state[name], factor) * factor ** 2
    other.load_state_dict(state)
    return other


def with_layers(encoder, config, layers):
    """The encoder with more layers, whose scales are zero."""
    other = ImageEncoder(**{**config, "num_hidden_layers": layers})
    for layer in other.layer[len(encoder.layer):]:
        torch.nn.init.zeros_(layer.layer_scale1.lambda1)
        torch.nn.init.zeros_(layer.layer_scale2.lambda1)
    other.load_state_dict(encoder.state_dict(), strict=False)
    return other


def start(pipeline, patch=None, layers=None, one_step=False):
    folder = os.path.join(pipeline.directory, pipeline.args["image_cond_model"]["args"]["model_name"])
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["num_hidden_layers"] = layers or config["num_hidden_layers"]
    encoder = with_layers(pipeline.image_encoder, config, config["num_hidden_layers"])
    encoder = with_patches(encoder, config, patch or config["patch_size"])
    return Chain(encoder, pipeline.structure_flow, pipeline.structure_decoder if one_step else None).train()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=4000, rate=8e-4)
    parser.add_argument("--patch", type=int, help="side of a patch in pixels (default: as in the model)")
    parser.add_argument("--layers", type=int, help="of the encoder, no fewer than it has (default: as many)")
    parser.add_argument("--one-step", action="store_true", help="for a sampler of one step: no other times, no dropped conditions")
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build")
    options = parser.parse_args()
    keep_memory()
    if options.kernels:
        kernels.load(os.path.abspath(options.kernels))
    torch.set_num_threads(options.threads)
    pipeline, random, size = TinyPipeline(options.model), np.random.default_rng(), options.batch or 16
    decoder = pipeline.structure_decoder.requires_grad_(options.one_step)
    weights, repeats = ({**WEIGHTS, "overlap": 1}, REPEATS_ONE_STEP) if options.one_step else (WEIGHTS, REPEATS)
    objects, validation = Objects(options.work, "pictures"), Objects(options.work, "validation").groups(options.held_out)
    trainer = Trainer(start(pipeline, options.patch, options.layers, options.one_step), os.path.join(options.work, "image_encoder.pt"),
                      options.steps, options.rate, stop=options.stop)

    def losses():
        if trainer.step % 50 == 0:
            objects.scan()
        batch, chain = objects.batch(size, random), trainer.model
        with mixed_precision(options.bf16):
            tokens = chain.encoder(batch.pixels)
            condition = tokens if options.one_step else tokens * (torch.rand(size, 1, 1) >= NO_CONDITION)
            values = {**flow_losses(chain.flow, chain.decoder or decoder, condition, batch, repeats, options.one_step),
                      **chain.heads.losses(tokens, batch)}
        values["loss"] = sum(weight * values[name] for name, weight in weights.items())
        return values

    def evaluate(chain):
        with mixed_precision(options.bf16):
            heads = [chain.heads.losses(chain.encoder(batch.pixels), batch) for batch in validation]
            result = sampled_overlap(chain.encoder, chain.flow, chain.decoder or decoder, validation,
                                     None if options.one_step else pipeline.sampler("sparse_structure"))
        return {**{name: float(np.mean([values[name] for values in heads])) for name in heads[0]}, **result}

    trainer.run(losses, evaluate)


if __name__ == "__main__":
    main()
