# SPDX-License-Identifier: MIT
#
# contact_sheet.py PROGRAM [-o SHEET.png] [--example EXAMPLE.png] [NAME...]: pictures of the embedded model beside the meshes that PROGRAM
# makes of them, seen from the same side. Needs Debian's python3-numpy and python3-pil.
#
# The pictures' cameras are not stored. They are estimated: azimuth, elevation and distance are searched so that the outline of the
# projected mesh overlaps the picture's alpha best; size and place follow from the two bounding boxes. The number under each pair is
# that overlap (intersection over union).
import argparse
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image, ImageDraw

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TINY = os.path.join(SOURCE, 'models', 'tiny')
COARSE = 64                    # side of the silhouettes that are compared
BACKGROUND = (246, 246, 244)


def read_dump(path):
    """trellis.cpp's layout: vertices, faces, base colour of each vertex (vertex i is voxel i)."""
    with open(path, 'rb') as f:
        data = f.read()
    v, n_faces, voxels, _ = struct.unpack_from('<4i', data)
    vertices = np.frombuffer(data, '<f4', 3 * v, 16).reshape(v, 3)
    faces = np.frombuffer(data, '<i4', 3 * n_faces, 16 + 12 * v).reshape(n_faces, 3)
    attributes = np.frombuffer(data, '<f4', 6 * voxels, 16 + 12 * v + 12 * n_faces + 12 * voxels).reshape(voxels, 6)
    return vertices.astype(np.float64), faces, np.clip(attributes[:, :3], 0, 1).astype(np.float64)


def generate(program, picture):
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, 'mesh.bin')
        subprocess.run([program, 'generate', picture, '-m', TINY, '--dump-post', dump, '--quiet'], check=True)
        return read_dump(dump)


# ------------------------------------------------------------- camera

def project(points, azimuth, elevation, distance):
    """Right, up (perspective, at distance 1 from the centre unscaled) and depth; z is up, the front looks towards -y."""
    a, e = np.radians(azimuth), np.radians(elevation)
    towards = np.array([np.sin(a) * np.cos(e), -np.cos(a) * np.cos(e), np.sin(e)])        # from the centre to the camera
    right = np.array([np.cos(a), np.sin(a), 0.0])
    up = np.cross(towards, right)
    depth = distance - points @ towards
    return np.stack([points @ right, points @ up], 1) * (distance / depth)[:, None], depth


def fit_box(flat, box):
    """Scale and shift of projected points so that their bounding box has the centre and the mean extent of `box` (pixels, y down)."""
    low, high = flat.min(0), flat.max(0)
    extent = high - low
    wanted = np.array([box[2] - box[0], box[3] - box[1]], dtype=np.float64)
    scale = np.sum(wanted * extent) / np.sum(extent * extent)
    centre = np.array([box[0] + box[2], box[1] + box[3]]) / 2
    return scale, centre - scale * (low + high) / 2 * np.array([1, -1])


def box_of(mask):
    ys, xs = np.nonzero(mask)
    return xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


def outline(points, camera, mask):
    flat, _ = project(points, *camera)
    scale, shift = fit_box(flat, box_of(mask))
    pixel = np.floor(flat * np.array([scale, -scale]) + shift).astype(int)
    inside = ((pixel >= 0) & (pixel < COARSE)).all(1)
    drawn = np.zeros((COARSE, COARSE), bool)
    drawn[pixel[inside, 1], pixel[inside, 0]] = True
    return drawn


def overlap(points, camera, mask):
    drawn = outline(points, camera, mask)
    return np.count_nonzero(drawn & mask) / max(1, np.count_nonzero(drawn | mask))


def estimate_camera(points, mask):
    grid = [(a, e, d) for a in range(-40, 41, 8) for e in range(8, 41, 8) for d in (1.8, 2.8)]
    best = max(grid, key=lambda c: overlap(points, c, mask))
    step = np.array([4.0, 4.0, 0.5])
    while step[0] > 0.4:
        near = [tuple(np.clip(np.array(best) + step * np.array(move), (-40, 5, 1.5), (40, 40, 4.0)))
                for move in ((0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))]
        better = max(near, key=lambda c: overlap(points, c, mask))
        if overlap(points, better, mask) <= overlap(points, best, mask):
            step = step / 2
        else:
            best = better
    return best


# ------------------------------------------------------------- drawing

