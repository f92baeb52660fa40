/* SPDX-License-Identifier: MIT
 *
 * weld.c: one vertex for all that share a place. Exact: vertices go into buckets by a hash of their coordinates' bits, each bucket is
 * looked through with a small hash table of its own, in ascending order, so that the lowest number is always met first.
 */
#include "base/math64.h"
#include "mesh/clean.h"
#include "mesh/edit.h"

/* ------------------------------------------------------------------ merging */

espalier_status esi_mesh_merge_vertices(espalier_context *ctx, esi_mesh *mesh, const int32_t *representative, int32_t **map)
{
    uint8_t *drop = esi_alloc(ctx, (size_t)mesh->n_faces, 1, "welding");
    int32_t *number = NULL;
    const int64_t n_before = mesh->n_vertices;
    int64_t kept = 0;
    espalier_status st;

    if (map) *map = NULL;
    if (!drop) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        int32_t *v = mesh->faces + 3 * f;

        for (int k = 0; k < 3; k++) v[k] = representative[v[k]];
        drop[f] = v[0] == v[1] || v[1] == v[2] || v[2] == v[0];
    }
    for (int64_t f = 0; f < mesh->n_faces; f++)
        if (!drop[f]) memmove(mesh->faces + 3 * kept++, mesh->faces + 3 * f, 3 * sizeof *mesh->faces);
    mesh->n_faces = kept;
    st = esi_mesh_compact(ctx, mesh, map ? &number : NULL);
    if (st == ESPALIER_OK && map) {
        for (int64_t v = n_before - 1; v >= 0; v--) number[v] = number[representative[v]];
        *map = number;
    }
    esi_free(ctx, drop);
    return st;
}

/* -------------------------------------------------------------- equal places */

typedef struct weld_job {
    espalier_context *ctx;
    const esi_mesh *mesh;
    esi_partition buckets;
    int32_t *representative;
    int bits;                      /* 2^bits buckets */
} weld_job;

/* The same bits for -0 and +0. */
static inline void place_bits(uint32_t out[3], const float *p)
{
    memcpy(out, p, 12);
    for (int k = 0; k < 3; k++)
        if (out[k] == 0x80000000u) out[k] = 0;
}

static inline uint64_t place_hash(const float *p)
{
    uint32_t b[3];

    place_bits(b, p);
    return esi_mix_bits(esi_mix_bits((uint64_t)b[0] << 32 | b[1]) + b[2]);
}

static inline bool same_place(const float *p, const float *q)
{
    uint32_t a[3], b[3];

    place_bits(a, p);
    place_bits(b, q);
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

static void weld_buckets(const void *arg, int64_t begin, int64_t end, uint32_t *bucket)
{
    const weld_job *j = arg;

    for (int64_t v = begin; v < end; v++) *bucket++ = j->bits ? (uint32_t)(place_hash(j->mesh->vertices + 3 * v) >> (64 - j->bits)) : 0;
}

static void weld_bucket(void *arg, size_t task, int slot)
{
    const weld_job *j = arg;
    const int64_t begin = j->buckets.start[task], end = j->buckets.start[task + 1];
    const float *vertices = j->mesh->vertices;
    uint64_t size = 16;
    int32_t *table;

    (void)slot;
    while (size < 2 * (uint64_t)(end - begin)) size *= 2;
    table = esi_alloc(j->ctx, (size_t)size, sizeof *table, "welding");
    if (!table) return;
    memset(table, 0xff, (size_t)size * sizeof *table);
    for (int64_t i = begin; i < end; i++) {
        const int32_t v = j->buckets.items[i];
        const float *p = vertices + 3 * (int64_t)v;
        uint64_t at = place_hash(p) & (size - 1);

        while (table[at] >= 0 && !same_place(p, vertices + 3 * (int64_t)table[at])) at = (at + 1) & (size - 1);
        if (table[at] < 0) table[at] = v;
        j->representative[v] = table[at];
    }
    esi_free(j->ctx, table);
}

espalier_status esi_mesh_weld(espalier_context *ctx, esi_mesh *mesh, int64_t *merged, int32_t **map)
{
    weld_job j = {.ctx = ctx, .mesh = mesh};
    int64_t n_merged = 0;
    espalier_status st;

    if (map) *map = NULL;
    while (j.bits < 10 && (mesh->n_vertices >> (j.bits + 13)) > 0) j.bits++;
    st = esi_partition_build(ctx, &j.buckets, mesh->n_vertices, UINT32_C(1) << j.bits, weld_buckets, &j);
    if (st != ESPALIER_OK) return st;
    j.representative = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *j.representative, "welding");
    st = j.representative ? esi_parallel(ctx, j.buckets.n_buckets, weld_bucket, &j) : ESPALIER_ERR_RESOURCE;
    esi_partition_free(ctx, &j.buckets);
    if (st != ESPALIER_OK) goto done;
    for (int64_t v = 0; v < mesh->n_vertices; v++) n_merged += j.representative[v] != v;
    st = esi_mesh_merge_vertices(ctx, mesh, j.representative, map);
done:
    esi_free(ctx, j.representative);
    if (merged) *merged = st == ESPALIER_OK ? n_merged : 0;
    return st;
}

/* ------------------------------------------------------------- near places
 * Cells of side epsilon in a hash table, each divided into eight parts. What lies in one part is closer than epsilon (0.87 of it at most)
 * and joined without looking; parts of neighbouring cells are searched only while they belong to different sets. Most neighbours are
 * empty: a bit for each hash of a cell, in a table that fits the cache, says so. */

typedef struct cell {
    double at[3];                  /* floor(p / epsilon) */
    int32_t head[8];               /* chain of the vertices of each part, -1 = none */
} cell;

