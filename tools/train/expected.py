# SPDX-License-Identifier: MIT
"""Runs a tiny model in PyTorch, fp32, from a picture to the raw mesh's voxels, with the noise that the program draws, and writes or checks
the recorded results that tests/unit/test_tiny_expected.c compares the program with.

    expected.py MODEL_DIR OUT_DIR NAME...           writes OUT_DIR/NAME_seed42.safetensors for examples NAME
    expected.py MODEL_DIR --check NAME...           compares with MODEL_DIR/expected instead
    expected.py MODEL_DIR --boundary NAME...        prints the share of the raw mesh's edges that have one face, in percent"""
import argparse
import os

import numpy as np
import torch
from PIL import Image

from checkpoint import read_arrays, write_arrays
from evaluate import edge_counts
from flow import dense_coords, sample
from image_encoder import normalize_pictures
from objects import QUADS, preprocess
from pipeline import TinyPipeline
from sparse import Grid
from vae import children_of

SEED = 42
# Largest difference between two machines' PyTorch that is still rounding, relative to the largest value.
TOLERANCE = 2e-4


def guide(logits):
    """The texture decoder subdivides as the shape decoder did."""
    return lambda level, _, grid: (logits[level] > 0).numpy()


def faces_of(grid, out):
    """Triangles of the dual grid; the diagonal by the split weights, as in the reference."""
    crossed, split = (out[:, 3:6] > 0).numpy(), torch.nn.functional.softplus(out[:, 6]).numpy()
    quads = []
    for axis in range(3):
        owners = grid.coords[crossed[:, axis]]
        corners = np.stack([grid.rows_of(owners + [0, *offset]) for offset in QUADS[axis]], axis=1)
        quads.append(np.stack([np.flatnonzero(crossed[:, axis]) * 3 + axis, *corners.T], axis=1)[(corners >= 0).all(1)])
    quads = np.concatenate(quads)
    a, b, c, d = quads[np.argsort(quads[:, 0], kind="stable"), 1:].T  # by voxel, then axis
    first = (split[a] * split[c] > split[b] * split[d])[:, None]
    return np.where(first, np.stack([a, b, c, a, c, d], axis=1), np.stack([a, b, d, d, b, c], axis=1)).reshape(-1, 3)


@torch.no_grad()
def run(pipeline, picture, seed=SEED):
    args = pipeline.args
    result = {"image": preprocess(np.asarray(Image.open(picture).convert("RGBA")), args["espalier"]["image_size"])}
    condition = pipeline.image_encoder(normalize_pictures(result["image"][None]))
    generator = torch.Generator().manual_seed(seed)
    structure = pipeline.config("sparse_structure_flow_model")
    side, channels = structure["resolution"], structure["in_channels"]
    noise = torch.randn(1, channels, side, side, side, generator=generator)
    latent = sample(pipeline.structure_flow, noise.flatten(2).transpose(1, 2), condition, dense_coords(side),
                    pipeline.sampler("sparse_structure"), dense=True)
    latent = latent.transpose(1, 2).reshape(1, channels, side, side, side)
    logits = pipeline.structure_decoder(latent)[0, 0]
    cells = torch.nonzero(logits > 0)
    coords = torch.cat([torch.zeros_like(cells[:, :1]), cells], dim=1)
    noise = torch.randn(len(coords), pipeline.config("shape_slat_flow_model_512")["in_channels"], generator=generator)
    shape = sample(pipeline.shape_flow, noise[None], condition, cells[None], pipeline.sampler("shape_slat"))
    noise = torch.randn(len(coords), pipeline.config("tex_slat_flow_model_512")["out_channels"], generator=generator)
    texture = sample(pipeline.texture_flow, noise[None], condition, cells[None], pipeline.sampler("tex_slat"), concat=shape)[0]
    (mean, deviation), (tex_mean, tex_deviation) = pipeline.normalization("shape"), pipeline.normalization("tex")
    shape, texture = shape[0] * deviation + mean, texture * tex_deviation + tex_mean
    out, grid, subdivisions = pipeline.decode_shape(shape, coords.numpy())
    pbr = pipeline.texture_decoder(texture, Grid(coords.numpy()), guide(subdivisions))[0]
    result.update(cond=condition[0].numpy(), ss_latent=latent[0].numpy(), ss_logits=logits.numpy(), coords=coords.numpy().astype(np.int32),
                  shape_slat=shape.numpy(), tex_slat=texture.numpy(), dec_coords=grid.coords.astype(np.uint8), dec_out=out.numpy(),
                  pbr=(pbr * 0.5 + 0.5).numpy())
    parents = coords.numpy()
    for level, values in enumerate(subdivisions):
        result[f"subdiv_{level}"], result[f"subdiv_{level}_coords"] = values.numpy(), parents.astype(np.uint8)
        parents = children_of(parents)[(values > 0).numpy().reshape(-1)]
    local = 2 * out[:, :3].sigmoid() - 0.5
    result["vertices"] = ((torch.from_numpy(grid.coords[:, 1:]) + local) / args["espalier"]["resolution"] - 0.5).numpy().astype(np.float32)
    result["faces"] = faces_of(grid, out).astype(np.uint16)
    return result


def differences(got, want):
    """What does not agree: names, shapes, integers, or values by more than TOLERANCE of the largest."""
    found = [f"{name}: only in one" for name in got.keys() ^ want.keys()]
    for name in sorted(got.keys() & want.keys()):
        a, b = got[name], want[name]
        if a.shape != b.shape:
            found.append(f"{name}: {a.shape} and {b.shape}")
        elif a.dtype.kind in "iu":
            wrong = (a.astype(np.int64) != b.astype(np.int64)).sum()
            found += [f"{name}: {wrong} of {a.size} differ"] if wrong else []
        else:
            error = np.abs(a - b).max() / np.abs(b).max()
            found += [f"{name}: {error:.2e} of the largest value"] if error > TOLERANCE else []
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("rest", nargs="+", metavar="OUT_DIR NAME...")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--boundary", action="store_true")
    options = parser.parse_args()
    pipeline, failed = TinyPipeline(options.model), False
    names = options.rest if options.check or options.boundary else options.rest[1:]
    for name in names:
        result = run(pipeline, os.path.join(options.model, "examples", name + ".png"))
        file = f"{name}_seed{SEED}.safetensors"
        if options.boundary:
            edges, boundary = edge_counts(result["faces"])
            print(f"{name}: {100 * boundary / edges:.1f} %", flush=True)
        elif options.check:
            found = differences(result, read_arrays(os.path.join(options.model, "expected", file)))
            print(f"{name}: {'; '.join(found) or 'the same'}")
            failed = failed or bool(found)
        else:
            os.makedirs(options.rest[0], exist_ok=True)
            write_arrays(os.path.join(options.rest[0], file), result)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
