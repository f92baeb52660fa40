/* SPDX-License-Identifier: MIT
 *
 * sanitize.c: a mesh from outside becomes one that every other function accepts; dropping faces and unreferenced vertices.
 */
#include "mesh/clean.h"
#include "mesh/edit.h"

/* ----------------------------------------------------------------- compact */

/* number[v] = 0 for vertices that a face names, -1 for the others; then their new numbers. */
static espalier_status number_used(espalier_context *ctx, const esi_mesh *mesh, int32_t *number, int64_t *n_used)
{
    espalier_status st = ESPALIER_OK;
    int32_t count = 0;

    memset(number, 0xff, (size_t)mesh->n_vertices * sizeof *number);
    for (int64_t i = 0; i < 3 * mesh->n_faces && st == ESPALIER_OK; i++) {
        number[mesh->faces[i]] = 0;
        st = esi_poll(ctx, i);
    }
    for (int64_t v = 0; v < mesh->n_vertices && st == ESPALIER_OK; v++) {
        if (number[v] == 0) number[v] = count++;
        st = esi_poll(ctx, v);
    }
    *n_used = count;
    return st;
}

espalier_status esi_mesh_compact(espalier_context *ctx, esi_mesh *mesh, int32_t **map)
{
    int32_t *number = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *number, "mesh vertices");
    espalier_status st;
    int64_t n_used;

    if (map) *map = NULL;
    if (!number) return ESPALIER_ERR_RESOURCE;
    st = number_used(ctx, mesh, number, &n_used);
    if (st == ESPALIER_OK && n_used < mesh->n_vertices) {      /* no way back from here: no polling */
        for (int64_t v = 0; v < mesh->n_vertices; v++)
            if (number[v] >= 0) memmove(mesh->vertices + 3 * (int64_t)number[v], mesh->vertices + 3 * v, 3 * sizeof *mesh->vertices);
        for (int64_t i = 0; i < 3 * mesh->n_faces; i++) mesh->faces[i] = number[mesh->faces[i]];
        mesh->n_vertices = n_used;
    }
    if (st == ESPALIER_OK && map) *map = number;
    else esi_free(ctx, number);
    return st;
}

espalier_status esi_mesh_drop_faces(espalier_context *ctx, esi_mesh *mesh, const uint8_t *drop, int64_t *removed)
{
    int64_t kept = 0;

    for (int64_t f = 0; f < mesh->n_faces; f++) {
        if (drop[f]) continue;
        if (kept != f) memcpy(mesh->faces + 3 * kept, mesh->faces + 3 * f, 3 * sizeof *mesh->faces);
        kept++;
    }
    if (removed) *removed = mesh->n_faces - kept;
    mesh->n_faces = kept;
    return esi_mesh_compact(ctx, mesh, NULL);
}

/* ---------------------------------------------------------------- sanitise */

static void mark_finite(const esi_mesh *mesh, uint8_t *finite)
{
    for (int64_t v = 0; v < mesh->n_vertices; v++) {
        const float *p = mesh->vertices + 3 * v;

        finite[v] = isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]);
    }
}

static espalier_status judge_faces(espalier_context *ctx, const esi_mesh *mesh, const uint8_t *finite, uint8_t *drop,
                                   esi_sanitize_stats *stats)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t f = 0; f < mesh->n_faces && st == ESPALIER_OK; f++) {
        const int32_t *v = mesh->faces + 3 * f;
        bool in_range = true;

        for (int k = 0; k < 3; k++) in_range &= v[k] >= 0 && v[k] < mesh->n_vertices;
        drop[f] = 1;
        if (!in_range) stats->bad_index++;
        else if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) stats->repeated_index++;
        else if (!finite[v[0]] || !finite[v[1]] || !finite[v[2]]) stats->not_finite++;
        else drop[f] = 0;
        st = esi_poll(ctx, f);
    }
    return st;
}

espalier_status esi_mesh_sanitize(espalier_context *ctx, esi_mesh *mesh, esi_sanitize_stats *stats)
{
    esi_sanitize_stats found = {0};
    uint8_t *finite = NULL, *drop = NULL;
    const int64_t n_before = mesh->n_vertices;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (stats) *stats = found;
    if (mesh->n_vertices < 0 || mesh->n_faces < 0) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "mesh: negative size");
    if (mesh->n_vertices > ESI_MESH_MAX_VERTICES || mesh->n_faces > ESI_MESH_MAX_FACES) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: %lld vertices and %lld faces are more than can be numbered",
                        (long long)mesh->n_vertices, (long long)mesh->n_faces);
    }
    finite = esi_alloc(ctx, (size_t)mesh->n_vertices, 1, "mesh check");
    if (finite) drop = esi_alloc(ctx, (size_t)mesh->n_faces, 1, "mesh check");
    if (!drop) goto done;
    mark_finite(mesh, finite);
    st = judge_faces(ctx, mesh, finite, drop, &found);
    if (st == ESPALIER_OK) st = esi_mesh_drop_faces(ctx, mesh, drop, NULL);
    found.unused_vertices = n_before - mesh->n_vertices;
    if (st == ESPALIER_OK && stats) *stats = found;
done:
    esi_free(ctx, finite);
    esi_free(ctx, drop);
    return st;
}
