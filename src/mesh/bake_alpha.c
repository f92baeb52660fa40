/* SPDX-License-Identifier: MIT
 *
 * bake_alpha.c: is the object translucent, or are there just stray texels with a low alpha? Viewers sort and draw translucent materials
 * badly, so the material is OPAQUE unless a coherent share of the surface lets light through.
 *
 * Texels count with the area that they cover in space. Patches are runs of translucent texels joined with those of the row above in the
 * same chart, and across seams where two faces that share an edge of the unsplit mesh are both translucent for the most part: a wall that
 * is cut into many charts is still one wall.
 */
#include "mesh/bake_internal.h"

#define TRANSLUCENT_BELOW 230      /* alpha < 0.9 */
#define SHARE 0.01                 /* of the surface that is translucent at least ... */
#define LARGEST_SHARE 0.005        /* ... and in one connected patch */

typedef struct run {
    int32_t y, begin, end;         /* columns [begin, end) of one chart */
    int32_t chart;
    int32_t parent;
    double area;
} run;

typedef struct run_list {
    run *items;
    int64_t count, capacity;
} run_list;

typedef struct face_alpha {
    int32_t texels, translucent;
    int32_t run;                   /* a run with a texel of the face */
} face_alpha;

typedef struct alpha_job {
    const esi_bake_job *bake;
    double *texel_area;            /* [n_faces] of one texel, in space */
    face_alpha *faces;
    run_list runs;
} alpha_job;

/* Space per texel of each face. */
static void measure_faces(const alpha_job *j)
{
    const esi_surface *s = j->bake->surface;
    const double size = (double)j->bake->size;

    for (int64_t f = 0; f < s->mesh.n_faces; f++) {
        const int32_t *corner = s->mesh.faces + 3 * f;
        const float *a = s->uvs + 2 * (int64_t)corner[0], *b = s->uvs + 2 * (int64_t)corner[1], *c = s->uvs + 2 * (int64_t)corner[2];
        const double u1 = (double)b[0] - (double)a[0], v1 = (double)b[1] - (double)a[1];
        const double u2 = (double)c[0] - (double)a[0], v2 = (double)c[1] - (double)a[1];
        const double texels = fabs(u1 * v2 - v1 * u2) * size * size;
        double p[3][3], cross[3];

        for (int k = 0; k < 3; k++) esi_vec_load(p[k], s->mesh.vertices, corner[k]);
        esi_vec_face_cross(cross, p[0], p[1], p[2]);
        j->texel_area[f] = texels > 0.0 ? sqrt(esi_vec_dot(cross, cross)) / texels : 0.0;
        j->faces[f] = (face_alpha){.run = -1};
    }
}

static espalier_status add_run(alpha_job *j, int32_t y, int32_t begin, int32_t chart)
{
    run_list *list = &j->runs;

    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity == 0 ? 4096 : 2 * list->capacity;
        run *grown = esi_realloc(j->bake->ctx, list->items, (size_t)capacity, sizeof *grown, "translucent texels");

        if (!grown) return ESPALIER_ERR_RESOURCE;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count] = (run){.y = y, .begin = begin, .end = begin, .chart = chart, .parent = (int32_t)list->count};
    list->count++;
    return ESPALIER_OK;
}

/* Adds the row's runs and what each face has of it; returns the area of its texels in *area, of the translucent ones in *translucent. */
static espalier_status scan_row(alpha_job *j, int32_t y, double *area, double *translucent)
{
    const esi_bake_job *bake = j->bake;
    bool open = false;

    for (int32_t x = 0; x < bake->size; x++) {
        const int64_t at = (int64_t)y * bake->size + x;
        const int32_t face = bake->owner[at], chart = face < 0 ? -1 : bake->input->unwrapped->face_chart[face];
        const bool clear = face >= 0 && bake->base[4 * at + 3] < TRANSLUCENT_BELOW;
        run *last;

        if (face >= 0) {
            *area += j->texel_area[face];
            j->faces[face].texels++;
        }
        if (!clear) {
            open = false;
            continue;
        }
        *translucent += j->texel_area[face];
        j->faces[face].translucent++;
        if (!open || j->runs.items[j->runs.count - 1].chart != chart) {
            if (add_run(j, y, x, chart) != ESPALIER_OK) return ESPALIER_ERR_RESOURCE;
            open = true;
        }
        last = &j->runs.items[j->runs.count - 1];
        last->end = x + 1;
        last->area += j->texel_area[face];
        if (j->faces[face].run < 0) j->faces[face].run = (int32_t)(j->runs.count - 1);
    }
    return ESPALIER_OK;
}

