/* SPDX-License-Identifier: MIT
 *
 * sdf_voxels.c: the flexible dual grid of a solid, exactly as a decoder should produce it. Every grid edge whose ends have different signs
 * activates its four cells and flags the one at its near side in the other two axes; a cell's vertex minimises the distance to the tangent
 * planes at the crossings (quadric error, drawn a little towards the crossings' mean) and is held inside the cell. The surface is closed.
 */
#include "sdf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REGULARIZATION   0.03f
#define CORNERS_IN_BLOCK 4

/* What the crossings of a cell add up to; positions in cells from the cell's centre. */
typedef struct cell_sum {
    int32_t cell;
    float count, mean[3];
    float normals[6];              /* sum of n n^T: xx xy xz yy yz zz */
    float offsets[3];              /* sum of n (n . p) */
    uint8_t flags;
} cell_sum;

typedef struct extraction {
    const solid *object;
    int resolution;
    float *signs;                  /* distance at the corners, (resolution + 1)^3 */
    int32_t *slot_of;              /* per cell, -1: none */
    cell_sum *sums;
    int64_t count, capacity;
} extraction;

static void find_crossing(const extraction *x, const int corner[3], int axis, float at_start, float at_end, float world[3])
{
    const float h = 1.0f / (float)x->resolution;
    float low = 0, high = 1, f_low = at_start, f_high = at_end, t = 0.5f;
    for (int step = 0; step < 4; step++) { /* regula falsi with one bisection */
        t = step == 2 ? 0.5f * (low + high) : low + (high - low) * f_low / (f_low - f_high);
        for (int i = 0; i < 3; i++)
            world[i] = ((float)corner[i] + (i == axis ? t : 0)) * h - 0.5f;
        float f = solid_distance(x->object, world);
        if (fabsf(f) < 1e-5f)
            return;
        if ((f < 0) == (at_start < 0))
            low = t, f_low = f;
        else
            high = t, f_high = f;
    }
}

static void add_crossing(cell_sum *sum, const float p[3], const float n[3])
{
    const float along = n[0] * p[0] + n[1] * p[1] + n[2] * p[2];
    int k = 0;
    for (int i = 0; i < 3; i++) {
        sum->mean[i] += p[i];
        sum->offsets[i] += n[i] * along;
        for (int j = i; j < 3; j++)
            sum->normals[k++] += n[i] * n[j];
    }
    sum->count += 1;
}

/* The cell's sum, or NULL where there is no room. */
static cell_sum *sum_of(extraction *x, const int cell[3])
{
    int32_t key = (cell[0] * x->resolution + cell[1]) * x->resolution + cell[2];
    if (x->slot_of[key] < 0) {
        if (x->count == x->capacity)
            return NULL;
        x->slot_of[key] = (int32_t)x->count;
        x->sums[x->count] = (cell_sum){.cell = key};
        x->count++;
    }
    return x->sums + x->slot_of[key];
}

static int add_edge(extraction *x, const int corner[3], int axis, float at_start, float at_end)
{
    const int u = (axis + 1) % 3, v = (axis + 2) % 3, R = x->resolution;
    if (corner[u] < 1 || corner[v] < 1 || corner[u] >= R || corner[v] >= R)
        return 0; /* the object does not reach the border */
    float world[3], normal[3];
    find_crossing(x, corner, axis, at_start, at_end, world);
    solid_normal(x->object, world, normal);
    for (int k = 0; k < 4; k++) {
        int cell[3] = {corner[0], corner[1], corner[2]};
        cell[u] -= k & 1, cell[v] -= k >> 1;
        cell_sum *sum = sum_of(x, cell);
        if (!sum)
            return -1;
        float p[3];
        for (int i = 0; i < 3; i++)
            p[i] = (world[i] + 0.5f) * (float)R - (float)cell[i] - 0.5f;
        add_crossing(sum, p, normal);
        if (k == 3)
            sum->flags |= (uint8_t)(1 << axis);
    }
    return 0;
}

static float corner_distance(const extraction *x, float i, float j, float k)
{
    const float R = (float)x->resolution, at[3] = {i / R - 0.5f, j / R - 0.5f, k / R - 0.5f};
    return solid_distance(x->object, at);
}

/* Corners of blocks that the surface does not reach get the distance of the block's middle; only its sign is used. */
static void sample_block(extraction *x, const int first[3])
{
    const int C = x->resolution + 1, side = CORNERS_IN_BLOCK;
    const float half = 0.5f * (float)(side - 1);
    const float middle = corner_distance(x, (float)first[0] + half, (float)first[1] + half, (float)first[2] + half);
    const int far = fabsf(middle) * (float)x->resolution > (float)(BLOCK_REACH * side);
    for (int i = first[0]; i < first[0] + side && i < C; i++)
        for (int j = first[1]; j < first[1] + side && j < C; j++)
            for (int k = first[2]; k < first[2] + side && k < C; k++)
                x->signs[(i * C + j) * C + k] = far ? middle : corner_distance(x, (float)i, (float)j, (float)k);
}

static void sample_corners(extraction *x)
{
    const int blocks = (x->resolution + CORNERS_IN_BLOCK) / CORNERS_IN_BLOCK;
    for (int n = 0; n < blocks * blocks * blocks; n++) {
        const int first[3] = {n / (blocks * blocks) * CORNERS_IN_BLOCK, n / blocks % blocks * CORNERS_IN_BLOCK,
                              n % blocks * CORNERS_IN_BLOCK};
        sample_block(x, first);
    }
}