typedef struct cells {
    const esi_mesh *mesh;
    double epsilon;
    cell *table;                   /* [size], head[0] == EMPTY where there is none */
    uint64_t size;                 /* power of two */
    uint64_t *taken;               /* [size / 8] bits by hash */
    int32_t *next, *parent;        /* [n_vertices] */
} cells;

#define EMPTY (-2)

static uint64_t axis_hash(int axis, double at)
{
    uint64_t bits;

    memcpy(&bits, &at, sizeof bits);
    return esi_mix_bits(bits + (uint64_t)axis);
}

static bool may_be_taken(const cells *c, uint64_t hash)
{
    const uint64_t bit = hash >> 32 & (8 * c->size - 1);

    return c->taken[bit / 64] >> (bit % 64) & 1;
}

static cell *find_cell(const cells *c, uint64_t hash, const double at[3])
{
    uint64_t i = hash & (c->size - 1);

    while (c->table[i].head[0] != EMPTY && memcmp(c->table[i].at, at, sizeof c->table[i].at) != 0) i = (i + 1) & (c->size - 1);
    return &c->table[i];
}

static bool within(const cells *c, int32_t a, int32_t b)
{
    double d[3];

    esi_edge_vector(d, c->mesh, a, b);
    return esi_vec_dot(d, d) <= c->epsilon * c->epsilon;
}

static void join_part(cells *c, int32_t v, int32_t head)
{
    if (head < 0 || esi_union_root(c->parent, head) == esi_union_root(c->parent, v)) return;
    while (head >= 0 && !within(c, v, head)) head = c->next[head];
    if (head >= 0) esi_union_join(c->parent, v, head);
}

static void put_into_cell(cells *c, int32_t v, uint64_t hash, const double at[3], int part)
{
    const uint64_t bit = hash >> 32 & (8 * c->size - 1);
    cell *own = find_cell(c, hash, at);

    if (own->head[0] == EMPTY) {
        memcpy(own->at, at, sizeof own->at);
        for (int k = 0; k < 8; k++) own->head[k] = -1;
        c->taken[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
    if (own->head[part] >= 0) esi_union_join(c->parent, v, own->head[part]);
    c->next[v] = own->head[part];
    own->head[part] = v;
}

static void add_vertex(cells *c, int32_t v)
{
    double at[3][3];               /* [axis][before, own, behind] */
    uint64_t hash[3][3];
    int part = 0;

    for (int k = 0; k < 3; k++) {
        const double x = (double)c->mesh->vertices[3 * (int64_t)v + k] / c->epsilon, own = esi_floor(x);

        if (x - own >= 0.5) part |= 1 << k;
        for (int i = 0; i < 3; i++) {
            at[k][i] = own + (double)(i - 1) + 0.0;            /* one zero */
            hash[k][i] = axis_hash(k, at[k][i]);
        }
    }
    for (int i = 0; i < 27; i++) {
        const int x = i % 3, y = i / 3 % 3, z = i / 9;
        const uint64_t h = hash[0][x] ^ hash[1][y] ^ hash[2][z];
        const double place[3] = {at[0][x], at[1][y], at[2][z]};
        const cell *other;

        if (!may_be_taken(c, h)) continue;
        other = find_cell(c, h, place);
        for (int k = 0; k < 8 && other->head[0] != EMPTY; k++) join_part(c, v, other->head[k]);
    }
    put_into_cell(c, v, hash[0][1] ^ hash[1][1] ^ hash[2][1], (double[3]){at[0][1], at[1][1], at[2][1]}, part);
}

static espalier_status make_cells(espalier_context *ctx, cells *c)
{
    const int64_t n = c->mesh->n_vertices;

    while (c->size < 2 * (uint64_t)n) c->size *= 2;
    c->table = esi_alloc(ctx, (size_t)c->size, sizeof *c->table, "welding");
    if (c->table) c->taken = esi_calloc(ctx, (size_t)(c->size / 8), sizeof *c->taken, "welding");
    if (c->taken) c->next = esi_alloc(ctx, (size_t)n, sizeof *c->next, "welding");
    if (c->next) c->parent = esi_alloc(ctx, (size_t)n, sizeof *c->parent, "welding");
    if (!c->parent) return ESPALIER_ERR_RESOURCE;
    for (uint64_t i = 0; i < c->size; i++) c->table[i].head[0] = EMPTY;
    for (int64_t v = 0; v < n; v++) c->parent[v] = (int32_t)v;
    return ESPALIER_OK;
}

espalier_status esi_mesh_weld_within(espalier_context *ctx, esi_mesh *mesh, double epsilon, int64_t *merged)
{
    cells c = {.mesh = mesh, .epsilon = epsilon, .size = 16};
    espalier_status st;
    int64_t n_merged = 0;

    if (merged) *merged = 0;
    if (!(epsilon > 0) || !isfinite(epsilon)) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "welding: the distance is not positive");
    st = make_cells(ctx, &c);
    for (int64_t v = 0; v < mesh->n_vertices && st == ESPALIER_OK; v++) {
        add_vertex(&c, (int32_t)v);
        if ((v & 0xfff) == 0) st = esi_check_cancel(ctx);
    }
    if (st != ESPALIER_OK) goto done;
    for (int64_t v = 0; v < mesh->n_vertices; v++) {
        c.parent[v] = esi_union_root(c.parent, (int32_t)v);
        n_merged += c.parent[v] != v;
    }
    esi_free(ctx, c.table);
    c.table = NULL;
    st = esi_mesh_merge_vertices(ctx, mesh, c.parent, NULL);
    if (st == ESPALIER_OK && merged) *merged = n_merged;
done:
    esi_free(ctx, c.table);
    esi_free(ctx, c.taken);
    esi_free(ctx, c.next);
    esi_free(ctx, c.parent);
    return st;
}