def shade(vertices, faces, colors):
    corner = vertices[faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    light = np.array([-0.45, -0.7, 0.75])
    light /= np.linalg.norm(light)
    # The raw mesh has no consistent winding, so both sides of a face are lit.
    return np.clip(colors[faces].mean(1) * (0.55 + 0.5 * np.abs(normal @ light))[:, None], 0, 1)


def draw_mesh(vertices, faces, colors, camera, mask, side, over=2):
    """Flat-shaded triangles with a depth buffer, `over` times oversampled."""
    n = side * over
    flat, depth = project(vertices, *camera)
    scale, shift = fit_box(flat[np.unique(faces)], np.array(box_of(mask)) * (side / mask.shape[0]))
    xy = (flat * np.array([scale, -scale]) + shift) * over
    image = np.empty((n, n, 3))
    image[:] = np.array(BACKGROUND) / 255
    buffer = np.full((n, n), np.inf)
    paint = shade(vertices, faces, colors)
    for k, face in enumerate(faces):
        p, z = xy[face], depth[face]
        x0, y0 = np.maximum(np.floor(p.min(0)).astype(int), 0)
        x1, y1 = np.minimum(np.ceil(p.max(0)).astype(int) + 1, n)
        area = (p[1, 0] - p[0, 0]) * (p[2, 1] - p[0, 1]) - (p[1, 1] - p[0, 1]) * (p[2, 0] - p[0, 0])
        if x0 >= x1 or y0 >= y1 or abs(area) < 1e-12:
            continue
        xs, ys = np.meshgrid(np.arange(x0, x1) + 0.5, np.arange(y0, y1) + 0.5)
        w1 = ((xs - p[0, 0]) * (p[2, 1] - p[0, 1]) - (ys - p[0, 1]) * (p[2, 0] - p[0, 0])) / area
        w2 = ((p[1, 0] - p[0, 0]) * (ys - p[0, 1]) - (p[1, 1] - p[0, 1]) * (xs - p[0, 0])) / area
        at = z[0] + w1 * (z[1] - z[0]) + w2 * (z[2] - z[0])
        seen = (w1 >= -1e-9) & (w2 >= -1e-9) & (w1 + w2 <= 1 + 1e-9) & (at < buffer[y0:y1, x0:x1])
        buffer[y0:y1, x0:x1][seen] = at[seen]
        image[y0:y1, x0:x1][seen] = paint[k]
    image = image.reshape(side, over, side, over, 3).mean((1, 3))
    return Image.fromarray((image * 255 + 0.5).astype(np.uint8))


def on_background(picture, side):
    whole = Image.new('RGBA', picture.size, BACKGROUND + (255,))
    whole.alpha_composite(picture)
    return whole.convert('RGB').resize((side, side), Image.LANCZOS)


def pair(program, name, side):
    """(picture, mesh, overlap, camera)"""
    path = os.path.join(TINY, 'examples', name + '.png')
    picture = Image.open(path).convert('RGBA')
    vertices, faces, colors = generate(program, path)
    corner = vertices[faces]
    points = np.concatenate([corner.reshape(-1, 3), corner.mean(1), (corner + np.roll(corner, 1, 1)).reshape(-1, 3) / 2])
    mask = np.asarray(picture.getchannel('A').resize((COARSE, COARSE), Image.BOX)) > 127
    camera = estimate_camera(points, mask)
    fine = np.asarray(picture.getchannel('A')) > 127
    mesh = draw_mesh(vertices, faces, colors, camera, fine, side)
    return on_background(picture, side), mesh, overlap(points, camera, mask), camera


# ------------------------------------------------------------- sheets

def sheet(program, names, columns, side, labels):
    gap, foot = 8, 18 if labels else 0
    rows = (len(names) + columns - 1) // columns
    cell = 2 * side + gap
    whole = Image.new('RGB', (columns * (cell + gap) + gap, rows * (side + foot + gap) + gap), (255, 255, 255))
    pen = ImageDraw.Draw(whole)
    for i, name in enumerate(names):
        left, mesh, share, camera = pair(program, name, side)
        print('%-12s overlap %.2f, azimuth %+.0f, elevation %.0f' % (name, share, camera[0], camera[1]), flush=True)
        x, y = gap + i % columns * (cell + gap), gap + i // columns * (side + foot + gap)
        whole.paste(left, (x, y))
        whole.paste(mesh, (x + side, y))
        if not labels:
            middle = y + side // 2
            pen.line((x + side - 9, middle, x + side + 4, middle), fill=(120, 120, 120), width=2)
            pen.polygon(((x + side + 3, middle - 5), (x + side + 11, middle), (x + side + 3, middle + 5)), fill=(120, 120, 120))
        else:
            pen.text((x + 2, y + side + 3), '%s   overlap %.2f' % (name, share), fill=(60, 60, 60))
    return whole


def save(image, path):
    image.quantize(255, method=Image.MEDIANCUT, dither=Image.NONE).save(path, optimize=True)
    print('wrote %s, %d x %d' % (path, *image.size))


def main():
    parser = argparse.ArgumentParser(description='pictures of the embedded model beside their meshes')
    parser.add_argument('program')
    parser.add_argument('names', nargs='*')
    parser.add_argument('-o', '--output', help='the sheet of all (or the named) examples')
    parser.add_argument('--example', help='a row of the named examples, larger, without labels')
    o = parser.parse_args()
    every = sorted(n[:-4] for n in os.listdir(os.path.join(TINY, 'examples')) if n.endswith('.png'))
    names = o.names or every
    unknown = set(names) - set(every)
    if unknown or not (o.output or o.example):
        parser.error('no such example: %s' % sorted(unknown) if unknown else 'name the result with -o or --example')
    if o.output:
        save(sheet(o.program, names, 4, 150, True), o.output)
    if o.example:
        save(sheet(o.program, names, 3, 144, False), o.example)


main()
