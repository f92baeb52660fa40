# SPDX-License-Identifier: MIT
"""The world of the tiny model: random objects of 13 categories as lists of parts (sdf.h), their voxels and their pictures.

    objects.py LIBRARY OUT_DIR FIRST COUNT     writes NAME.png and NAME_gt.ply of held-out objects, for evaluate.py

LIBRARY is the build's target espalier-train-objects. An object is a function of its seed alone; its category is seed mod 13."""
import ctypes
import math
import os
import sys

import numpy as np
from PIL import Image

RESOLUTION = 64
FILL = 0.93  # largest extent of an object in the unit cube
HELD_OUT = 100100  # seeds from here on are never trained on
ELLIPSOID, BOX, CYLINDER, CONE, CAPSULE, TORUS, GABLE = range(7)
UNION, SMOOTH, SUBTRACT = range(3)
RINGS = 1
FACING = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], float)  # object to part: the part's axis points to the front


def hsv(hue, saturation, value):
    sector, rest = int(hue * 6) % 6, hue * 6 - int(hue * 6)
    p, q, t = value * (1 - saturation), value * (1 - rest * saturation), value * (1 - (1 - rest) * saturation)
    return np.array([(value, t, p), (q, value, p), (p, value, t), (p, q, value), (t, p, value), (value, p, q)][sector])


def axis_along(direction):
    """Rotation whose part z axis is the direction."""
    z = np.asarray(direction, float) / np.linalg.norm(direction)
    x = np.cross([0, 0, 1.0] if abs(z[2]) < 0.9 else [1.0, 0, 0], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z])


def turned(angle):
    """About z."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


class Sketch:
    """Collects parts; the random choices of one object."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.parts = []

    def between(self, low, high):
        return self.random.uniform(low, high)

    def chance(self, probability):
        return self.random.random() < probability

    def color(self):
        kind = self.random.random()
        if kind < 0.12:
            return np.full(3, self.between(0.75, 0.95))
        if kind < 0.18:
            return np.full(3, self.between(0.12, 0.3))
        return hsv(self.random.random(), self.between(0.45, 0.9), self.between(0.55, 0.95))

    def wood(self):
        return hsv(self.between(0.05, 0.1), self.between(0.45, 0.7), self.between(0.35, 0.75))

    def leaf(self):
        return hsv(self.between(0.22, 0.38), self.between(0.5, 0.8), self.between(0.35, 0.7))

    def metal(self):
        return np.full(3, self.between(0.55, 0.85)) + self.random.uniform(-0.04, 0.04, 3)

    def glass(self):
        return hsv(self.between(0.5, 0.62), self.between(0.2, 0.5), self.between(0.5, 0.9))

    def white(self):
        return np.full(3, self.between(0.85, 0.97))

    def dark(self):
        return np.full(3, self.between(0.06, 0.18))

    def either(self, probability, first, second):
        """One of two colours given as functions."""
        return first() if self.chance(probability) else second()

    def add(self, kind, center, size, color, rotation=None, join=UNION, blend=0.0, metallic=0.0, roughness=0.6, rings=None):
        """rings: (second colour, frequency, phase) along the part's axis."""
        part = np.zeros(32, np.float32)
        part[:3] = kind, join, blend
        part[3:6] = center
        part[6:15] = (np.eye(3) if rotation is None else rotation).reshape(-1)
        part[15:15 + len(size)] = size
        part[19:22] = np.clip(color, 0, 1)
        part[22], part[23] = metallic, np.clip(roughness, 0.05, 1)
        if rings:
            part[24], part[25:28], part[28], part[29] = RINGS, np.clip(rings[0], 0, 1), rings[1], rings[2]
        self.parts.append(part)

    def rod(self, begin, end, radius, color, **look):
        begin, end = np.asarray(begin, float), np.asarray(end, float)
        self.add(CAPSULE, (begin + end) / 2, [radius, np.linalg.norm(end - begin) / 2], color, axis_along(end - begin), **look)


