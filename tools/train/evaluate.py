# SPDX-License-Identifier: MIT
"""espalier-eval: how well a model does on pictures of known meshes, judged by the C program alone.

    evaluate.py PROGRAM MODEL_DIR SET_DIR [--names A,B] [--limit N] [--seed 42] [--json OUT.json] [--sheet OUT.png] [--finished]

SET_DIR holds NAME.png (a picture with transparency) and NAME_gt.ply (the mesh, colours per vertex, in the cube [-0.5, 0.5]^3 of the
model's space). For each, the raw mesh that PROGRAM makes is measured:

  iou       occupied cells at a quarter of the resolution, intersection over union; of the true mesh by 'espalier voxelize'
  chamfer   mean distance surface to surface, mean of both directions ('espalier inspect --compare', exact point to triangle)
  colour    mean absolute difference of sRGB components (0..1), from true surface points to the nearest generated ones
  boundary  share of the raw mesh's edges that have one face
  odd, pieces   with --finished: odd edges, and pieces generated / true, of the asset after the default post-processing

Needs python3-numpy and python3-pil."""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

SHEET_SIDE = 160
POINTS = 20000  # per surface, for colours
BLOCK = 256


def read_dump(path):
    """trellis.cpp's layout: vertices, faces, voxels, attributes (base colour, metallic, roughness, alpha) per voxel."""
    with open(path, "rb") as file:
        data = file.read()
    v, f, n, _ = struct.unpack_from("<4i", data)
    at = 16
    vertices = np.frombuffer(data, "<f4", 3 * v, at).reshape(v, 3)
    faces = np.frombuffer(data, "<i4", 3 * f, at + 12 * v).reshape(f, 3)
    at += 12 * v + 12 * f
    coords = np.frombuffer(data, "<i4", 3 * n, at).reshape(n, 3)
    attributes = np.frombuffer(data, "<f4", 6 * n, at + 12 * n).reshape(n, 6)
    return vertices, faces, coords, attributes


def read_ply(path):
    """The files that this tool set writes: binary little endian, float x y z, uchar red green blue, triangles."""
    with open(path, "rb") as file:
        data = file.read()
    end = data.index(b"end_header\n") + 11
    words = data[:end].decode().split("\n")
    count = {w.split()[1]: int(w.split()[2]) for w in words if w.startswith("element")}
    v = np.frombuffer(data, np.dtype([("p", "<f4", 3), ("c", "u1", 3)]), count["vertex"], end)
    f = np.frombuffer(data, np.dtype([("n", "u1"), ("i", "<i4", 3)]), count["face"], end + v.nbytes)
    if not (f["n"] == 3).all():
        raise ValueError(path + ": not all faces are triangles")
    return v["p"].copy(), f["i"].copy(), v["c"] / 255.0


def write_ply(path, vertices, faces, colors):
    v = np.zeros(len(vertices), [("p", "<f4", 3), ("c", "u1", 3)])
    v["p"], v["c"] = vertices, np.clip(np.asarray(colors) * 255 + 0.5, 0, 255)
    f = np.zeros(len(faces), [("n", "u1"), ("i", "<i4", 3)])
    f["n"], f["i"] = 3, faces
    properties = "".join(f"property float {a}\n" for a in "xyz") + "".join(f"property uchar {c}\n" for c in ("red", "green", "blue"))
    header = (f"ply\nformat binary_little_endian 1.0\nelement vertex {len(v)}\n{properties}"
              f"element face {len(f)}\nproperty list uchar int vertex_indices\nend_header\n")
    with open(path, "wb") as file:
        file.write(header.encode() + v.tobytes() + f.tobytes())


def surface_points(vertices, faces, colors, count, seed):
    """Points uniform by area, with interpolated colours."""
    generator = np.random.default_rng(seed)
    corners = vertices[faces].astype(np.float64)
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    chosen = generator.choice(len(faces), count, p=area / area.sum())
    a, b = generator.random((2, count))
    flip = a + b > 1
    a[flip], b[flip] = 1 - a[flip], 1 - b[flip]
    weights = np.stack([1 - a - b, a, b], axis=1)[:, :, None]
    return (corners[chosen] * weights).sum(1), (colors[faces[chosen]] * weights).sum(1)


def nearest(points, targets):
    """Index of the nearest target of each point."""
    squares = (targets ** 2).sum(1)
    return np.concatenate([(squares - 2 * points[i:i + BLOCK] @ targets.T).argmin(1) for i in range(0, len(points), BLOCK)])


def color_difference(true_mesh, mesh):
    """Mean absolute difference at true surface points and the generated points nearest to them."""
    points, colors = surface_points(*true_mesh, POINTS // 10, 1)
    targets, target_colors = surface_points(*mesh, POINTS, 2)
    return float(np.abs(colors - target_colors[nearest(points, targets)]).mean())


def edge_counts(faces):
    """Number of edges, and of those with one face."""
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1).astype(np.int64)
    counts = np.unique(edges[:, 0] << 32 | edges[:, 1], return_counts=True)[1]
    return len(counts), int((counts == 1).sum())


