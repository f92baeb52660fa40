# SPDX-License-Identifier: MIT
"""Trains the structure flow on a frozen image encoder: that of WORK/image_encoder.pt together with the flow that it was trained with, or,
where there is no such file, those of a model directory. Several noised samples share the picture's features. Needs what
train_image_encoder.py needs. Writes WORK/structure_flow.pt.

    train_structure_flow.py LIBRARY WORK [--steps 6000] [--one-step] [--bf16] [--kernels libespalier-train-kernels.so]"""
import argparse
import os

import numpy as np
import torch

import kernels
from pipeline import TinyPipeline
from structure_training import NO_CONDITION, Objects, flow_losses, sampled_overlap
from train_image_encoder import start
from training import Trainer, add_options, average_of, keep_memory, mixed_precision

REPEATS, REPEATS_ONE_STEP = 4, 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, steps=6000, rate=6e-4)
    parser.add_argument("--patch", type=int, help="side of a patch in pixels, as train_image_encoder.py got it")
    parser.add_argument("--layers", type=int, help="as train_image_encoder.py got it")
    parser.add_argument("--one-step", action="store_true", help="most of all, make the first step of the sampler right")
    parser.add_argument("--kernels", help="libespalier-train-kernels.so, from the build")
    options = parser.parse_args()
    keep_memory()
    if options.kernels:
        kernels.load(os.path.abspath(options.kernels))
    torch.set_num_threads(options.threads)
    pipeline, random, size = TinyPipeline(options.model), np.random.default_rng(), options.batch or 16
    decoder = pipeline.structure_decoder.requires_grad_(False)
    objects, validation = Objects(options.work, "pictures"), Objects(options.work, "validation").groups(options.held_out)
    chain, path = start(pipeline, options.patch, options.layers), os.path.join(options.work, "image_encoder.pt")
    if os.path.exists(path):
        average_of(path, chain)
    encoder = chain.encoder.eval().requires_grad_(False)
    trainer = Trainer(chain.flow.train(), os.path.join(options.work, "structure_flow.pt"), options.steps, options.rate, stop=options.stop)

    def losses():
        if trainer.step % 50 == 0:
            objects.scan()
        batch = objects.batch(size, random)
        with mixed_precision(options.bf16):
            with torch.no_grad():
                condition = encoder(batch.pixels) * (torch.rand(size, 1, 1) >= NO_CONDITION)
            values = flow_losses(trainer.model, decoder, condition, batch, REPEATS_ONE_STEP if options.one_step else REPEATS,
                                 options.one_step)
        return {"loss": values["flow"] + values["cells"] + options.one_step * values["overlap"], **values}

    def evaluate(flow):
        with mixed_precision(options.bf16):
            return sampled_overlap(encoder, flow, decoder, validation, pipeline.sampler("sparse_structure"))

    trainer.run(losses, evaluate)


if __name__ == "__main__":
    main()