def mug(o):
    half, radius, wall, color = o.between(0.35, 0.6), o.between(0.28, 0.42), o.between(0.045, 0.07), o.color()
    look = {"metallic": float(o.chance(0.2)), "roughness": o.between(0.2, 0.6)}
    rings = (o.color(), o.between(0.6, 1.6) / half, o.between(0, 1)) if o.chance(0.4) else None
    inside = o.white() if o.chance(0.6) else color * 0.8
    o.add(CYLINDER, [0, 0, half], [radius, half, 0, 0.04], color, rings=rings, **look)
    angle = o.between(-0.5, 0.5) + (0 if o.chance(0.6) else math.pi)
    out = np.array([math.cos(angle), math.sin(angle), 0])
    loop = o.between(0.45, 0.6) * half
    o.add(TORUS, out * (radius + loop * 0.25) + [0, 0, half], [loop, o.between(0.05, 0.08)], color if o.chance(0.7) else o.color(),
          np.stack([out, [0, 0, 1], np.cross(out, [0, 0, 1])]), **look)
    o.add(CYLINDER, [0, 0, half + wall], [radius - wall - 0.005, half, 0, 0.03], inside, join=SUBTRACT, roughness=look["roughness"])
    if o.chance(0.5):  # what is in it
        o.add(CYLINDER, [0, 0, 2 * half * o.between(0.7, 0.85)], [radius - wall * 0.5, 0.02, 0, 0],
              hsv(o.between(0.05, 0.1), 0.7, 0.3), roughness=0.3)


def table(o):
    width, depth, height, thick = o.between(0.5, 1), o.between(0.4, 0.7), o.between(0.4, 0.9), o.between(0.03, 0.06)
    color = o.either(0.6, o.wood, o.color)
    legs, leg, is_round = color * o.between(0.6, 1) if o.chance(0.5) else o.color(), o.between(0.04, 0.075), o.chance(0.3)
    if is_round:
        depth = width
        o.add(CYLINDER, [0, 0, height], [width, thick, 0, 0.02], color, roughness=o.between(0.3, 0.7))
    else:
        o.add(BOX, [0, 0, height], [width, depth, thick, 0.02], color, roughness=o.between(0.3, 0.7))
    if is_round and o.chance(0.6):
        o.add(CYLINDER, [0, 0, height / 2], [leg * 1.5, height / 2, 0, 0.01], legs)
        o.add(CONE, [0, 0, 0.04], [width * 0.5, width * 0.35, 0.04, 0.01], legs)
    else:
        inset, square, look = 0.65 if is_round else 0.9, o.chance(0.5), {"metallic": float(o.chance(0.2)), "roughness": 0.4}
        for sx in (-1, 1):
            for sy in (-1, 1):
                at = [sx * (width * inset - leg), sy * (depth * inset - leg), height / 2]
                if square:
                    o.add(BOX, at, [leg, leg, height / 2, 0.01], legs, **look)
                else:
                    o.add(CONE, at, [leg * 0.7, leg * 1.2, height / 2, 0.01], legs, **look)
        if o.chance(0.3):
            o.add(BOX, [0, 0, height * 0.3], [width * inset - leg, depth * inset - leg, 0.03, 0.01], legs)
    if o.chance(0.3):  # a cup on it
        o.add(CYLINDER, [o.between(-0.4, 0.4) * width, o.between(-0.3, 0.3) * depth, height + thick + 0.1],
              [0.09, 0.11, 0, 0.02], o.color())


def chair(o):
    width, depth, height, back = o.between(0.35, 0.5), o.between(0.35, 0.5), o.between(0.4, 0.55), o.between(0.5, 0.8)
    thick, leg, color = o.between(0.035, 0.06), o.between(0.035, 0.055), o.either(0.5, o.wood, o.color)
    legs = color * o.between(0.6, 1) if o.chance(0.6) else o.color()
    seat = o.color() if o.chance(0.5) else color
    look = {"metallic": float(o.chance(0.2)), "roughness": 0.4}
    o.add(BOX, [0, 0, height], [width, depth, thick, 0.025], seat, roughness=0.7)
    square = o.chance(0.5)
    for sx in (-1, 1):
        for sy in (-1, 1):
            at = [sx * (width - leg), sy * (depth - leg), height / 2]
            if square:
                o.add(BOX, at, [leg, leg, height / 2, 0.01], legs, **look)
            else:
                o.add(CYLINDER, at, [leg, height / 2, 0, 0.01], legs, **look)
    rear, kind = depth - thick, o.random.random()
    if kind < 0.5:
        o.add(BOX, [0, rear, height + back / 2 + thick], [width, thick, back / 2, 0.03], color)
    else:
        for sx in (-1, 1):
            o.add(BOX, [sx * (width - leg), rear, height + back / 2], [leg, leg, back / 2, 0.01], legs, **look)
        for slat in range(2 + (kind > 0.75)):
            o.add(BOX, [0, rear, height + back * (0.95 - 0.33 * slat)], [width - leg, thick * 0.7, back * 0.09, 0.02], color)
    if o.chance(0.35):  # arms
        for sx in (-1, 1):
            o.add(BOX, [sx * (width + 0.01), 0, height + 0.28], [0.04, depth, 0.035, 0.02], legs)
            o.add(BOX, [sx * (width + 0.01), 0.05 - depth, height + 0.14], [0.035, 0.035, 0.14, 0.01], legs)


