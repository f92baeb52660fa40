/* SPDX-License-Identifier: MIT
 *
 * shape_dump.c: analytic shapes on the dual grid. An edge of the lattice is flagged where the signed distance changes its sign; the vertex
 * of a cell is the mean of the crossings on its twelve edges. Blocks of cells far from the surface are skipped.
 */
#include "shape_dump.h"

#include "voxel/keys.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK 8

static const char *const names[SHAPE_KINDS] = {"sphere", "torus", "bumpy", "cup", "plates", "nested", "cube"};

const char *shape_name(shape_kind kind) { return names[kind]; }

bool shape_parse(shape_kind *out, const char *name)
{
    for (int i = 0; i < SHAPE_KINDS; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (shape_kind)i;
        return true;
    }
    return false;
}

/* ------------------------------------------------------------- shapes */

static double length3(double x, double y, double z) { return sqrt(x * x + y * y + z * z); }

static double torus(double x, double y, double z, double major, double minor)
{
    const double ring = sqrt(x * x + y * y) - major;
    return sqrt(ring * ring + z * z) - minor;
}

static double box(double x, double y, double z, double hx, double hy, double hz)
{
    const double qx = fabs(x) - hx, qy = fabs(y) - hy, qz = fabs(z) - hz;
    const double outside = length3(fmax(qx, 0), fmax(qy, 0), fmax(qz, 0)), inside = fmin(fmax(qx, fmax(qy, qz)), 0);
    return outside + inside;
}

/* Negative inside; changes by at most 2 per unit. */
static double shape_value(const shape_options *o, const double p[3])
{
    const double x = p[0], y = p[1], z = p[2], h = 1.0 / o->resolution;

    switch (o->kind) {
    case SHAPE_TORUS: return torus(x, y, z, 0.3, 0.1);
    case SHAPE_BUMPY: {
        const double sphere = length3(x, y, z) - 0.235 - 0.012 * sin(40 * x) * sin(40 * y) * sin(40 * z);
        return fmin(sphere, torus(x, y, z, 0.38, 0.095));
    }
    case SHAPE_PLATES: {
        const double gap = 1.5 * h, half = 1.5 * h;
        return fmin(box(x, y, z - gap - half, 0.3, 0.3, half), box(x, y, z + gap + half, 0.3, 0.3, half));
    }
    case SHAPE_NESTED: {
        const double r = length3(x, y, z);
        return fmin(fmax(r - 0.4, 0.3 - r), r - 0.15);
    }
    case SHAPE_CUBE: return box(x - 0.3 * h, y - 0.2 * h, z - 0.1 * h, 0.25, 0.25, 0.25);
    default: return length3(x, y, z) - 0.35;
    }
}

/* What is cut away from the surface: the cup's upper half. */
static bool is_cut(const shape_options *o, const double p[3]) { return o->kind == SHAPE_CUP && p[2] > 0.01; }

static void shape_color(const shape_options *o, const double p[3], float out[6])
{
    const bool dark = ((int)floor(p[0] * 16) + (int)floor(p[1] * 16) + (int)floor(p[2] * 16)) & 1;
    const float base[6] = {(float)(0.5 + p[0] * 0.8), (float)(0.5 + p[1] * 0.8), dark ? 0.2f : 0.8f, 0.0f, 0.6f, 1.0f};
    const float red[6] = {1.0f, 0.0f, 0.0f, 0.0f, 0.5f, 1.0f}, blue[6] = {0.0f, 0.0f, 1.0f, 0.0f, 0.5f, 1.0f};
    const float same[6] = {0.75f, 0.375f, 0.25f, 0.0f, 0.625f, 1.0f};

    memcpy(out, o->constant ? same : o->kind == SHAPE_PLATES ? (p[2] > 0 ? red : blue) : base, sizeof same);
    if (p[2] > 0) out[5] = o->alpha;
}

/* ------------------------------------------------------------- cells */

