# SPDX-License-Identifier: MIT
"""Cuts a model's shape latent to its principal channels: the shape flow then learns only what the decoder listens to. Writes a model
directory with the changed sizes, whose shape decoder may also get more blocks (which begin as no change), and the encoder to go with it.

    cut_latent.py LIBRARY WORK MODEL OUT [--channels 13] [--blocks 4,4,4]

Takes WORK/shape_encoder.pt; writes WORK/shape_encoder_cut.pt and WORK/latent_basis.pt. The texture flow, which sees the shape latent, and
the shape flow are carried over to the new channels; all three networks need training afterwards."""
import argparse
import json
import os
import shutil

import numpy as np
import torch

from checkpoint import write_state
from objects import load_library
from pipeline import POSITION_CHANNELS, TinyPipeline
from shape_data import Batch, new_encoder, voxels_of
from training import average_of
from vae import SparseDecoder

FIRST_SEED = 700000


@torch.no_grad()
def principal_axes(encoder, library, objects):
    """Mean of the latent without its position channels, axes by falling variance (columns), variances, and the posterior's variance."""
    means, variances = [], []
    for seed in range(FIRST_SEED, FIRST_SEED + objects):
        batch = Batch([voxels_of(library, seed)])
        mean, log_variance, _ = encoder(batch.features(), batch.grids[-1])
        means.append(mean[:, :-POSITION_CHANNELS])
        variances.append(log_variance[:, :-POSITION_CHANNELS].exp())
    means = torch.cat(means)
    values, axes = torch.linalg.eigh(torch.cov(means.t()))
    return {"mean": means.mean(0), "axes": axes.flip(1), "variance": values.flip(0), "noise": torch.cat(variances).mean(0)}


class Cut:
    """latent = mean + axes y, the normalised y having one deviation for all channels, so that the strong ones stay strong."""

    def __init__(self, basis, channels, old_mean, old_deviation):
        self.mean, self.axes = basis["mean"], basis["axes"][:, :channels]
        self.deviation = basis["variance"][:channels].mean().sqrt()
        self.noise = self.axes.t() ** 2 @ basis["noise"]
        keep = slice(0, -POSITION_CHANNELS)
        self.to_old = self.axes * self.deviation / old_deviation[keep, None]  # normalised new -> normalised old
        self.offset = (self.mean - old_mean[keep]) / old_deviation[keep]
        self.from_old = self.axes.t() * old_deviation[keep] / self.deviation

    def inputs(self, weight, bias):
        """A layer that took the old normalised latent (columns of weight)."""
        old, position = weight[:, :-POSITION_CHANNELS], weight[:, -POSITION_CHANNELS:]
        return torch.cat([old @ self.to_old, position], dim=1), bias + old @ self.offset

    def outputs(self, weight, bias):
        old = slice(0, -POSITION_CHANNELS)
        return (torch.cat([self.from_old @ weight[old], weight[-POSITION_CHANNELS:]]),
                torch.cat([self.from_old @ bias[old], bias[-POSITION_CHANNELS:]]))


def cut_encoder(state, cut, latent):
    weight, bias = (state["to_latent." + kind][:latent - POSITION_CHANNELS] for kind in ("weight", "bias"))
    count, width = cut.axes.shape[1], weight.shape[1]
    none = torch.zeros(POSITION_CHANNELS)
    return {**state, "to_latent.weight": torch.cat([cut.axes.t() @ weight, torch.zeros(count + 2 * POSITION_CHANNELS, width)]),
            "to_latent.bias": torch.cat([cut.axes.t() @ (bias - cut.mean), none, cut.noise.log(), none])}


def more_blocks(state, old, new):
    """Numbers of a level's last block (the one that subdivides) move up."""
    if len(old) != len(new) or any(a > b for a, b in zip(old, new)):
        raise SystemExit(f"blocks {new}: not at least the {old} that there are")
    moved = {}
    for name, value in state.items():
        part = name.split(".")
        if part[0] == "blocks" and int(part[2]) == old[int(part[1])]:
            part[2] = str(new[int(part[1])])
        moved[".".join(part)] = value
    return moved


