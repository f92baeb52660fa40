# SPDX-License-Identifier: MIT
"""What the two sparse flows train on, made once from the pictures of structure_data.py and kept in files: latents and conditions.

    slat_data.py LIBRARY WORK [--model DIR] [--texture] [--watch]

Writes WORK/latents (coordinates, normalised shape latent), WORK/conditions (of the model's image encoder) and with --texture
WORK/texture (normalised texture latent), a file per file of WORK/pictures, and the same of WORK/validation with validation- before the
folder's name. What exists is kept: delete a folder whose encoder has changed. Training may run at the same time."""
import argparse
import os
import time

import numpy as np
import torch

from image_encoder import normalize_pictures
from objects import Object, load_library
from pipeline import POSITION_CHANNELS, TinyPipeline
from shape_data import Batch, Voxels, encoder_of
from training import keep_memory

SIDE = 16


def position_channels(coords, side=SIDE):
    return 1.7 * ((coords.astype(np.float32) + 0.5) / (side / 2) - 1)


def latent_file(library, encoder, seeds, normalization):
    """coords u8 [n, 3] and latent f16 [n, channels] of all objects one after the other, counts [objects]."""
    mean, deviation = normalization
    all_coords, latents, counts = [], [], []
    for seed in seeds:
        batch = Batch([Voxels(*Object(library, int(seed)).voxels())])
        values, _, grid = encoder(batch.features(), batch.grids[-1])
        values, coords = (values - mean) / deviation, grid.coords[:, 1:]
        values[:, -POSITION_CHANNELS:] = torch.from_numpy(position_channels(coords))
        all_coords.append(coords.astype(np.uint8))
        latents.append(values.numpy().astype(np.float16))
        counts.append(len(coords))
    return {"coords": np.concatenate(all_coords), "latent": np.concatenate(latents), "counts": np.array(counts)}


def texture_file(library, encoder, seeds, normalization):
    mean, deviation = normalization
    latents = []
    for seed in seeds:
        batch = Batch([Voxels(*Object(library, int(seed)).voxels())])
        latents.append(((encoder(batch.material, batch.grids[-1])[0] - mean) / deviation).numpy().astype(np.float16))
    return {"latent": np.concatenate(latents)}


def condition_file(encoder, pictures):
    """f16 [objects, views, tokens, channels] of u8 [objects, views, side, side, 3]."""
    return {"condition": np.stack([encoder(normalize_pictures(views)).numpy().astype(np.float16) for views in pictures])}


class Items:
    """Training items from the files that all needed folders have; scan() takes up new ones."""

    def __init__(self, work, kinds=("latents", "conditions"), prefix=""):
        self.folders = [os.path.join(work, prefix + kind) for kind in kinds]
        self.files, self.items = set(), []
        self.scan()

    def __len__(self):
        return len(self.items)

    def scan(self, most=None):
        names = [set(os.listdir(folder)) if os.path.isdir(folder) else set() for folder in self.folders]
        for name in sorted(n for n in set.intersection(*names) - self.files if n.endswith(".npz")):
            if most is not None and len(self.items) >= most:
                return
            arrays = {}
            for folder in self.folders:
                with np.load(os.path.join(folder, name)) as file:
                    arrays.update({(os.path.basename(folder).split("-")[-1], key): file[key] for key in file.files})
            ends = np.cumsum(arrays["latents", "counts"])
            for i, (begin, end) in enumerate(zip(ends - arrays["latents", "counts"], ends)):
                item = {"coords": arrays["latents", "coords"][begin:end], "shape": arrays["latents", "latent"][begin:end],
                        "condition": arrays["conditions", "condition"][i]}
                if ("texture", "latent") in arrays:
                    item["texture"] = arrays["texture", "latent"][begin:end]
                self.items.append({key: torch.from_numpy(value.copy()) for key, value in item.items()})
            self.files.add(name)


def pack(items, random=None):
    """Items one after the other: coords, latents, where each begins (int64 [n + 1]), the condition of one view each."""
    begin = torch.tensor([0] + [len(item["coords"]) for item in items]).cumsum(0)
    packed = {key: torch.cat([item[key] for item in items]).float() for key in items[0] if key != "condition"}
    views = [c[random.integers(len(c)) if random is not None else 0] for c in (item["condition"] for item in items)]
    return {**packed, "begin": begin, "condition": torch.stack(views).float()}


def save(path, arrays):
    with open(path + ".part", "wb") as file:
        np.savez(file, **arrays)
    os.replace(path + ".part", path)


def make_missing(options, library, pipeline, encoders):
    """One pass over the files of pictures; the number of files made."""
    made = 0
    for source, prefix in (("validation", "validation-"), ("pictures", "")):
        folder = os.path.join(options.work, source)
        for name in sorted(n for n in os.listdir(folder) if n.endswith(".npz")):
            for kind in encoders:
                path = os.path.join(options.work, prefix + kind, name)
                if os.path.exists(path):
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with np.load(os.path.join(folder, name)) as file:
                    seeds, pictures = file["seeds"], file["pictures"]
                if kind == "latents":
                    arrays = latent_file(library, encoders[kind], seeds, pipeline.normalization("shape"))
                elif kind == "texture":
                    arrays = texture_file(library, encoders[kind], seeds, pipeline.normalization("tex"))
                else:
                    arrays = condition_file(encoders[kind], pictures)
                save(path, arrays)
                made += 1
                print(f"{time.strftime('%H:%M:%S')} {path} cpu {time.process_time():.0f}s", flush=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library")
    parser.add_argument("work")
    parser.add_argument("--model", default=os.path.join(os.path.dirname(__file__), "..", "..", "models", "tiny"))
    parser.add_argument("--encoder", default="shape_encoder.pt", help="in WORK (%(default)s)")
    parser.add_argument("--texture", action="store_true", help="needs WORK/texture_encoder.pt")
    parser.add_argument("--watch", type=int, default=0, help="look for new pictures so many times, a minute apart")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    library, pipeline = load_library(options.library), TinyPipeline(options.model)
    encoders = {"latents": encoder_of(os.path.join(options.work, options.encoder)), "conditions": pipeline.image_encoder}
    if options.texture:
        encoders["texture"] = encoder_of(os.path.join(options.work, "texture_encoder.pt"))
    with torch.no_grad():
        while make_missing(options, library, pipeline, encoders) or options.watch > 0:
            options.watch -= 1
            time.sleep(60 if options.watch >= 0 else 0)


if __name__ == "__main__":
    main()