def lamp(o):
    height, foot, shade, half = o.between(0.8, 1.5), o.between(0.25, 0.38), o.between(0.3, 0.5), o.between(0.18, 0.3)
    color = o.either(0.4, lambda: hsv(o.between(0.1, 0.13), 0.55, 0.85), lambda: o.either(0.4, o.metal, o.color))
    look = {"metallic": float(o.chance(0.7)), "roughness": 0.35}
    o.add(CYLINDER, [0, 0, 0.05], [foot, 0.05, 0, 0.02], color, **look)
    o.add(CYLINDER, [0, 0, height / 2], [o.between(0.035, 0.06), height / 2, 0, 0], color, **look)
    if o.chance(0.5):
        wide = o.between(0.1, 0.18)
        o.add(ELLIPSOID, [0, 0, height * o.between(0.25, 0.5)], [wide, wide, o.between(0.1, 0.25)], o.color(), roughness=0.3)
    o.add(CONE, [0, 0, height + half * 0.4], [shade, shade * o.between(0.45, 0.9), half, 0.02], o.color(), roughness=0.85)
    if o.chance(0.3):
        o.add(ELLIPSOID, [0, 0, height + half * 1.5], [0.06] * 3, color, metallic=look["metallic"], roughness=0.3)


def house(o):
    width, depth, height, roof = o.between(0.4, 0.65), o.between(0.4, 0.7), o.between(0.25, 0.45), o.between(0.25, 0.55)
    walls, tiles, over = o.color(), o.color(), o.between(0.05, 0.12)
    o.add(BOX, [0, 0, height], [width, depth, height, 0.01], walls, roughness=0.9)
    if o.chance(0.5):
        o.add(GABLE, [0, 0, 2 * height - 0.02], [width + over, roof, depth + over], tiles, roughness=0.8)
    else:
        o.add(GABLE, [0, 0, 2 * height - 0.02], [depth + over, roof, width + over], tiles, turned(math.pi / 2), roughness=0.8)
    door, glass, at = o.color(), o.glass(), o.between(-0.4, 0.4) * width
    o.add(BOX, [at, -depth, 0.2], [0.1, 0.03, 0.2, 0.01], door, roughness=0.5)
    for x in (-0.6, 0.6):
        if abs(x * width - at) > 0.24:
            o.add(BOX, [x * width, -depth, height * 1.2], [0.1, 0.025, 0.1, 0.01], glass, roughness=0.2)
    for y in (-0.45, 0.45):
        for side in (-1, 1):
            o.add(BOX, [side * width, y * depth, height * 1.2], [0.025, 0.1, 0.1, 0.01], glass, roughness=0.2)
    if o.chance(0.6):  # chimney
        x = o.between(0.3, 0.6) * width * (1 if o.chance(0.5) else -1)
        o.add(BOX, [x, o.between(0.1, 0.4) * depth, 2 * height + roof * 0.7], [0.08, 0.08, roof * 0.55, 0.005],
              hsv(0.02, 0.6, 0.5), roughness=0.9)
    if o.chance(0.4):  # lawn
        o.add(BOX, [0, 0, 0.02], [width + 0.2, depth + 0.2, 0.035, 0.01], o.leaf(), roughness=1)


