# SPDX-License-Identifier: MIT
"""Writes trained weights into a copy of a model directory (Hugging Face layout), rounded as released checkpoints are.

    export.py MODEL_DIR OUT_DIR [--image-encoder FILE] [--structure-flow FILE] [--structure-decoder FILE] [--shape-flow FILE]
              [--texture-flow FILE] [--shape-decoder FILE] [--texture-decoder FILE]

Each FILE is a stage's checkpoint, of which the averaged weights are taken; networks without a file stay as they are in MODEL_DIR."""
import argparse
import json
import os
import shutil

import torch

from checkpoint import read_arrays, write_state
from pipeline import TinyPipeline

COPIED = ("pipeline.json", "ckpts", "dinov3-tiny")
ROLES = {"structure_flow": ("sparse_structure_flow_model", "BF16"), "structure_decoder": ("sparse_structure_decoder", "F16"),
         "shape_flow": ("shape_slat_flow_model_512", "BF16"), "shape_decoder": ("shape_slat_decoder", "F16"),
         "texture_flow": ("tex_slat_flow_model_512", "BF16"), "texture_decoder": ("tex_slat_decoder", "F16")}


def averaged_state(path, part):
    """The averaged weights of a network; of a checkpoint with several (train_image_encoder.py), those called `part`."""
    state = torch.load(path)["average"]
    inner = {name[len(part) + 1:]: tensor for name, tensor in state.items() if name.startswith(part + ".")}
    return inner or state


def copy_model(source, target):
    os.makedirs(target, exist_ok=True)
    for name in COPIED:
        if os.path.isdir(os.path.join(source, name)):
            shutil.copytree(os.path.join(source, name), os.path.join(target, name), dirs_exist_ok=True)
        else:
            shutil.copyfile(os.path.join(source, name), os.path.join(target, name))


def shapes(path):
    return {name: array.shape for name, array in read_arrays(path).items()}


def replace(path, state, dtype):
    """Writes a network over the one that is there, which must have the same tensors."""
    before = shapes(path)
    write_state(path, {name: tensor for name, tensor in state.items() if name in before or name != "embeddings.mask_token"}, dtype)
    if shapes(path) != before:
        raise SystemExit(f"{path}: names or shapes are not those of the model directory")
    print(f"{path}: {os.path.getsize(path)} bytes")


def replace_encoder(folder, state):
    """The image encoder may have other patches and more layers than that of the model directory: two numbers in config.json."""
    path, weights = os.path.join(folder, "config.json"), os.path.join(folder, "model.safetensors")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["patch_size"] = state["embeddings.patch_embeddings.weight"].shape[-1]
    config["num_hidden_layers"] = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("layer."))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    unused = {"embeddings.mask_token"} - shapes(weights).keys()
    write_state(weights, {name: tensor for name, tensor in state.items() if name not in unused}, "BF16")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("out")
    for option in ("image_encoder", *ROLES):
        parser.add_argument("--" + option.replace("_", "-"), metavar="FILE")
    options = parser.parse_args()
    copy_model(options.model, options.out)
    pipeline = TinyPipeline(options.model)
    for option, (role, dtype) in ROLES.items():
        if getattr(options, option):
            part = {"structure_flow": "flow", "structure_decoder": "decoder"}.get(option, option)
            replace(os.path.join(options.out, pipeline.args["models"][role]) + ".safetensors",
                    averaged_state(getattr(options, option), part), dtype)
    if options.image_encoder:
        folder = os.path.join(options.out, pipeline.args["image_cond_model"]["args"]["model_name"])
        replace_encoder(folder, averaged_state(options.image_encoder, "encoder"))
    TinyPipeline(options.out)


if __name__ == "__main__":
    main()