static int collect(extraction *x)
{
    const int R = x->resolution, C = R + 1, stride[3] = {C * C, C, 1};
    for (int i = 0; i < C * C * C; i++) {
        const int corner[3] = {i / (C * C), i / C % C, i % C};
        for (int axis = 0; axis < 3; axis++) {
            if (corner[axis] == R || (x->signs[i] < 0) == (x->signs[i + stride[axis]] < 0))
                continue;
            if (add_edge(x, corner, axis, x->signs[i], x->signs[i + stride[axis]]) != 0)
                return -1;
        }
    }
    return 0;
}

/* Minimises sum (n . (v - p))^2 + weight |v - mean|^2 by Cramer's rule; v relative to the cell's centre. */
static void solve_vertex(const cell_sum *sum, float v[3])
{
    const float *s = sum->normals, weight = REGULARIZATION * sum->count;
    const float m[3] = {sum->mean[0] / sum->count, sum->mean[1] / sum->count, sum->mean[2] / sum->count};
    const double a = s[0] + weight, b = s[1], c = s[2], d = s[3] + weight, e = s[4], f = s[5] + weight;
    const double r[3] = {sum->offsets[0] - (s[0] * m[0] + s[1] * m[1] + s[2] * m[2]),
                         sum->offsets[1] - (s[1] * m[0] + s[3] * m[1] + s[4] * m[2]),
                         sum->offsets[2] - (s[2] * m[0] + s[4] * m[1] + s[5] * m[2])};
    const double inverse[6] = {d * f - e * e, c * e - b * f, b * e - c * d, a * f - c * c, b * c - a * e, a * d - b * b};
    const double determinant = a * inverse[0] + b * inverse[1] + c * inverse[2];
    v[0] = m[0] + (float)((inverse[0] * r[0] + inverse[1] * r[1] + inverse[2] * r[2]) / determinant);
    v[1] = m[1] + (float)((inverse[1] * r[0] + inverse[3] * r[1] + inverse[4] * r[2]) / determinant);
    v[2] = m[2] + (float)((inverse[2] * r[0] + inverse[4] * r[1] + inverse[5] * r[2]) / determinant);
}

/* 0: all normals equal; 1: a crease. From the largest eigenvalue (power iteration) of the mean of n n^T. */
static float creasedness(const cell_sum *sum)
{
    const float *s = sum->normals;
    float q[3] = {0.58f, 0.6f, 0.55f}, value = 0;
    for (int step = 0; step < 12; step++) {
        float y[3] = {s[0] * q[0] + s[1] * q[1] + s[2] * q[2], s[1] * q[0] + s[3] * q[1] + s[4] * q[2],
                      s[2] * q[0] + s[4] * q[1] + s[5] * q[2]};
        value = sqrtf(y[0] * y[0] + y[1] * y[1] + y[2] * y[2]) + 1e-12f;
        for (int i = 0; i < 3; i++)
            q[i] = y[i] / value;
    }
    return 4 * (1 - value / sum->count);
}

static uint8_t to_byte(float x) { return (uint8_t)(255 * (x < 0 ? 0 : x > 1 ? 1 : x) + 0.5f); }

static void write_voxels(const extraction *x, uint8_t *coords, float *dual, uint8_t *flags, uint8_t *material)
{
    const int R = x->resolution;
    int64_t row = 0;
    for (int key = 0; key < R * R * R; key++) { /* ascending x, y, z */
        if (x->slot_of[key] < 0)
            continue;
        const cell_sum *sum = x->sums + x->slot_of[key];
        const int cell[3] = {key / (R * R), key / R % R, key % R};
        float v[3], world[3], values[6];
        solve_vertex(sum, v);
        for (int i = 0; i < 3; i++) {
            float local = v[i] + 0.5f;
            dual[3 * row + i] = local < 0 ? 0 : local > 1 ? 1 : local;
            coords[3 * row + i] = (uint8_t)cell[i];
            world[i] = ((float)cell[i] + dual[3 * row + i]) / (float)R - 0.5f;
        }
        flags[row] = sum->flags;
        solid_material(x->object, world, values);
        values[5] = creasedness(sum);
        for (int i = 0; i < 6; i++)
            material[6 * row + i] = to_byte(values[i]);
        row++;
    }
}

int64_t train_extract(const float *parts, int count, float scale, const float *center, int resolution, int64_t capacity, uint8_t *coords,
                      float *dual, uint8_t *flags, uint8_t *material)
{
    const solid object = {(const object_part *)(const void *)parts, count, scale, {center[0], center[1], center[2]}};
    const size_t R = (size_t)resolution;
    int64_t result = -1;
    extraction x = {.object = &object, .resolution = resolution, .capacity = capacity};
    if (resolution < 1 || resolution > 255)
        return -1;
    x.signs = malloc((R + 1) * (R + 1) * (R + 1) * sizeof *x.signs);
    x.slot_of = malloc(R * R * R * sizeof *x.slot_of);
    x.sums = malloc((size_t)capacity * sizeof *x.sums);
    if (x.signs && x.slot_of && x.sums) {
        memset(x.slot_of, 0xff, R * R * R * sizeof *x.slot_of);
        sample_corners(&x);
        if (collect(&x) == 0) {
            write_voxels(&x, coords, dual, flags, material);
            result = x.count;
        }
    }
    free(x.signs);
    free(x.slot_of);
    free(x.sums);
    return result;
}