def rocket(o):
    radius, half, foot = o.between(0.2, 0.32), o.between(0.4, 0.7), 0.3
    color, trim, look = o.either(0.5, o.white, o.color), o.color(), {"metallic": float(o.chance(0.4)), "roughness": 0.35}
    rings = (trim, o.between(0.5, 1.2) / half, o.between(0, 1)) if o.chance(0.35) else None
    o.add(CYLINDER, [0, 0, foot + half], [radius, half, 0, 0.03], color, rings=rings, **look)
    nose = o.between(0.2, 0.4)
    if o.chance(0.5):
        o.add(CONE, [0, 0, foot + 2 * half + nose], [radius, 0.03, nose, 0.02], trim, roughness=0.35)
    else:
        o.add(ELLIPSOID, [0, 0, foot + 2 * half], [radius, radius, nose * 1.8], trim, roughness=0.35)
    o.add(CONE, [0, 0, foot - 0.08], [radius * 0.8, radius * 0.5, 0.1, 0.01], o.dark(), metallic=1, roughness=0.4)
    fins, first, fin = int(o.random.choice([3, 4])), o.between(0, 1.5), o.between(0.18, 0.3)
    for i in range(fins):
        angle = first + i * 2 * math.pi / fins
        out = np.array([math.cos(angle), math.sin(angle), 0])
        frame = np.stack([out, np.cross([0, 0, 1], out), [0, 0, 1]])
        o.add(BOX, out * (radius + fin * 0.35) + [0, 0, foot], [fin * 0.65, 0.03, fin * 0.9, 0.02], trim, frame, roughness=0.4)
    if o.chance(0.8):  # window
        z = foot + half * o.between(1.2, 1.5)
        o.add(CYLINDER, [0, -radius, z], [0.1, 0.04, 0, 0.015], o.glass(), FACING, roughness=0.1)
        o.add(TORUS, [0, -radius, z], [0.1, 0.025], o.metal(), FACING, metallic=1, roughness=0.3)


def tree(o):
    bark, trunk, thick = o.wood() * 0.8, o.between(0.3, 0.6), o.between(0.07, 0.13)
    leaves = o.leaf() if o.chance(0.8) else hsv(o.between(0.02, 0.12), 0.75, 0.8)
    o.add(CONE, [0, 0, trunk / 2 + 0.05], [thick * 1.3, thick, trunk / 2 + 0.1, 0.01], bark, roughness=0.95)
    if o.chance(0.5):  # conifer
        z, radius, half = trunk, o.between(0.4, 0.6), o.between(0.22, 0.32)
        for tier in range(int(o.random.integers(2, 5))):
            o.add(CONE, [0, 0, z + half], [radius, radius * 0.08 + 0.02, half, 0.02], leaves * (1 + 0.06 * tier), roughness=0.9)
            z, radius = z + half * 1.1, radius * 0.75
    else:
        radius = o.between(0.35, 0.5)
        o.add(ELLIPSOID, [0, 0, trunk + radius * 0.9], [radius, radius, radius * o.between(0.8, 1.3)], leaves, roughness=0.9)
        for _ in range(int(o.random.integers(0, 5))):
            angle, size = o.between(0, 2 * math.pi), radius * o.between(0.45, 0.65)
            at = [math.cos(angle) * radius * 0.7, math.sin(angle) * radius * 0.7, trunk + radius * o.between(0.5, 1.3)]
            o.add(ELLIPSOID, at, [size] * 3, leaves, join=SMOOTH, blend=0.15, roughness=0.9)
        if o.chance(0.35):  # fruit
            fruit = hsv(o.between(0, 0.05), 0.85, 0.85)
            for _ in range(6):
                angle = o.between(-2.8, -0.3)
                at = [math.cos(angle) * radius * 0.95, math.sin(angle) * radius * 0.95, trunk + radius * o.between(0.6, 1.3)]
                o.add(ELLIPSOID, at, [0.06] * 3, fruit, roughness=0.4)
    if o.chance(0.3):
        o.add(CYLINDER, [0, 0, 0.03], [o.between(0.3, 0.5), 0.04, 0, 0.02], o.leaf() * 0.8, roughness=1)


def mushroom(o):
    stem, height, cap, dome = o.between(0.12, 0.24), o.between(0.4, 0.8), o.between(0.4, 0.65), o.between(0.25, 0.45)
    color, pale = o.color(), hsv(0.12, 0.15, 0.9)
    o.add(ELLIPSOID, [0, 0, height], [cap, cap, dome], color, roughness=0.4)
    o.add(BOX, [0, 0, height - 0.5], [2, 2, 0.46, 0], pale * 0.9, join=SUBTRACT, roughness=0.9)
    o.add(CONE, [0, 0, height / 2], [stem * 1.25, stem, height / 2, 0.05], pale, roughness=0.8)
    if o.chance(0.7):  # dots
        count, turn, dots = int(o.random.integers(5, 10)), o.between(0, 1), o.white()
        for i in range(count):
            angle, rise = 2 * math.pi * (i + turn) / count, [0.42, 0.9, 0.66][i % 3]
            at = [math.cos(angle) * math.cos(rise) * cap, math.sin(angle) * math.cos(rise) * cap, math.sin(rise) * dome + height]
            o.add(ELLIPSOID, at, [o.between(0.06, 0.1)] * 3, dots, roughness=0.5)
        o.add(ELLIPSOID, [0, 0, height + dome], [0.09] * 3, dots, roughness=0.5)
    if o.chance(0.3):
        o.add(CYLINDER, [0, 0, 0.02], [cap * 0.8, 0.03, 0, 0.02], o.leaf(), roughness=1)


