/* SPDX-License-Identifier: MIT
 *
 * sdf.c: signed distance, normal and material of objects made of parts. The distance formulas are the usual ones for each primitive; an
 * ellipsoid's and a gable's are bounds, which is enough for tracing with short steps.
 */
#include "sdf.h"

#include <math.h>

static float min2(float a, float b) { return a < b ? a : b; }
static float max2(float a, float b) { return a > b ? a : b; }

static float ellipsoid_distance(const float q[3], const float size[4])
{
    float k0 = 0, k1 = 0;
    for (int i = 0; i < 3; i++) {
        float x = q[i] / size[i];
        k0 += x * x;
        k1 += x / size[i] * (x / size[i]);
    }
    k0 = sqrtf(k0), k1 = sqrtf(k1);
    return k1 < 1e-6f ? -min2(size[0], min2(size[1], size[2])) : k0 * (k0 - 1) / k1;
}

static float box_distance(const float q[3], const float size[4])
{
    float outside = 0, inside = -1e9f;
    for (int i = 0; i < 3; i++) {
        float x = fabsf(q[i]) - size[i] + size[3];
        outside += max2(x, 0) * max2(x, 0);
        inside = max2(inside, x);
    }
    return sqrtf(outside) + min2(inside, 0) - size[3];
}

static float cylinder_distance(float radial, float z, const float size[4])
{
    float x = radial - size[0] + size[3], y = fabsf(z) - size[1] + size[3];
    float outside = max2(x, 0) * max2(x, 0) + max2(y, 0) * max2(y, 0);
    return sqrtf(outside) + min2(max2(x, y), 0) - size[3];
}

static float cone_distance(float radial, float z, const float size[4])
{
    float half = size[2] - size[3], below = max2(size[0] - size[3], 1e-3f), above = max2(size[1] - size[3], 1e-3f);
    float slope_x = above - below, slope_y = 2 * half;
    float cap_x = radial - min2(radial, z < 0 ? below : above), cap_y = fabsf(z) - half;
    float t = ((above - radial) * slope_x + (half - z) * slope_y) / (slope_x * slope_x + slope_y * slope_y);
    t = max2(0, min2(1, t));
    float side_x = radial - above + slope_x * t, side_y = z - half + slope_y * t;
    float distance = sqrtf(min2(cap_x * cap_x + cap_y * cap_y, side_x * side_x + side_y * side_y));
    return (side_x < 0 && cap_y < 0 ? -distance : distance) - size[3];
}

static float gable_distance(const float q[3], const float size[4])
{
    float length = sqrtf(size[0] * size[0] + size[1] * size[1]);
    float roof = (fabsf(q[0]) * size[1] + q[2] * size[0] - size[0] * size[1]) / length;
    return max2(max2(roof, -q[2]), fabsf(q[1]) - size[2]);
}

static void part_point(const object_part *part, const float p[3], float q[3])
{
    for (int i = 0; i < 3; i++) {
        q[i] = 0;
        for (int j = 0; j < 3; j++)
            q[i] += part->rotation[3 * i + j] * (p[j] - part->center[j]);
    }
}

static float part_distance(const object_part *part, const float p[3])
{
    float q[3];
    part_point(part, p, q);
    const float *size = part->size, radial = sqrtf(q[0] * q[0] + q[1] * q[1]);
    switch ((enum part_kind)part->kind) {
    case PART_ELLIPSOID: return ellipsoid_distance(q, size);
    case PART_BOX: return box_distance(q, size);
    case PART_CYLINDER: return cylinder_distance(radial, q[2], size);
    case PART_CONE: return cone_distance(radial, q[2], size);
    case PART_CAPSULE: return hypotf(radial, q[2] - max2(-size[1], min2(size[1], q[2]))) - size[0];
    case PART_TORUS: return hypotf(radial - size[0], q[2]) - size[1];
    case PART_GABLE: return gable_distance(q, size);
    }
    return 1e3f;
}