static int32_t root_of(run *runs, int32_t i)
{
    while (runs[i].parent != i) {
        runs[i].parent = runs[runs[i].parent].parent;
        i = runs[i].parent;
    }
    return i;
}

static void join(run *runs, int32_t a, int32_t b)
{
    a = root_of(runs, a);
    b = root_of(runs, b);
    if (a < b) runs[b].parent = a;
    else runs[a].parent = b;
}

/* Runs [first, end) are of one row, [above, first) of the row above if it has any. */
static void join_rows(run *runs, int64_t above, int64_t first, int64_t end)
{
    int64_t i = above;

    for (int64_t k = first; k < end; k++) {
        while (i < first && (runs[i].y < runs[k].y - 1 || runs[i].end <= runs[k].begin)) i++;
        for (int64_t n = i; n < first && runs[n].begin < runs[k].end; n++) {
            if (runs[n].chart == runs[k].chart) join(runs, (int32_t)n, (int32_t)k);
        }
    }
}

static bool mostly_translucent(const face_alpha *f)
{
    return f->run >= 0 && 2 * f->translucent > f->texels;
}

static espalier_status join_seams(const alpha_job *j)
{
    const int32_t *chart = j->bake->input->unwrapped->face_chart;
    const int64_t corners = 3 * j->bake->surface->mesh.n_faces;
    int32_t *opposite = NULL;
    espalier_status st = esi_opposite_corners(j->bake->ctx, &opposite, j->bake->input->mesh);

    for (int64_t c = 0; st == ESPALIER_OK && c < corners; c++) {
        const int64_t f = c / 3, g = opposite[c] / 3;

        if (opposite[c] < 0 || chart[f] == chart[g] || !mostly_translucent(&j->faces[f]) || !mostly_translucent(&j->faces[g])) continue;
        join(j->runs.items, j->faces[f].run, j->faces[g].run);
    }
    esi_free(j->bake->ctx, opposite);
    return st;
}

static double largest_patch(const run_list *list)
{
    double largest = 0.0;

    /* Roots come before the rest of their patches. */
    for (int64_t i = 0; i < list->count; i++) {
        const int32_t root = root_of(list->items, (int32_t)i);

        if (root != i) list->items[root].area += list->items[i].area;
    }
    for (int64_t i = 0; i < list->count; i++) {
        if (list->items[i].parent == i) largest = ESI_MAX(largest, list->items[i].area);
    }
    return largest;
}

espalier_status esi_bake_alpha_mode(esi_bake_job *bake, esi_alpha_mode *mode)
{
    const size_t n_faces = (size_t)bake->surface->mesh.n_faces;
    alpha_job j = {.bake = bake};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    double area = 0.0, translucent = 0.0;
    int64_t above = 0;

    *mode = ESI_ALPHA_OPAQUE;
    j.texel_area = esi_alloc(bake->ctx, n_faces, sizeof *j.texel_area, "areas of texels");
    j.faces = esi_alloc(bake->ctx, n_faces, sizeof *j.faces, "alpha of faces");
    if (!j.texel_area || !j.faces) goto done;
    measure_faces(&j);
    for (int32_t y = 0; y < bake->size; y++) {
        const int64_t first = j.runs.count;

        st = scan_row(&j, y, &area, &translucent);
        if (st == ESPALIER_OK && (y & 63) == 0) st = esi_check_cancel(bake->ctx);
        if (st != ESPALIER_OK) goto done;
        join_rows(j.runs.items, above, first, j.runs.count);
        above = first;
    }
    st = ESPALIER_OK;
    if (!(area > 0.0)) goto done;
    bake->stats->translucent_share = translucent / area;
    if (j.runs.count > 0) st = join_seams(&j);
    if (st != ESPALIER_OK) goto done;
    bake->stats->largest_translucent_share = largest_patch(&j.runs) / area;
    if (bake->stats->translucent_share >= SHARE && bake->stats->largest_translucent_share >= LARGEST_SHARE) *mode = ESI_ALPHA_BLEND;
done:
    esi_free(bake->ctx, j.runs.items);
    esi_free(bake->ctx, j.faces);
    esi_free(bake->ctx, j.texel_area);
    return st;
}
