/* SPDX-License-Identifier: MIT
 *
 * components.c: small parts go: by area (CuMesh remove_small_connected_components) or by their share of faces (floaters, as the ComfyUI
 * nodes for TRELLIS.2 drop them).
 */
#include "mesh/clean.h"
#include "mesh/edit.h"

/* Drops the faces of the components that go[] names. */
static espalier_status drop_components(espalier_context *ctx, esi_mesh *mesh, const int32_t *component, const uint8_t *go,
                                       int64_t *removed_faces)
{
    uint8_t *drop = esi_alloc(ctx, (size_t)mesh->n_faces, 1, "mesh components");
    espalier_status st;

    if (!drop) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < mesh->n_faces; f++) drop[f] = go[component[f]];
    st = esi_mesh_drop_faces(ctx, mesh, drop, removed_faces);
    esi_free(ctx, drop);
    return st;
}

espalier_status esi_mesh_remove_small_components(espalier_context *ctx, esi_mesh *mesh, double min_area, bool keep_largest,
                                                 int64_t *removed_components, int64_t *removed_faces)
{
    int32_t *component = NULL, n = 0, largest = 0;
    double *area = NULL;
    uint8_t *go = NULL;
    int64_t n_gone = 0;
    espalier_status st;

    if (removed_components) *removed_components = 0;
    if (removed_faces) *removed_faces = 0;
    st = esi_face_components(ctx, &component, &n, mesh);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    area = esi_calloc(ctx, (size_t)n, sizeof *area, "mesh components");
    if (area) go = esi_alloc(ctx, (size_t)n, 1, "mesh components");
    if (!go) goto done;
    st = ESPALIER_OK;
    for (int64_t f = 0; f < mesh->n_faces && st == ESPALIER_OK; f++) {
        area[component[f]] += esi_face_area(mesh, f);
        st = esi_poll(ctx, f);
    }
    for (int32_t i = 1; i < n; i++)
        if (area[i] > area[largest]) largest = i;
    for (int32_t i = 0; i < n; i++) {
        go[i] = !(area[i] >= min_area) && !(keep_largest && i == largest);
        n_gone += go[i];
    }
    if (st == ESPALIER_OK && n_gone) st = drop_components(ctx, mesh, component, go, removed_faces);
    if (st == ESPALIER_OK && removed_components) *removed_components = n_gone;
done:
    esi_free(ctx, component);
    esi_free(ctx, area);
    esi_free(ctx, go);
    return st;
}

espalier_status esi_mesh_remove_floaters(espalier_context *ctx, esi_mesh *mesh, double ratio, int64_t *removed_components,
                                         int64_t *removed_faces)
{
    int32_t *component = NULL, n = 0;
    int64_t *size = NULL, largest = 0, n_gone = 0;
    uint8_t *go = NULL;
    espalier_status st;

    if (removed_components) *removed_components = 0;
    if (removed_faces) *removed_faces = 0;
    st = esi_vertex_components(ctx, &component, &n, mesh);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    size = esi_calloc(ctx, (size_t)n, sizeof *size, "mesh components");
    if (size) go = esi_alloc(ctx, (size_t)n, 1, "mesh components");
    if (!go) goto done;
    st = ESPALIER_OK;
    for (int64_t f = 0; f < mesh->n_faces; f++) size[component[f]]++;
    for (int32_t i = 0; i < n; i++) largest = ESI_MAX(largest, size[i]);
    for (int32_t i = 0; i < n; i++) {
        go[i] = (double)size[i] < ratio * (double)largest;
        n_gone += go[i];
    }
    if (n_gone) st = drop_components(ctx, mesh, component, go, removed_faces);
    if (st == ESPALIER_OK && removed_components) *removed_components = n_gone;
done:
    esi_free(ctx, component);
    esi_free(ctx, size);
    esi_free(ctx, go);
    return st;
}
