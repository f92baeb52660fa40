/* SPDX-License-Identifier: MIT
 *
 * weld.c: one vertex for all that share a place: vertices go into buckets by a hash of their coordinates' bits, each bucket is
 * looked through with a small hash table of its own, in ascending order, so that the lowest number is always met first.
 */
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