def snowman(o):
    low = o.between(0.38, 0.48)
    middle = low * o.between(0.7, 0.82)
    head = middle * o.between(0.68, 0.8)
    z1, z2 = low * 0.95, low * 1.67 + middle * 0.6
    z3, snow, coal = z2 + middle * 0.72 + head * 0.65, np.array([0.93, 0.95, 0.97]) * o.between(0.93, 1), o.dark()
    o.add(ELLIPSOID, [0, 0, z1], [low] * 3, snow, roughness=0.8)
    o.add(ELLIPSOID, [0, 0, z2], [middle] * 3, snow, join=SMOOTH, blend=0.06, roughness=0.8)
    o.add(ELLIPSOID, [0, 0, z3], [head] * 3, snow, join=SMOOTH, blend=0.05, roughness=0.8)
    for side in (-1, 1):
        o.add(ELLIPSOID, [side * head * 0.36, -head * 0.88, z3 + head * 0.25], [head * 0.15] * 3, coal, roughness=0.3)
    nose = o.between(0.2, 0.32)
    o.add(CONE, [0, -head * 0.9 - nose / 2, z3 - head * 0.05], [head * 0.2, 0.02, nose / 2, 0.01], hsv(0.07, 0.85, 0.95),
          axis_along([0, -1, -0.1]))
    buttons = coal if o.chance(0.5) else o.color()
    for rise in (0.15, 0.55, -0.25):
        o.add(ELLIPSOID, [0, -middle * math.cos(rise) * 0.97, z2 + middle * math.sin(rise)], [0.05] * 3, buttons, roughness=0.4)
    hat = coal if o.chance(0.4) else o.color()
    if o.chance(0.75):
        for radius, half, z, color in ((1.1, 0.03, 0, hat), (0.75, 0.17, 0.17, hat), (0.77, 0.04, 0.06, o.color())):
            o.add(CYLINDER, [0, 0, z3 + head * 0.8 + z], [head * radius, half, 0, 0.01], color, roughness=0.7)
    if o.chance(0.6):
        o.add(TORUS, [0, 0, z3 - head * 0.75], [head * 0.75, 0.07], o.color(), roughness=0.9)
    if o.chance(0.6):  # arms
        for side in (-1, 1):
            tip = [side * (middle + o.between(0.3, 0.45)), -0.05, z2 + o.between(0.1, 0.35)]
            o.rod([side * middle * 0.8, 0, z2 + 0.05], tip, 0.035, hsv(0.07, 0.6, 0.35), roughness=0.9)


def barrel(o):
    radius, half, bulge = o.between(0.32, 0.45), o.between(0.4, 0.6), o.between(1.05, 1.2)
    color, metallic = o.either(0.6, o.wood, o.color), 0.0 if o.chance(0.7) else 1.0
    wide = radius * bulge * 1.12
    o.add(ELLIPSOID, [0, 0, half], [wide, wide, half * 2.2], color, metallic=metallic, roughness=0.7)
    for z in (-1, 2 * half + 1):
        o.add(BOX, [0, 0, z], [2, 2, 1, 0], color * 0.85, join=SUBTRACT, roughness=0.7)
    hoop = o.metal() * 0.6 if o.chance(0.7) else o.color()
    hoop_look = {"metallic": float(o.chance(0.8)), "roughness": 0.35}

    def radius_at(z):
        return wide * math.sqrt(max(0, 1 - ((z - half) / (half * 2.2)) ** 2))

    for z in (0.2, 1.8) if o.chance(0.5) else (0.15, 0.7, 1.3, 1.85):
        o.add(CYLINDER, [0, 0, z * half], [radius_at(z * half) + 0.02, 0.05, 0, 0.01], hoop, **hoop_look)
    o.add(CYLINDER, [0, 0, 2 * half + 0.04], [radius * 0.7, 0.1, 0, 0], color * 0.7, join=SUBTRACT, roughness=0.8)
    if o.chance(0.4):  # tap
        o.add(CYLINDER, [0, -radius_at(half * 0.8), half * 0.8], [0.07, 0.08, 0, 0.01], hoop, FACING, roughness=0.5)