/* Distance in object space; *owner: the part that makes it. */
static float join_parts(const object_part *parts, int count, const float p[3], int *owner)
{
    float distance = 1e3f;
    *owner = 0;
    for (int i = 0; i < count; i++) {
        float other = part_distance(parts + i, p);
        enum part_join join = (enum part_join)parts[i].join;
        if (join == JOIN_SUBTRACT) {
            if (-other > distance)
                distance = -other, *owner = i;
            continue;
        }
        float blend = parts[i].blend, overlap = join == JOIN_SMOOTH ? max2(blend - fabsf(distance - other), 0) / blend : 0;
        if (other < distance)
            distance = other, *owner = i;
        distance -= overlap * overlap * blend * 0.25f;
    }
    return distance;
}

static void to_object(const solid *object, const float world[3], float p[3])
{
    for (int i = 0; i < 3; i++)
        p[i] = world[i] / object->scale + object->center[i];
}

float solid_distance(const solid *object, const float world[3])
{
    float p[3];
    int owner;
    to_object(object, world, p);
    return join_parts(object->parts, object->count, p, &owner) * object->scale;
}

void solid_normal(const solid *object, const float world[3], float normal[3])
{
    const float step = 6e-4f;
    float length = 1e-20f;
    for (int i = 0; i < 3; i++) {
        float at[3] = {world[0], world[1], world[2]};
        at[i] = world[i] + step;
        normal[i] = solid_distance(object, at);
        at[i] = world[i] - step;
        normal[i] -= solid_distance(object, at);
        length += normal[i] * normal[i];
    }
    for (int i = 0; i < 3; i++)
        normal[i] /= sqrtf(length);
}

void solid_material(const solid *object, const float world[3], float material[5])
{
    float p[3], q[3];
    int owner;
    to_object(object, world, p);
    join_parts(object->parts, object->count, p, &owner);
    const object_part *part = object->parts + owner;
    part_point(part, p, q);
    const float *color = part->color;
    enum part_pattern pattern = (enum part_pattern)part->pattern;
    if (pattern != PATTERN_PLAIN) {
        float along = pattern == PATTERN_RINGS ? q[2] : pattern == PATTERN_SECTORS ? atan2f(q[1], q[0]) : q[0];
        float phase = along * part->frequency + part->phase;
        if (phase - floorf(phase) < 0.5f)
            color = part->second_color;
    }
    for (int i = 0; i < 3; i++)
        material[i] = color[i];
    material[3] = part->metallic;
    material[4] = part->roughness;
}

/* One cell of the search for the box: where the surface passes, its nearest point counts. */
static void extend_box(const solid *object, const float at[3], float h, float box[6])
{
    float distance = solid_distance(object, at), normal[3];
    if (fabsf(distance) >= h * 0.9f)
        return;
    solid_normal(object, at, normal);
    for (int i = 0; i < 3; i++) {
        box[i] = min2(box[i], at[i] - distance * normal[i]);
        box[3 + i] = max2(box[3 + i], at[i] - distance * normal[i]);
    }
}

void train_bounds(const float *parts, int count, float limit, float box[6])
{
    enum { BLOCKS = 24, IN_BLOCK = 4 };
    const solid object = {(const object_part *)(const void *)parts, count, 1, {0, 0, 0}};
    const float h = 2 * limit / (BLOCKS * IN_BLOCK);
    for (int i = 0; i < 3; i++)
        box[i] = 1e9f, box[3 + i] = -1e9f;
    for (int block = 0; block < BLOCKS * BLOCKS * BLOCKS; block++) {
        const int first[3] = {block / (BLOCKS * BLOCKS) * IN_BLOCK, block / BLOCKS % BLOCKS * IN_BLOCK, block % BLOCKS * IN_BLOCK};
        float at[3];
        for (int i = 0; i < 3; i++)
            at[i] = ((float)first[i] + 0.5f * IN_BLOCK) * h - limit;
        if (fabsf(solid_distance(&object, at)) > BLOCK_REACH * IN_BLOCK * h)
            continue;
        for (int n = 0; n < IN_BLOCK * IN_BLOCK * IN_BLOCK; n++) {
            const int inside[3] = {n / (IN_BLOCK * IN_BLOCK), n / IN_BLOCK % IN_BLOCK, n % IN_BLOCK};
            for (int i = 0; i < 3; i++)
                at[i] = ((float)(first[i] + inside[i]) + 0.5f) * h - limit;
            extend_box(&object, at, h, box);
        }
    }
}
