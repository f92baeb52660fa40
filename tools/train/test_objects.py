# SPDX-License-Identifier: MIT
"""Checks the training data against known geometry. Exit code 77 (skipped) without numpy or Pillow. Usage: test_objects.py LIBRARY"""
import ctypes
import math
import sys
import unittest

try:
    import numpy as np
    from PIL import Image  # noqa: F401 (objects.py needs it)
except ImportError:
    print("SKIPPED: the training data need python3-numpy and python3-pil")
    sys.exit(77)

from evaluate import color_difference, edge_counts, nearest, surface_points
from objects import BOX, CATEGORIES, ELLIPSOID, FILL, HELD_OUT, SUBTRACT, Object, Sketch, load_library, mesh_of, pointer, preprocess

LIBRARY = load_library(sys.argv[1])
RADIUS = 0.4


def extract(sketch, resolution):
    item = Object.__new__(Object)
    item.library, item.seed, item.parts = LIBRARY, 0, np.ascontiguousarray(np.stack(sketch.parts))
    item.scale, item.center = 1.0, np.zeros(3, np.float32)
    return item, item.voxels(resolution)


def sphere():
    sketch = Sketch(0)
    sketch.add(ELLIPSOID, [0, 0, 0], [RADIUS] * 3, [0.2, 0.4, 0.6], metallic=1, roughness=0.4)
    return sketch


def euler(faces):
    return len(np.unique(faces)) - edge_counts(faces)[0] + len(faces)


class Voxels(unittest.TestCase):
    def test_sphere(self):
        item, (coords, dual, flags, material) = extract(sphere(), 32)
        vertices, faces = mesh_of(coords, dual, flags, 32)
        self.assertEqual(edge_counts(faces)[1], 0, "closed")
        self.assertEqual(euler(faces), 2)
        # A chord across a cell's diagonal leaves the sphere by d^2 / 8r.
        self.assertLess(np.abs(np.linalg.norm(vertices, axis=1) - RADIUS).max(), 3 / 32 ** 2 / (8 * RADIUS) * 2)
        corners = vertices[faces]
        area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2
        self.assertAlmostEqual(area / (4 * math.pi * RADIUS ** 2), 1, delta=0.01)
        self.assertEqual(material[0].tolist()[:5], [51, 102, 153, 255, 102])
        self.assertTrue((np.diff((coords.astype(int) @ [1024, 32, 1])) > 0).all(), "ascending")
        box = np.zeros(6, np.float32)
        LIBRARY.train_bounds(pointer(item.parts), 1, ctypes.c_float(1), pointer(box))
        self.assertLess(np.abs(np.abs(box) - RADIUS).max(), 5e-4)

    def test_box_with_a_hole(self):
        sketch = Sketch(0)
        sketch.add(BOX, [0, 0, 0], [0.3, 0.25, 0.2, 0], [1, 0, 0])
        sketch.add(BOX, [0, 0, 0], [0.1, 0.1, 0.5, 0], [0, 0, 1], join=SUBTRACT)
        _, (coords, dual, flags, material) = extract(sketch, 64)
        vertices, faces = mesh_of(coords, dual, flags)
        self.assertEqual((edge_counts(faces)[1], euler(faces)), (0, 0), "a closed ring")
        np.testing.assert_allclose(np.abs(vertices).max(0), [0.3, 0.25, 0.2], atol=2e-3)  # sharp: vertices in the corners
        inner = (np.abs(vertices[:, :2]) < 0.15).all(1) & (np.abs(vertices[:, 2]) < 0.15)
        self.assertEqual(np.unique(material[inner][:, :3], axis=0).tolist(), [[0, 0, 255]], "the hole has its own colour")

    def test_room(self):
        item, _ = extract(sphere(), 32)
        none = np.zeros((8, 6), np.uint8)
        dual = np.zeros((8, 3), np.float32)
        self.assertEqual(LIBRARY.train_extract(*item.solid(), 32, ctypes.c_int64(8), pointer(none), pointer(dual), pointer(none),
                                               pointer(none)), -1)

    def test_categories(self):
        for seed in range(HELD_OUT, HELD_OUT + len(CATEGORIES)):
            item = Object(LIBRARY, seed)
            coords, dual, flags, _ = item.voxels()
            vertices, faces = mesh_of(coords, dual, flags)
            self.assertEqual(edge_counts(faces)[1], 0, item.name)
            extent = vertices[np.unique(faces)]
            self.assertAlmostEqual((extent.max(0) - extent.min(0)).max(), FILL, delta=0.02, msg=item.name)
            again = Object(LIBRARY, seed)
            self.assertTrue(np.array_equal(again.parts, item.parts), "a function of the seed")


class Pictures(unittest.TestCase):
    def test_sphere(self):
        """The outline of a sphere seen from distance d is a cone of half angle asin(r / d)."""
        item, _ = extract(sphere(), 32)
        distance, tangent, side = 2.0, 0.4, 128
        camera = np.array([0, -distance, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, tangent], np.float32)
        light = np.array([0, -1, 0, 0.8, 0.4, 0.5], np.float32)
        rgba = np.zeros((side, side, 4), np.uint8)
        LIBRARY.train_render(*item.solid(), side, 3, pointer(camera), pointer(light), pointer(rgba))
        outline = math.tan(math.asin(RADIUS / distance)) / tangent * side / 2
        self.assertAlmostEqual(rgba[:, :, 3].sum() / 255 / (math.pi * outline ** 2), 1, delta=0.01)
        self.assertEqual(rgba[0, 0].tolist(), [0, 0, 0, 0])
        middle = rgba[side // 2, side // 2].astype(int)
        self.assertTrue(middle[0] < middle[1] < middle[2], "the part's colour")

    def test_views(self):
        item = Object(LIBRARY, 0)
        self.assertTrue(np.array_equal(item.picture(0, 64), item.picture(0, 64)))
        self.assertFalse(np.array_equal(item.picture(0, 64), item.picture(1, 64)))
        small = preprocess(item.picture(0), 128)
        self.assertEqual(small.shape, (128, 128, 3))
        self.assertEqual(small[0, 0].tolist(), [0, 0, 0])


class Measures(unittest.TestCase):
    def test_nearest(self):
        random = np.random.default_rng(0)
        points, targets = random.random((300, 3)), random.random((200, 3))
        want = np.linalg.norm(points[:, None] - targets, axis=2).argmin(1)
        self.assertTrue(np.array_equal(nearest(points, targets), want))

    def test_surface(self):
        vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 5.0]])
        faces, colors = np.array([[0, 1, 2]]), np.eye(4, 3)
        points, values = surface_points(vertices, faces, colors, 5000, 0)
        np.testing.assert_allclose(points.mean(0), [1 / 3, 1 / 3, 0], atol=0.01)
        np.testing.assert_allclose(values[:, 1], points[:, 0], atol=1e-12)  # corner 1 is at x = 1 and green
        self.assertEqual(color_difference((vertices, faces, np.ones((4, 3))), (vertices, faces, np.full((4, 3), 0.75))), 0.25)
        self.assertEqual(edge_counts(np.array([[0, 1, 2], [0, 2, 3]])), (5, 4))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