def bottle(o):
    radius, half, color = o.between(0.2, 0.32), o.between(0.35, 0.6), o.color()
    neck, neck_half, shoulder = radius * o.between(0.28, 0.45), o.between(0.12, 0.25), o.between(0.1, 0.25)
    look = {"roughness": o.between(0.1, 0.4)}
    square = o.chance(0.25)
    if square:
        o.add(BOX, [0, 0, half], [radius, radius * 0.8, half, 0.06], color, **look)
    else:
        o.add(CYLINDER, [0, 0, half], [radius, half, 0, 0.06], color, **look)
    o.add(CONE, [0, 0, 2 * half + shoulder * 0.7], [radius * (0.7 if square else 0.92), neck, shoulder, 0.02], color,
          join=SMOOTH, blend=0.08, **look)
    top = 2 * half + shoulder * 1.6
    o.add(CYLINDER, [0, 0, top + neck_half], [neck, neck_half + 0.05, 0, 0.01], color, **look)
    o.add(CYLINDER, [0, 0, top + 2 * neck_half], [neck * o.between(1.15, 1.4), o.between(0.05, 0.1), 0, 0.015], o.color(),
          metallic=float(o.chance(0.4)), roughness=0.4)
    if o.chance(0.75):  # label
        z, tall, paper = half * o.between(0.8, 1.1), half * o.between(0.35, 0.6), o.either(0.5, o.white, o.color)
        if square:
            o.add(BOX, [0, 0, z], [radius + 0.012, radius * 0.8 + 0.012, tall, 0.05], paper, roughness=0.8)
        else:
            rings = (o.color(), 1.2 / tall, 0) if o.chance(0.4) else None
            o.add(CYLINDER, [0, 0, z], [radius + 0.014, tall, 0, 0.005], paper, roughness=0.8, rings=rings)


def robot(o):
    color, second, metallic = o.either(0.4, o.metal, o.color), o.color(), float(o.chance(0.5))
    width, half, depth, leg = o.between(0.28, 0.42), o.between(0.28, 0.4), o.between(0.2, 0.3), o.between(0.2, 0.35)
    face, tall = width * o.between(0.6, 0.95), o.between(0.17, 0.26)
    look, limb = {"metallic": metallic, "roughness": 0.35}, {"metallic": metallic, "roughness": 0.4}
    for side in (-1, 1):
        o.add(CYLINDER, [side * width * 0.5, 0, leg], [0.085, leg, 0, 0.02], second, **limb)
        o.add(BOX, [side * width * 0.5, -0.05, 0.06], [0.11, 0.17, 0.06, 0.03], color * 0.8, roughness=0.4)
    hip = 2 * leg
    o.add(BOX, [0, 0, hip + half], [width, depth, half, 0.05], color, **look)
    o.add(CYLINDER, [0, 0, hip + 2 * half + 0.03], [0.1, 0.06, 0, 0], second, roughness=0.4)
    z, is_round = hip + 2 * half + 0.05 + tall, o.chance(0.3)
    if is_round:
        o.add(ELLIPSOID, [0, 0, z], [face, face * 0.9, tall * 1.1], color, **look)
    else:
        o.add(BOX, [0, 0, z], [face, depth * 0.9, tall, 0.05], color, **look)
    eyes, front = o.color(), -face * 0.8 if is_round else -depth * 0.9
    for side in (-1, 1):
        o.add(ELLIPSOID, [side * face * 0.42, front, z + 0.03], [0.07] * 3, eyes, roughness=0.2)
    if not is_round:
        o.add(BOX, [0, front, z - tall * 0.5], [face * 0.5, 0.03, 0.03, 0.01], o.dark(), roughness=0.5)
    o.add(BOX, [0, -depth, hip + half * 1.1], [width * 0.55, 0.03, half * 0.4, 0.02], second, roughness=0.4)
    if o.chance(0.7):  # aerial
        o.add(CYLINDER, [0, 0, z + tall + 0.1], [0.025, 0.13, 0, 0], second, metallic=1, roughness=0.3)
        o.add(ELLIPSOID, [0, 0, z + tall + 0.25], [0.065] * 3, eyes, roughness=0.3)
    angle = o.between(-0.2, 0.9)
    for side in (-1, 1):
        shoulder = [side * (width + 0.06), 0, hip + 2 * half - 0.12]
        hand = [side * (width + 0.06 + 0.42 * math.sin(max(angle, 0.1))), o.between(-0.25, 0), shoulder[2] - 0.45 * math.cos(angle)]
        o.rod(shoulder, hand, 0.075, second, **limb)
        o.add(ELLIPSOID, hand, [0.11] * 3, color * 0.8, **limb)


