/* SPDX-License-Identifier: MIT
 *
 * faces.c: duplicate and degenerate faces (CuMesh clean_up.cu), and duplicates dropped in pairs, which leaves the mod-2 boundary alone.
 */
#include "mesh/clean.h"
#include "mesh/edit.h"

/* --------------------------------------------------------------- duplicates */

typedef struct duplicate_job {
    espalier_context *ctx;
    const int32_t *faces;
    esi_partition buckets;
    uint8_t *drop;
    int bits;
    bool keep_parity;
} duplicate_job;

static inline void sorted_vertices(int32_t out[3], const int32_t *v)
{
    out[0] = ESI_MIN(ESI_MIN(v[0], v[1]), v[2]);
    out[2] = ESI_MAX(ESI_MAX(v[0], v[1]), v[2]);
    out[1] = (int32_t)((int64_t)v[0] + v[1] + v[2] - out[0] - out[2]);
}

static inline uint64_t face_hash(const int32_t *v)
{
    int32_t s[3];

    sorted_vertices(s, v);
    return esi_mix_bits(esi_mix_bits((uint64_t)(uint32_t)s[0] << 32 | (uint32_t)s[1]) + (uint32_t)s[2]);
}

static inline bool same_vertices(const int32_t *a, const int32_t *b)
{
    int32_t s[3], t[3];

    sorted_vertices(s, a);
    sorted_vertices(t, b);
    return s[0] == t[0] && s[1] == t[1] && s[2] == t[2];
}

static void face_buckets(const void *arg, int64_t begin, int64_t end, uint32_t *bucket)
{
    const duplicate_job *j = arg;

    for (int64_t f = begin; f < end; f++) *bucket++ = j->bits ? (uint32_t)(face_hash(j->faces + 3 * f) >> (64 - j->bits)) : 0;
}

/* drop: 1 = a later copy; 2 = the first of an even number. */
static void duplicate_bucket(void *arg, size_t task, int slot)
{
    const duplicate_job *j = arg;
    const int64_t begin = j->buckets.start[task], end = j->buckets.start[task + 1];
    uint64_t size = 16;
    int32_t *table;

    (void)slot;
    while (size < 2 * (uint64_t)(end - begin)) size *= 2;
    table = esi_alloc(j->ctx, (size_t)size, sizeof *table, "duplicate faces");
    if (!table) return;
    memset(table, 0xff, (size_t)size * sizeof *table);
    for (int64_t i = begin; i < end; i++) {
        const int32_t f = j->buckets.items[i];
        const int32_t *v = j->faces + 3 * (int64_t)f;
        uint64_t at = face_hash(v) & (size - 1);

        while (table[at] >= 0 && !same_vertices(v, j->faces + 3 * (int64_t)table[at])) at = (at + 1) & (size - 1);
        if (table[at] < 0) {
            table[at] = f;
            continue;
        }
        j->drop[f] = 1;
        if (j->keep_parity) j->drop[table[at]] ^= 2;
    }
    esi_free(j->ctx, table);
}

espalier_status esi_mark_duplicate_faces(espalier_context *ctx, const esi_mesh *mesh, bool keep_parity, uint8_t *drop)
{
    duplicate_job j = {.ctx = ctx, .faces = mesh->faces, .drop = drop, .keep_parity = keep_parity};
    espalier_status st;

    while (j.bits < 10 && (mesh->n_faces >> (j.bits + 13)) > 0) j.bits++;
    st = esi_partition_build(ctx, &j.buckets, mesh->n_faces, UINT32_C(1) << j.bits, face_buckets, &j);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, j.buckets.n_buckets, duplicate_bucket, &j);
    esi_partition_free(ctx, &j.buckets);
    return st;
}

espalier_status esi_mesh_remove_duplicate_faces(espalier_context *ctx, esi_mesh *mesh, bool keep_parity, int64_t *removed)
{
    uint8_t *drop = esi_calloc(ctx, (size_t)mesh->n_faces, 1, "duplicate faces");
    espalier_status st;

    if (removed) *removed = 0;
    if (!drop) return ESPALIER_ERR_RESOURCE;
    st = esi_mark_duplicate_faces(ctx, mesh, keep_parity, drop);
    if (st == ESPALIER_OK) st = esi_mesh_drop_faces(ctx, mesh, drop, removed);
    esi_free(ctx, drop);
    return st;
}

/* --------------------------------------------------------------- degenerate */

#define FACES_PER_TASK INT64_C(0x4000)

typedef struct degenerate_job {
    const esi_mesh *mesh;
    double relative, absolute;
    uint8_t *drop;
} degenerate_job;

static bool is_degenerate(const esi_mesh *mesh, int64_t f, double relative, double absolute)
{
    const int32_t *v = mesh->faces + 3 * f;
    double side[3], longest2 = 0;

    if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) return true;
    for (int k = 0; k < 3; k++) {
        esi_edge_vector(side, mesh, v[k], v[(k + 1) % 3]);
        longest2 = ESI_MAX(longest2, esi_vec_dot(side, side));
    }
    return esi_face_area(mesh, f) < ESI_MIN(relative * longest2, absolute);
}

static void judge_faces(void *arg, size_t task, int slot)
{
    const degenerate_job *j = arg;
    const int64_t begin = (int64_t)task * FACES_PER_TASK, end = ESI_MIN(begin + FACES_PER_TASK, j->mesh->n_faces);

    (void)slot;
    for (int64_t f = begin; f < end; f++) j->drop[f] = is_degenerate(j->mesh, f, j->relative, j->absolute);
}

espalier_status esi_mesh_remove_degenerate_faces(espalier_context *ctx, esi_mesh *mesh, double relative, double absolute,
                                                 int64_t *removed)
{
    degenerate_job j = {mesh, relative, absolute, esi_alloc(ctx, (size_t)mesh->n_faces, 1, "degenerate faces")};
    espalier_status st;

    if (removed) *removed = 0;
    if (!j.drop) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, (size_t)((mesh->n_faces + FACES_PER_TASK - 1) / FACES_PER_TASK), judge_faces, &j);
    if (st == ESPALIER_OK) st = esi_mesh_drop_faces(ctx, mesh, j.drop, removed);
    esi_free(ctx, j.drop);
    return st;
}