typedef struct builder {
    espalier_context *ctx;
    const shape_options *options;
    shape_dump *out;
    int64_t capacity;
    uint64_t random;
    int32_t base[3];                     /* of the block at hand */
    double value[BLOCK + 1][BLOCK + 1][BLOCK + 1];
} builder;

static double next_random(builder *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return (double)(b->random >> 11) * 0x1p-53;
}

static espalier_status grow(builder *b)
{
    shape_dump *d = b->out;
    const size_t n = (size_t)(b->capacity ? 2 * b->capacity : 4096);
    void *block;

    if (d->asset.n_voxels < b->capacity) return ESPALIER_OK;
#define GROW(field, bytes)                                                                                                                 \
    block = esi_realloc(b->ctx, d->field, n, bytes, "shape");                                                                              \
    if (!block) return ESPALIER_ERR_RESOURCE;                                                                                              \
    d->field = block
    GROW(coords, 4 * sizeof(int32_t));
    GROW(local, 3 * sizeof(float));
    GROW(logits, 3 * sizeof(float));
    GROW(attrs, 6 * sizeof(float));
#undef GROW
    b->capacity = (int64_t)n;
    return ESPALIER_OK;
}

static void place(const shape_options *o, const double cell[3], double p[3])
{
    for (int a = 0; a < 3; a++) p[a] = cell[a] / o->resolution - 0.5;
}

/* Does the surface cross the lattice edge from `corner` along `axis`? *t: where, 0..1. */
static bool crosses(const builder *b, const int32_t corner[3], int axis, double *t)
{
    const int i = corner[0] - b->base[0], j = corner[1] - b->base[1], k = corner[2] - b->base[2];
    const double from = b->value[i][j][k], to = b->value[i + (axis == 0)][j + (axis == 1)][k + (axis == 2)];
    double cell[3] = {corner[0], corner[1], corner[2]}, p[3];

    if ((from < 0) == (to < 0)) return false;
    *t = from / (from - to);
    cell[axis] += *t;
    place(b->options, cell, p);
    return !is_cut(b->options, p);
}

/* A logit far from the fence, or close to it and then wrong one time in three. */
static float draw_logit(builder *b, bool flagged)
{
    const double u = next_random(b), v = next_random(b), w = next_random(b);
    if (u < b->options->uncertain) {
        const bool wrong = v < 1.0 / 3.0;
        return (float)((flagged != wrong ? 1 : -1) * (1e-5 + 9e-4 * w));
    }
    return (float)((flagged ? 1 : -1) * (0.5 + 4 * w));
}

static espalier_status add_cell(builder *b, int32_t x, int32_t y, int32_t z)
{
    const shape_options *o = b->options;
    double mean[3] = {0, 0, 0}, t = 0, p[3];
    int crossings = 0;
    bool own[3] = {false, false, false};

    for (int axis = 0; axis < 3; axis++) {
        for (int k = 0; k < 4; k++) {
            int32_t corner[3] = {x, y, z};
            const int u = (axis + 1) % 3, v = (axis + 2) % 3;

            corner[u] += k & 1;
            corner[v] += k >> 1;
            if (!crosses(b, corner, axis, &t)) continue;
            for (int a = 0; a < 3; a++) mean[a] += corner[a];
            mean[axis] += t;
            crossings++;
            own[axis] |= k == 3;
        }
    }
    if (crossings == 0 || next_random(b) < o->missing) return ESPALIER_OK;
    espalier_status st = grow(b);
    if (st != ESPALIER_OK) return st;
    const int64_t n = b->out->asset.n_voxels++;
    const int32_t row[4] = {0, x, y, z};
    memcpy(b->out->coords + 4 * n, row, sizeof row);
    for (int a = 0; a < 3; a++) {
        mean[a] /= crossings;
        b->out->local[3 * n + a] = (float)(mean[a] - row[1 + a]);
        b->out->logits[3 * n + a] = draw_logit(b, own[a]);
    }
    place(o, mean, p);
    shape_color(o, p, b->out->attrs + 6 * n);
    return ESPALIER_OK;
}