def car(o):
    length, width, half, cabin = o.between(0.75, 1), o.between(0.36, 0.46), o.between(0.14, 0.2), o.between(0.13, 0.22)
    color, base, wheel, roof = o.color(), o.between(0.2, 0.26), o.between(0.17, 0.22), o.between(0.4, 0.62)
    shift, frame = o.between(-0.15, 0.2) * length, turned(o.between(0.35, 0.75) * (1 if o.chance(0.5) else -1))

    def at(x, y, z):  # the long axis is x, turned so that front and side are seen
        return frame.T @ np.array([x, y, z])

    look, roof = {"metallic": float(o.chance(0.3)), "roughness": 0.25}, roof * length
    o.add(BOX, at(0, 0, base + half), [length, width, half, 0.08], color, frame, **look)
    o.add(BOX, at(shift, 0, base + 2 * half + cabin * 0.9), [roof, width * 0.86, cabin, 0.09],
          color if o.chance(0.5) else o.color(), frame, **look)
    glass, z = o.either(0.5, o.dark, o.glass), base + 2 * half + cabin * 0.85
    o.add(BOX, at(shift, 0, z), [roof * 0.8, width * 0.88, cabin * 0.55, 0.04], glass, frame, roughness=0.1)
    o.add(BOX, at(shift, 0, z), [roof * 1.02, width * 0.7, cabin * 0.55, 0.04], glass, frame, roughness=0.1)
    axle = np.stack([frame[0], [0, 0, 1], frame[1]])
    for sx in (-0.6, 0.6):
        for sy in (-1, 1):
            o.add(CYLINDER, at(sx * length, sy * width, wheel), [wheel, 0.09, 0, 0.03], o.dark(), axle, roughness=0.9)
            o.add(CYLINDER, at(sx * length, sy * (width + 0.01), wheel), [wheel * 0.5, 0.095, 0, 0.01], o.metal(), axle,
                  metallic=1, roughness=0.3)
    for sy in (-0.6, 0.6):
        o.add(ELLIPSOID, at(-length, sy * width, base + half * 1.2), [0.07] * 3, [1, 0.95, 0.7], frame, roughness=0.2)
        o.add(ELLIPSOID, at(length, sy * width, base + half * 1.2), [0.055] * 3, [0.85, 0.1, 0.1], frame, roughness=0.3)


CATEGORIES = (mug, table, chair, lamp, house, rocket, tree, mushroom, snowman, barrel, bottle, robot, car)


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


