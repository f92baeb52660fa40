/* SPDX-License-Identifier: MIT
 *
 * unwrap.c: charts, packed; and a vertex for each place in the atlas that a vertex of the mesh has.
 */
#include "mesh/unwrap.h"

#include "mesh/partition.h"

esi_unwrap_options esi_unwrap_options_default(uint32_t atlas_size)
{
    return (esi_unwrap_options){.atlas_size = atlas_size, .padding = 2.0, .charts = esi_chart_options_default()};
}

void esi_unwrapped_free(espalier_context *ctx, esi_unwrapped *unwrapped)
{
    esi_free(ctx, unwrapped->source);
    esi_free(ctx, unwrapped->uvs);
    esi_free(ctx, unwrapped->faces);
    esi_free(ctx, unwrapped->face_chart);
    memset(unwrapped, 0, sizeof *unwrapped);
}

static bool same_place(const esi_charts *charts, const float *uv, int32_t a, int32_t b)
{
    return charts->face_chart[a / 3] == charts->face_chart[b / 3] && memcmp(uv + 2 * (size_t)a, uv + 2 * (size_t)b, 2 * sizeof *uv) == 0;
}

/* Corners of one vertex, by chart; corners are few, and in order already within a chart. */
static void sort_by_chart(int32_t *corners, int32_t n, const esi_charts *charts)
{
    for (int32_t i = 1; i < n; i++) {
        int32_t c = corners[i], j = i;
        while (j > 0 && charts->face_chart[corners[j - 1] / 3] > charts->face_chart[c / 3]) {
            corners[j] = corners[j - 1];
            j--;
        }
        corners[j] = c;
    }
}

/* First corner from `run` on that lies at the same place as corner i, or i itself. */
static int32_t first_alike(const int32_t *corners, int32_t run, int32_t i, const esi_charts *charts, const float *uv)
{
    while (run < i && !same_place(charts, uv, corners[run], corners[i])) run++;
    return run;
}

/* out->faces gets the new vertices' numbers; *n_new is how many there are. With source and uvs NULL it only counts. */
static espalier_status split_vertices(espalier_context *ctx, esi_unwrapped *out, const esi_mesh *mesh, esi_vertex_corners *around,
                                      const esi_charts *charts, const float *uv, int64_t *n_new)
{
    espalier_status st = ESPALIER_OK;
    int64_t n = 0;

    for (int64_t v = 0; v < mesh->n_vertices && st == ESPALIER_OK; v++) {
        int32_t *corners = around->corners + around->start[v], count = around->start[v + 1] - around->start[v], run = 0;

        st = esi_poll(ctx, v);
        sort_by_chart(corners, count, charts);
        for (int32_t i = 0; i < count; i++) {
            if (charts->face_chart[corners[run] / 3] != charts->face_chart[corners[i] / 3]) run = i;
            const int32_t alike = first_alike(corners, run, i, charts, uv);
            if (alike < i) {
                out->faces[corners[i]] = out->faces[corners[alike]];
                continue;
            }
            if (out->source) {
                out->source[n] = (int32_t)v;
                memcpy(out->uvs + 2 * n, uv + 2 * (size_t)corners[i], 2 * sizeof *uv);
            }
            out->faces[corners[i]] = (int32_t)n++;
        }
    }
    *n_new = n;
    return st;
}

static espalier_status build(espalier_context *ctx, esi_unwrapped *out, const esi_mesh *mesh, const esi_charts *charts, const float *uv)
{
    esi_vertex_corners around = {0};
    int64_t n;
    espalier_status st = esi_vertex_corners_build(ctx, &around, mesh);

    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    out->faces = esi_alloc(ctx, (size_t)mesh->n_faces, 3 * sizeof *out->faces, "unwrapped faces");
    if (!out->faces) goto done;
    st = split_vertices(ctx, out, mesh, &around, charts, uv, &n);
    if (st == ESPALIER_OK && n > ESI_MESH_MAX_VERTICES) st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "unwrap: too many vertices along seams");
    if (st != ESPALIER_OK) goto done;
    out->n_vertices = n;
    st = ESPALIER_ERR_RESOURCE;
    out->source = esi_alloc(ctx, (size_t)n, sizeof *out->source, "unwrapped vertices");
    out->uvs = esi_alloc(ctx, (size_t)n, 2 * sizeof *out->uvs, "texture coordinates");
    if (!out->source || !out->uvs) goto done;
    st = split_vertices(ctx, out, mesh, &around, charts, uv, &n);
done:
    esi_vertex_corners_free(ctx, &around);
    return st;
}

/* Faces far smaller than a texel may turn over when the atlas is rounded to float: those become a point. */
static void collapse_flipped(float *uv, int64_t n_faces)
{
    for (int64_t f = 0; f < n_faces; f++) {
        float *p = uv + 6 * f;
        double ux = (double)p[2] - (double)p[0], uy = (double)p[3] - (double)p[1];
        double vx = (double)p[4] - (double)p[0], vy = (double)p[5] - (double)p[1];
        if (ux * vy - uy * vx >= 0.0) continue;
        memcpy(p + 2, p, 2 * sizeof *p);
        memcpy(p + 4, p, 2 * sizeof *p);
    }
}

espalier_status esi_mesh_unwrap(espalier_context *ctx, esi_unwrapped *out, const esi_mesh *mesh, const esi_unwrap_options *options)
{
    esi_charts charts = {0};
    esi_pack_options pack = {.atlas_size = options->atlas_size, .padding = options->padding, .rotate = true};
    float *uv = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = options->box ? esi_charts_box(ctx, &charts, mesh) : esi_charts_create(ctx, &charts, mesh, &options->charts);
    if (st == ESPALIER_OK) st = esi_charts_pack(ctx, &uv, &charts, mesh, &pack, &out->pack);
    if (st == ESPALIER_OK) collapse_flipped(uv, mesh->n_faces);
    if (st == ESPALIER_OK) st = build(ctx, out, mesh, &charts, uv);
    if (st == ESPALIER_OK) {
        out->n_charts = charts.n_charts;
        for (int32_t i = 0; i < charts.n_charts; i++) out->charts_by_method[charts.method[i]]++;
        out->face_chart = charts.face_chart;
        charts.face_chart = NULL;
    } else esi_unwrapped_free(ctx, out);
    esi_free(ctx, uv);
    esi_charts_free(ctx, &charts);
    return st;
}
