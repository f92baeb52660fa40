# SPDX-License-Identifier: MIT
"""Writes trained weights into a copy of a model directory (Hugging Face layout), rounded as released checkpoints are.

    export.py MODEL_DIR OUT_DIR --shape-flow WORK/shape_flow.pt"""
import argparse
import os
import shutil

from checkpoint import read_arrays, write_state
from pipeline import TinyPipeline
from training import average_of

COPIED = ("pipeline.json", "ckpts", "dinov3-tiny")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--shape-flow", required=True)
    options = parser.parse_args()
    for name in COPIED:
        source, target = os.path.join(options.model, name), os.path.join(options.out, name)
        os.makedirs(options.out, exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    pipeline = TinyPipeline(options.model)
    flow = average_of(options.shape_flow, pipeline.shape_flow)
    role = "shape_slat_flow_model_512"
    path = os.path.join(options.out, pipeline.args["models"][role]) + ".safetensors"
    write_state(path, flow.state_dict(), "BF16")
    before = read_arrays(pipeline.path(role) + ".safetensors")
    after = read_arrays(path)
    if {name: array.shape for name, array in before.items()} != {name: array.shape for name, array in after.items()}:
        raise SystemExit(f"{path}: names or shapes differ from {pipeline.path(role)}.safetensors")
    TinyPipeline(options.out)
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
