# SPDX-License-Identifier: MIT
"""Gives a model whose shape latent was cut (cut_latent.py) the 32 channels back that the released models and the program have: between the
trained channels and the position channels come some that nothing reads and that stay the noise they began as. The last step before a
model is measured or shipped; training goes on from the narrow one.

    pad_latent.py MODEL OUT [--channels 32]"""
import argparse
import json
import os
import shutil

import torch

from checkpoint import write_state
from pipeline import POSITION_CHANNELS, TinyPipeline


def widened(tensor, dim, begin, end, more):
    """Zeros before the position channels of a latent that takes the places [begin, end) of an axis."""
    at = end - POSITION_CHANNELS
    assert begin <= at
    shape = list(tensor.shape)
    shape[dim] = more
    return torch.cat([tensor.narrow(dim, 0, at), torch.zeros(shape), tensor.narrow(dim, at, tensor.shape[dim] - at)], dim=dim)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--channels", type=int, default=32)
    options = parser.parse_args()
    pipeline = TinyPipeline(options.model)
    shutil.copytree(options.model, options.out, dirs_exist_ok=True)
    shape, texture, decoder = ("shape_slat_flow_model_512", "tex_slat_flow_model_512", "shape_slat_decoder")
    narrow = pipeline.config(shape)["in_channels"]
    more, tokens = options.channels - narrow, pipeline.config(texture)["out_channels"]
    shape_state, texture_state = dict(pipeline.shape_flow.state_dict()), dict(pipeline.texture_flow.state_dict())
    decoder_state = dict(pipeline.shape_decoder.state_dict())
    for state, name, dim, begin in ((shape_state, "input_layer.weight", 1, 0), (shape_state, "out_layer.weight", 0, 0),
                                    (shape_state, "out_layer.bias", 0, 0), (decoder_state, "from_latent.weight", 1, 0),
                                    (texture_state, "input_layer.weight", 1, tokens)):
        state[name] = widened(state[name], dim, begin, begin + narrow, more)
    for role, state, dtype, changed in ((shape, shape_state, "BF16", {"in_channels": options.channels, "out_channels": options.channels}),
                                        (texture, texture_state, "BF16", {"in_channels": tokens + options.channels}),
                                        (decoder, decoder_state, "F16", {"latent_channels": options.channels})):
        target = os.path.join(options.out, pipeline.args["models"][role])
        with open(target + ".json", encoding="utf-8") as file:
            config = json.load(file)
        config["args"].update(changed)
        with open(target + ".json", "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)
        write_state(target + ".safetensors", state, dtype)
    with open(os.path.join(options.out, "pipeline.json"), encoding="utf-8") as file:
        config = json.load(file)
    normalization = config["args"]["shape_slat_normalization"]
    for name, value in (("mean", 0.0), ("std", 1.0)):
        normalization[name][-POSITION_CHANNELS:-POSITION_CHANNELS] = [value] * more
    with open(os.path.join(options.out, "pipeline.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    TinyPipeline(options.out)


if __name__ == "__main__":
    main()
