# SPDX-License-Identifier: MIT
"""Pictures for the image encoder and the structure flow, with what they show: made once and kept in files.

    structure_data.py LIBRARY WORK [--objects 3000] [--views 4]

Writes WORK/pictures/FIRST_SEED.npz, some objects each; go on with the same command. Training may run at the same time."""
import argparse
import os
import time

import numpy as np

from objects import Object, crop_box, load_library, preprocess

TRAINING = 500000    # first seed
VALIDATION = 150000  # first seed of objects for choices; neither trained on nor among those of the final numbers
IN_FILE = 52
CELLS = 16           # side of the occupancy volume
PATCHES = 16         # side of the grid of per-patch targets
SIDE = 128           # of the pictures
DRAWN = 256
SURFACE = 128        # side of the picture of what is behind each pixel


def occupancy(coords):
    """bool [CELLS, CELLS, CELLS] of voxels u8 [n, 3] at 64."""
    volume = np.zeros((CELLS,) * 3, bool)
    volume[tuple((coords // 4).T)] = True
    return volume


def patch_targets(surface, box):
    """f16 [PATCHES, PATCHES, 7]: share of a patch that the object covers; mean position and base colour there. box: of the drawn one."""
    scale = SURFACE / DRAWN
    left, top, right, _ = (edge * scale for edge in box)
    middle = np.arange(SURFACE) + 0.5
    columns, rows = (np.floor((middle - edge) / (right - left) * PATCHES).astype(int) for edge in (left, top))
    inside_x, inside_y = ((index >= 0) & (index < PATCHES) for index in (columns, rows))
    part = surface[inside_y][:, inside_x].astype(np.float64)
    index = (rows[inside_y][:, None] * PATCHES + columns[inside_x]).reshape(-1)
    covered = part[:, :, 0].reshape(-1)
    rays = np.bincount(index, minlength=PATCHES ** 2)
    hits = np.bincount(index, covered, PATCHES ** 2)
    sums = [np.bincount(index, part[:, :, k].reshape(-1), PATCHES ** 2) / np.maximum(hits, 1) for k in range(1, 7)]
    return np.stack([hits / np.maximum(rays, 1)] + sums, axis=1).reshape(PATCHES, PATCHES, 7).astype(np.float16)


def make(library, seed, views, samples=1):
    """One object: packed occupancy, pictures u8 [views, SIDE, SIDE, 3], targets per patch, cameras [views, 4]."""
    item = Object(library, seed)
    pictures, patches, cameras = [], [], []
    for view in range(views):
        drawn = item.picture(view, DRAWN, samples)
        box = crop_box(drawn)
        pictures.append(preprocess(drawn, SIDE))
        patches.append(patch_targets(item.surface(view, SURFACE), box))
        camera = item.view(view)[0]  # what the cut picture does not say: direction, and how strong the perspective is
        cameras.append(np.concatenate([-camera[9:12], [camera[12]]]))
    return {"occupied": np.packbits(occupancy(item.voxels()[0])), "pictures": np.stack(pictures), "patches": np.stack(patches),
            "cameras": np.stack(cameras).astype(np.float32), "seeds": np.int64(seed)}


def make_file(library, path, first, count, views, samples=1):
    items = [make(library, seed, views, samples) for seed in range(first, first + count)]
    with open(path + ".part", "wb") as file:
        np.savez(file, **{name: np.stack([item[name] for item in items]) for name in items[0]})
    os.replace(path + ".part", path)


class Pictures:
    """All files of a folder, those that appear later too: arrays by name, concatenated."""

    def __init__(self, folder):
        self.folder, self.files, self.parts = folder, set(), []
        self.scan()

    def scan(self):
        """True if there is something new."""
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".npz") and name not in self.files)
        for name in names:
            with np.load(os.path.join(self.folder, name)) as arrays:
                self.parts.append({key: arrays[key] for key in arrays.files})
            self.files.add(name)
        return bool(names)

    def __len__(self):
        return sum(len(part["seeds"]) for part in self.parts)

    def item(self, index):
        for part in self.parts:
            if index < len(part["seeds"]):
                return {name: array[index] for name, array in part.items()}
            index -= len(part["seeds"])
        raise IndexError(index)

    def volumes(self, first=0):
        """bool [n, CELLS, CELLS, CELLS] of the parts from `first` on."""
        bits = np.concatenate([part["occupied"] for part in self.parts[first:]])
        return np.unpackbits(bits, axis=1).astype(bool).reshape(-1, CELLS, CELLS, CELLS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library")
    parser.add_argument("work")
    parser.add_argument("--objects", type=int, default=3000)
    parser.add_argument("--views", type=int, default=4)
    parser.add_argument("--validation", type=int, default=104, help="objects in WORK/validation (%(default)s)")
    options = parser.parse_args()
    library = load_library(options.library)
    for folder, first, objects, views, samples in (("validation", VALIDATION, options.validation, 1, 3),
                                                   ("pictures", TRAINING, options.objects, options.views, 1)):
        os.makedirs(os.path.join(options.work, folder), exist_ok=True)
        for begin in range(first, first + objects, IN_FILE):
            path = os.path.join(options.work, folder, f"{begin}.npz")
            if not os.path.exists(path):
                make_file(library, path, begin, min(IN_FILE, first + objects - begin), views, samples)
                print(f"{time.strftime('%H:%M:%S')} {path} cpu {time.process_time():.0f}s", flush=True)


if __name__ == "__main__":
    main()
