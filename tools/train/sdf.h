/* SPDX-License-Identifier: MIT
 *
 * sdf.h: objects of the training data: solids made of a few primitive parts, as signed distance. Called from objects.py through ctypes.
 */
#ifndef ESPALIER_TRAIN_SDF_H
#define ESPALIER_TRAIN_SDF_H

#include <stdint.h>

enum part_kind { PART_ELLIPSOID, PART_BOX, PART_CYLINDER, PART_CONE, PART_CAPSULE, PART_TORUS, PART_GABLE };
enum part_join { JOIN_UNION, JOIN_SMOOTH, JOIN_SUBTRACT };
enum part_pattern { PATTERN_PLAIN, PATTERN_RINGS, PATTERN_SECTORS, PATTERN_STRIPES };

/* 32 floats, so that Python can fill a matrix. Sizes by kind: ellipsoid: radii; box: half sides, rounding; cylinder: radius, half height,
 * -, rounding; cone: radius below, above, half height, rounding; capsule: radius, half length; torus: radii; gable: half width, height,
 * half length. Axes of cylinder, cone, capsule and torus are local z. */
typedef struct object_part {
    float kind, join, blend;
    float center[3];
    float rotation[9];             /* object to part, by rows */
    float size[4];
    float color[3], metallic, roughness;
    float pattern, second_color[3], frequency, phase;
    float unused[2];
} object_part;

/* World = (object - center) * scale; the world is the cube [-0.5, 0.5]^3, z up, front towards -y. */
typedef struct solid {
    const object_part *parts;
    int count;
    float scale, center[3];
} solid;

/* A block of cells holds no surface where the distance at its middle is more than this many of its sides: half the diagonal is 0.87 of
 * one, the rest is for distances that are only bounds. */
#define BLOCK_REACH 2

float solid_distance(const solid *object, const float world[3]);
void solid_normal(const solid *object, const float world[3], float normal[3]);
/* Base colour (sRGB), metallic, roughness of the part that makes the surface there. */
void solid_material(const solid *object, const float world[3], float material[5]);

/* For ctypes: parts is [count][32]. */
void train_bounds(const float *parts, int count, float limit, float box[6]);         /* in object space, searched in +-limit */
/* Flexible dual grid of the solid's surface; the voxels' count, or -1: more than capacity. coords [n][3], dual [n][3] in the cell 0..1,
 * flags [n] (bit a: the cell's edge along axis a at its far corner is crossed), material [n][6] (5 of solid_material, then how creased). */
int64_t train_extract(const float *parts, int count, float scale, const float *center, int resolution, int64_t capacity, uint8_t *coords,
                      float *dual, uint8_t *flags, uint8_t *material);
/* camera: position, right, up, forward (3 each), tangent of half the angle. light: direction, key, ambient, highlight.
 * rgba [side][side][4]; samples^2 rays per pixel. */
void train_render(const float *parts, int count, float scale, const float *center, int side, int samples, const float *camera,
                  const float *light, uint8_t *rgba);
/* What the rays through the pixels' middles meet: surface [side][side][7], 1 or 0 (nothing), position, base colour. */
void train_surface(const float *parts, int count, float scale, const float *center, int side, const float *camera, float *surface);
/* votes [3][corners]^3 per edge by its near corner, along x, y, z: from -1 (its ends lie on two sides) to 1 (on one); value [corners]^3:
 * positive outside. */
void train_signs(const float *votes, int corners, int sweeps, float *value);

#endif