static espalier_status add_block(builder *b, int32_t bx, int32_t by, int32_t bz)
{
    const int32_t n = b->options->resolution;
    const double middle[3] = {bx + BLOCK / 2.0, by + BLOCK / 2.0, bz + BLOCK / 2.0};
    double p[3];
    espalier_status st = ESPALIER_OK;

    place(b->options, middle, p);
    if (fabs(shape_value(b->options, p)) > 2 * 0.87 * (BLOCK + 2) / n) return ESPALIER_OK;
    b->base[0] = bx, b->base[1] = by, b->base[2] = bz;
    for (int i = 0; i <= BLOCK; i++)
        for (int j = 0; j <= BLOCK; j++)
            for (int k = 0; k <= BLOCK; k++) {
                const double corner[3] = {bx + i, by + j, bz + k};
                place(b->options, corner, p);
                b->value[i][j][k] = shape_value(b->options, p);
            }
    for (int32_t x = bx; st == ESPALIER_OK && x < ESI_MIN(bx + BLOCK, n); x++)
        for (int32_t y = by; st == ESPALIER_OK && y < ESI_MIN(by + BLOCK, n); y++)
            for (int32_t z = bz; st == ESPALIER_OK && z < ESI_MIN(bz + BLOCK, n); z++) st = add_cell(b, x, y, z);
    return st;
}

/* ------------------------------------------------------------- the asset */

static espalier_status build_mesh(espalier_context *ctx, shape_dump *d, int32_t n)
{
    const int64_t rows = d->asset.n_voxels;
    uint8_t *flags = esi_alloc(ctx, (size_t)rows, 3, "shape");
    if (!flags) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * rows; i++) flags[i] = d->logits[i] > 0;
    const esi_dual_grid grid = {.coords = d->coords, .count = rows, .local = d->local, .intersected = flags,
                                .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f}, .grid = {n, n, n}};
    espalier_status st = esi_dual_grid_to_mesh(ctx, &grid, &d->vertices, &d->faces, &d->asset.n_faces);
    esi_free(ctx, flags);
    return st;
}

espalier_status shape_dump_create(espalier_context *ctx, shape_dump *out, const shape_options *o)
{
    builder b = {.ctx = ctx, .options = o, .out = out, .random = o->seed * 2654435761u + 88172645463325252u};
    const int32_t n = o->resolution;
    espalier_status st = ESPALIER_OK;

    memset(out, 0, sizeof *out);
    for (int32_t x = 0; st == ESPALIER_OK && x < n; x += BLOCK)
        for (int32_t y = 0; st == ESPALIER_OK && y < n; y += BLOCK)
            for (int32_t z = 0; st == ESPALIER_OK && z < n; z += BLOCK) st = add_block(&b, x, y, z);
    if (st == ESPALIER_OK) st = build_mesh(ctx, out, n);
    if (st != ESPALIER_OK) {
        shape_dump_free(ctx, out);
        return st;
    }
    esi_asset *a = &out->asset;
    a->n_vertices = a->n_voxels;
    a->vertices = out->vertices;
    a->faces = out->faces;
    a->coords = out->coords;
    a->attrs = out->attrs;
    a->local = out->local;
    a->intersect_logits = out->logits;
    a->resolution = n;
    a->seed = (int64_t)o->seed;
    return ESPALIER_OK;
}

void shape_dump_free(espalier_context *ctx, shape_dump *d)
{
    esi_free(ctx, d->coords);
    esi_free(ctx, d->local);
    esi_free(ctx, d->logits);
    esi_free(ctx, d->attrs);
    esi_free(ctx, d->vertices);
    esi_free(ctx, d->faces);
    memset(d, 0, sizeof *d);
}