def cut_decoder(pipeline, cut, blocks):
    args = pipeline.config("shape_slat_decoder")
    blocks = blocks or args["num_blocks"]
    state = more_blocks(pipeline.shape_decoder.state_dict(), args["num_blocks"], blocks)
    old = state["from_latent.weight"][:, :-POSITION_CHANNELS]
    state["from_latent.weight"] = torch.cat([old @ cut.axes, torch.zeros(len(old), POSITION_CHANNELS)], dim=1)
    state["from_latent.bias"] = state["from_latent.bias"] + old @ cut.mean
    args.update(num_blocks=blocks, latent_channels=state["from_latent.weight"].shape[1])
    model = SparseDecoder(7, args["model_channels"], blocks, True, args["latent_channels"])
    model.load_state_dict(state, strict=False)  # new blocks: their last layers are zero
    return args, model.state_dict()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("library", "work", "model", "out"):
        parser.add_argument(name)
    parser.add_argument("--channels", type=int, default=13)
    parser.add_argument("--blocks", help="per level of the shape decoder, no fewer than it has (default: as many)")
    parser.add_argument("--objects", type=int, default=60, help="to find the axes (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pipeline = TinyPipeline(options.model)
    encoder = average_of(os.path.join(options.work, "shape_encoder.pt"), new_encoder())
    path = os.path.join(options.work, "latent_basis.pt")
    basis = torch.load(path) if os.path.exists(path) else principal_axes(encoder, load_library(options.library), options.objects)
    torch.save(basis, path)
    mean, deviation = pipeline.normalization("shape")
    cut, latent = Cut(basis, options.channels, mean, deviation), options.channels + POSITION_CHANNELS
    torch.save({"average": cut_encoder(encoder.state_dict(), cut, len(mean))}, os.path.join(options.work, "shape_encoder_cut.pt"))
    unneeded = shutil.ignore_patterns("examples", "expected", "renders", "*.md")
    shutil.copytree(options.model, options.out, dirs_exist_ok=True, ignore=unneeded)

    def write(role, args, state, dtype):
        target = os.path.join(options.out, pipeline.args["models"][role])
        with open(target + ".json", encoding="utf-8") as file:
            config = json.load(file)
        with open(target + ".json", "w", encoding="utf-8") as file:
            json.dump({**config, "args": args}, file, indent=2)
        write_state(target + ".safetensors", state, dtype)

    write("shape_slat_decoder", *cut_decoder(pipeline, cut, [int(n) for n in (options.blocks or "").split(",") if n]), "F16")
    flow = dict(pipeline.shape_flow.state_dict())
    flow["input_layer.weight"], flow["input_layer.bias"] = cut.inputs(flow["input_layer.weight"], flow["input_layer.bias"])
    flow["out_layer.weight"], flow["out_layer.bias"] = cut.outputs(flow["out_layer.weight"], flow["out_layer.bias"])
    write("shape_slat_flow_model_512", {**pipeline.config("shape_slat_flow_model_512"), "in_channels": latent, "out_channels": latent},
          flow, "BF16")
    args, flow = pipeline.config("tex_slat_flow_model_512"), dict(pipeline.texture_flow.state_dict())
    own = args["out_channels"]
    weight, flow["input_layer.bias"] = cut.inputs(flow["input_layer.weight"][:, own:], flow["input_layer.bias"])
    flow["input_layer.weight"] = torch.cat([flow["input_layer.weight"][:, :own], weight], dim=1)
    write("tex_slat_flow_model_512", {**args, "in_channels": own + latent}, flow, "BF16")
    with open(os.path.join(options.out, "pipeline.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["args"]["shape_slat_normalization"] = {
        "mean": [0.0] * latent, "std": [round(float(cut.deviation), 6)] * options.channels + [1.0] * POSITION_CHANNELS}
    with open(os.path.join(options.out, "pipeline.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    kept = np.asarray(basis["variance"][:options.channels].sum() / basis["variance"].sum())
    print(f"{options.out}: {options.channels} channels keep {100 * kept:.1f} % of the variance")


if __name__ == "__main__":
    main()