def cells(coords, factor=4):
    return {tuple(c) for c in (np.asarray(coords) // factor).tolist()}


class Program:
    def __init__(self, path, model, seed, folder):
        self.path, self.model, self.seed, self.folder = path, model, seed, folder

    def run(self, *arguments):
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{self.path} {' '.join(arguments)}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def generate(self, picture):
        dump = os.path.join(self.folder, "raw.bin")
        self.run("generate", picture, "-m", self.model, "--seed", str(self.seed), "--dump-post", dump, "--quiet")
        return read_dump(dump)

    def finish(self, picture):
        """Soundness of the asset after the default post-processing."""
        asset = os.path.join(self.folder, "asset.ply")
        self.run("generate", picture, "-m", self.model, "--seed", str(self.seed), "-o", asset, "--quiet")
        return self.inspect(asset)

    def inspect(self, mesh):
        return json.loads(self.run("inspect", "--json", mesh))["soundness"]

    def voxels(self, mesh, resolution):
        out = os.path.join(self.folder, "voxels.npz")
        self.run("voxelize", mesh, "--resolution", str(resolution), "--no-materials", "-o", out, "--quiet")
        with np.load(out) as arrays:
            return arrays["coord"]

    def chamfer(self, a, b):
        return json.loads(self.run("inspect", "--compare", "--json", "--samples", str(POINTS), a, b))["chamfer"] / 2


def measure(program, folder, name, resolution, finished):
    picture, truth_path = os.path.join(folder, name + ".png"), os.path.join(folder, name + "_gt.ply")
    truth = read_ply(truth_path)
    vertices, faces, coords, attributes = program.generate(picture)
    colors = np.clip(attributes[:, :3], 0, 1).astype(np.float64)  # vertex i belongs to voxel i
    mesh_path = os.path.join(program.folder, "raw.ply")
    write_ply(mesh_path, vertices, faces, colors)
    true_cells, got_cells = cells(program.voxels(truth_path, resolution)), cells(coords)
    edges, boundary = edge_counts(faces)
    result = {"name": name, "iou": len(true_cells & got_cells) / len(true_cells | got_cells),
              "chamfer": program.chamfer(mesh_path, truth_path),
              "colour": color_difference(truth, (vertices, faces, colors)), "boundary": boundary / edges}
    if finished:
        got, want = program.finish(picture), program.inspect(truth_path)
        result.update(odd=got["odd_edges"], pieces=got["face_components"], true_pieces=want["face_components"])
    return result, mesh_path, truth_path


def sheet_row(program, picture, mesh, truth):
    """The picture on white, then four views of the generated raw mesh, then of the true one."""
    with Image.open(picture) as image:
        image = image.convert("RGBA").resize((SHEET_SIDE, SHEET_SIDE))
        parts = [np.asarray(Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB"))]
    for path in (mesh, truth):
        views = os.path.join(program.folder, "views.png")
        program.run("render", path, "-o", views, "--size", str(SHEET_SIDE), "--quiet")
        with Image.open(views) as image:
            image = image.convert("RGB")
            parts.append(np.asarray(image.resize((image.width * SHEET_SIDE // image.height, SHEET_SIDE))))
    return np.concatenate(parts, axis=1)


def row_text(result, keys):
    return f"{result['name']:14s}" + "".join(f" {result[k]:9.4f}" for k in keys)


def category(name):
    return name.rsplit("_", 1)[0]


def summary(results, keys):
    """Means over all, and by category."""
    groups = {}
    for result in results:
        groups.setdefault(category(result["name"]), []).append(result)
    lines = [row_text({"name": group, **{k: float(np.mean([r[k] for r in members])) for k in keys}}, keys)
             for group, members in groups.items()] if len(groups) < len(results) else []
    mean = {"name": "mean", **{k: float(np.mean([r[k] for r in results])) for k in keys}}
    return lines + [row_text(mean, keys)], mean


def main():
    parser = argparse.ArgumentParser(description="Measures a model on pictures with known meshes.")
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("set")
    parser.add_argument("--names", help="only these, separated by commas")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", help="write the results there")
    parser.add_argument("--sheet", help="write a contact sheet (PNG) there")
    parser.add_argument("--finished", action="store_true", help="also measure the post-processed asset (slow)")
    options = parser.parse_args()
    with open(os.path.join(options.model, "pipeline.json"), encoding="utf-8") as file:
        resolution = json.load(file)["args"].get("espalier", {}).get("resolution", 512)
    names = sorted(f[:-7] for f in os.listdir(options.set) if f.endswith("_gt.ply"))
    if options.names:
        names = [n for n in names if n in options.names.split(",")]
    names = names[:options.limit]
    if not names:
        sys.exit(f"{options.set}: no NAME.png with NAME_gt.ply")
    keys = ("iou", "chamfer", "colour", "boundary") + (("odd", "pieces", "true_pieces") if options.finished else ())
    print(f"{'':14s}" + "".join(f" {k:>9s}" for k in keys))
    results, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Program(options.program, options.model, options.seed, folder)
        for name in names:
            result, mesh, truth = measure(program, options.set, name, resolution, options.finished)
            results.append(result)
            print(row_text(result, keys), flush=True)
            if options.sheet:
                rows.append(sheet_row(program, os.path.join(options.set, name + ".png"), mesh, truth))
    lines, mean = summary(results, keys)
    print("\n".join(["", *lines]))
    if options.finished:
        right = sum(r["pieces"] == r["true_pieces"] for r in results)
        print(f"assets without odd edges: {sum(r['odd'] == 0 for r in results)} of {len(results)}; right number of pieces: {right}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"objects": results, "mean": mean}, file, indent=1)
    if options.sheet:
        Image.fromarray(np.concatenate(rows)).save(options.sheet)


if __name__ == "__main__":
    main()