class Object:
    """parts [n, 32], scale and center: an object that fills the cube."""

    def __init__(self, library, seed):
        self.library, self.seed = library, seed
        self.name = CATEGORIES[seed % len(CATEGORIES)].__name__
        sketch = Sketch(seed)
        CATEGORIES[seed % len(CATEGORIES)](sketch)
        self.parts = np.ascontiguousarray(np.stack(sketch.parts))
        box = np.zeros(6, np.float32)
        library.train_bounds(pointer(self.parts), len(self.parts), ctypes.c_float(2.4), pointer(box))
        self.center = (box[:3] + box[3:]) / 2
        self.scale = FILL / float((box[3:] - box[:3]).max())

    def solid(self):
        return pointer(self.parts), len(self.parts), ctypes.c_float(self.scale), pointer(self.center)

    def voxels(self, resolution=RESOLUTION):
        """coords u8 [n, 3], dual f32 [n, 3], flags u8 [n], material u8 [n, 6] (base colour, metallic, roughness, creased)."""
        room = 120000
        coords, dual = np.zeros((room, 3), np.uint8), np.zeros((room, 3), np.float32)
        flags, material = np.zeros(room, np.uint8), np.zeros((room, 6), np.uint8)
        count = self.library.train_extract(*self.solid(), resolution, ctypes.c_int64(room), pointer(coords), pointer(dual), pointer(flags),
                                           pointer(material))
        if count <= 0:
            raise ValueError(f"object {self.seed}: no surface, or more than {room} voxels")
        return coords[:count].copy(), dual[:count].copy(), flags[:count].copy(), material[:count].copy()

    def view(self, number):
        """Camera and light (for the library) of a picture from the front, by chance; the same for the same number."""
        random = np.random.default_rng([self.seed, number])
        azimuth, elevation = math.radians(random.uniform(-35, 35)), math.radians(random.uniform(10, 35))
        half = math.radians(random.uniform(25, 42)) / 2
        out = np.array([math.sin(azimuth) * math.cos(elevation), -math.cos(azimuth) * math.cos(elevation), math.sin(elevation)])
        right = np.array([math.cos(azimuth), math.sin(azimuth), 0])
        position = 0.66 / math.sin(half) * random.uniform(1.0, 1.12) * out
        camera = np.concatenate([position, right, np.cross(right, -out), -out, [math.tan(half)]]).astype(np.float32)
        around, above = azimuth + math.radians(random.uniform(-70, 70)), math.radians(random.uniform(30, 65))
        light = [math.sin(around) * math.cos(above), -math.cos(around) * math.cos(above), math.sin(above)]
        light = np.array(light + [random.uniform(0.65, 0.95), random.uniform(0.35, 0.55), random.uniform(0.5, 1)], np.float32)
        return camera, light

    def picture(self, view, side=256, samples=1):
        """RGBA of a view."""
        camera, light = self.view(view)
        rgba = np.zeros((side, side, 4), np.uint8)
        self.library.train_render(*self.solid(), side, samples, pointer(camera), pointer(light), pointer(rgba))
        return rgba

    def surface(self, view, side):
        """What is behind each pixel of a view: f32 [side, side, 7]; 1 or 0 (nothing), position, base colour."""
        camera, _ = self.view(view)
        surface = np.zeros((side, side, 7), np.float32)
        self.library.train_surface(*self.solid(), side, pointer(camera), pointer(surface))
        return surface


def load_library(path):
    library = ctypes.CDLL(os.path.abspath(path))
    library.train_extract.restype = ctypes.c_int64
    library.train_bounds.restype = library.train_render.restype = library.train_surface.restype = library.train_signs.restype = None
    return library


def crop_box(rgba):
    """The square around the alpha's box that the pipeline cuts out: left, top, right, bottom."""
    rows, columns = np.nonzero(rgba[:, :, 3] > 0.8 * 255)
    x, y = (columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2
    half = int(max(columns.max() - columns.min(), rows.max() - rows.min())) // 2
    return x - half, y - half, x + half, y + half


def preprocess(rgba, side):
    """As the pipeline does it: square around the alpha's box, premultiplied on black, reduced by Lanczos."""
    values = np.asarray(Image.fromarray(rgba).crop(crop_box(rgba))).astype(np.float32) / 255
    return np.asarray(Image.fromarray((values[:, :, :3] * values[:, :, 3:] * 255).astype(np.uint8)).resize((side, side), Image.LANCZOS))


# Cells around the edge that a voxel owns, by axis, in the order of the quad's corners (as in the runtime's dual grid).
QUADS = (((0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0)), ((0, 0, 0), (1, 0, 0), (1, 0, 1), (0, 0, 1)),
         ((0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0, 0)))


def mesh_of(coords, dual, flags, resolution=RESOLUTION):
    """Vertices (one per voxel) and triangles."""
    side, coords = resolution + 1, coords.astype(np.int64)
    row = np.full(side ** 3, -1, np.int64)
    row[(coords[:, 0] * side + coords[:, 1]) * side + coords[:, 2]] = np.arange(len(coords))
    faces = []
    for axis in range(3):
        cells = coords[flags >> axis & 1 == 1][:, None] + np.array(QUADS[axis])
        quad = row[(cells[:, :, 0] * side + cells[:, :, 1]) * side + cells[:, :, 2]]
        quad = quad[(quad >= 0).all(1)]
        faces += [quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]]
    return (coords + dual) / resolution - 0.5, np.concatenate(faces)


def main():
    from evaluate import write_ply
    library, folder, first, count = load_library(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.makedirs(folder, exist_ok=True)
    for seed in range(first, first + count):
        item = Object(library, seed)
        name = os.path.join(folder, f"{item.name}_{(seed - HELD_OUT) // len(CATEGORIES) + 1}")
        coords, dual, flags, material = item.voxels()
        write_ply(name + "_gt.ply", *mesh_of(coords, dual, flags), material[:, :3] / 255)
        Image.fromarray(item.picture(0, samples=3)).save(name + ".png")


if __name__ == "__main__":
    main()
