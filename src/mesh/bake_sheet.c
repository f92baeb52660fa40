/* SPDX-License-Identifier: MIT
 *
 * bake_sheet.c: attributes from the voxels of one sheet only.
 *
 * Two sheets one voxel apart lie in neighbouring layers of voxels, and plain trilinear interpolation mixes the layers wherever a sheet does
 * not run exactly through the centres of its own. So each voxel gets a place: where the original surface passes it. A voxel whose place
 * is off the plane of the sheet that is sampled belongs to another sheet and is left out of the mean. Only distances to the plane count,
 * so the winding of the original does not matter.
 *
 * The place is the lowest original vertex inside the voxel: raw dual-grid meshes have just one in each. Where there is none (original with
 * large faces), it is the surface's nearest point to the voxel's centre, looked up when it is first needed. Whoever looks it up finds the
 * same, so threads may race for it.
 */
#include "mesh/bake_internal.h"

/* place: vertex number; or PACKED and three times 10 bits of (place - voxel's minimum corner + 1) / 3; or */
#define PACKED UINT32_C(0x80000000)
#define UNKNOWN UINT32_C(0xffffffff)
#define NO_SURFACE UINT32_C(0xfffffffe)        /* no surface within SURFACE_CELLS of the centre */
#define PACKED_STEPS 1000.0                    /* per axis; below 1023, so that no place looks like one of the two above */
#define SURFACE_CELLS 1.5

/* Weight of a voxel by how much farther (in cells) it is off the plane than the best one: whole, then falling to nothing. */
#define SAME_SHEET 0.2
#define OTHER_SHEET 0.4

/* ---------------------------------------------------------------------- places */

typedef struct vertex_job {
    const esi_bake_sheets *sheets;
    int64_t per_task;
} vertex_job;

static void place_vertices(void *arg, size_t task, int slot)
{
    const vertex_job *j = arg;
    const esi_volume *volume = j->sheets->volume;
    const memory_order relaxed = memory_order_relaxed;
    const int64_t begin = (int64_t)task * j->per_task, end = ESI_MIN(begin + j->per_task, j->sheets->original->n_vertices);

    (void)slot;
    for (int64_t v = begin; v < end; v++) {
        float g[3];
        int32_t cell[3], row;
        bool inside = true;
        uint32_t old;

        esi_bake_to_grid(g, j->sheets->original->vertices + 3 * v, volume->resolution);
        for (int k = 0; k < 3; k++) {
            inside = inside && g[k] >= 0.0f && g[k] < (float)volume->resolution;
            cell[k] = inside ? (int32_t)g[k] : 0;
        }
        row = inside ? esi_voxel_index_find(&volume->index, 0, cell[0], cell[1], cell[2]) : -1;
        if (row < 0) continue;
        old = atomic_load_explicit(&j->sheets->place[row], relaxed);
        while ((uint32_t)v < old && !atomic_compare_exchange_weak_explicit(&j->sheets->place[row], &old, (uint32_t)v, relaxed, relaxed)) {
        }
    }
}

espalier_status esi_bake_sheets_open(espalier_context *ctx, esi_bake_sheets *out, const esi_bake_input *input)
{
    vertex_job j = {.sheets = out, .per_task = 1 << 16};

    *out = (esi_bake_sheets){.volume = input->volume, .original = input->original, .bvh = input->original_bvh};
    out->place = esi_alloc(ctx, (size_t)input->volume->count, sizeof *out->place, "surface in each voxel");
    if (!out->place) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < input->volume->count; i++) atomic_init(&out->place[i], UNKNOWN);
    return esi_parallel(ctx, (size_t)((input->original->n_vertices + j.per_task - 1) / j.per_task), place_vertices, &j);
}

void esi_bake_sheets_close(espalier_context *ctx, esi_bake_sheets *sheets)
{
    esi_free(ctx, sheets->place);
    memset(sheets, 0, sizeof *sheets);
}

static uint32_t nearest_surface(const esi_bake_sheets *s, int32_t row)
{
    const int32_t *cell = s->volume->coords + 4 * (int64_t)row + 1;
    const double size = 1.0 / (double)s->volume->resolution;
    uint32_t packed = PACKED;
    float centre[3], g[3];
    esi_bvh_hit hit;

    for (int k = 0; k < 3; k++) centre[k] = (float)(((double)cell[k] + 0.5) * size - 0.5);
    if (!esi_bvh_closest(s->bvh, centre, (float)(SURFACE_CELLS * size), &hit)) return NO_SURFACE;
    esi_bake_to_grid(g, hit.point, s->volume->resolution);
    for (int k = 0; k < 3; k++) {
        const double part = ((double)g[k] - (double)cell[k] + 1.0) / 3.0;

        packed |= (uint32_t)(ESI_MIN(ESI_MAX(part, 0.0), 1.0) * PACKED_STEPS + 0.5) << (10 * k);
    }
    return packed;
}

/* In cells; false where no surface is near. */
static bool find_place(const esi_bake_sheets *s, int32_t row, double out[3])
{
    uint32_t place = atomic_load_explicit(&s->place[row], memory_order_relaxed);

    if (place == UNKNOWN) {
        place = nearest_surface(s, row);
        atomic_store_explicit(&s->place[row], place, memory_order_relaxed);
    }
    if (place == NO_SURFACE) return false;
    if (place & PACKED) {
        const int32_t *cell = s->volume->coords + 4 * (int64_t)row + 1;

        for (int k = 0; k < 3; k++) out[k] = (double)cell[k] - 1.0 + 3.0 * (double)(place >> (10 * k) & 1023) / PACKED_STEPS;
    } else {
        float g[3];

        esi_bake_to_grid(g, s->original->vertices + 3 * (int64_t)place, s->volume->resolution);
        for (int k = 0; k < 3; k++) out[k] = (double)g[k];
    }
    return true;
}

/* -------------------------------------------------------------------- sampling */

typedef struct corners {
    int count;
    int32_t row[8];
    double weight[8];
} corners;

/* Voxels around g that exist, with their trilinear weights (> 0), in the order of esi_volume_trilinear(). */
static void find_corners(const esi_volume *v, const float g[3], corners *c)
{
    int32_t base[4] = {0};
    double fraction[3];
    esi_voxel_cursor cursor;
    bool inside = true;

    c->count = 0;
    for (int k = 0; k < 3; k++) {
        const double centred = (double)g[k] - 0.5;

        if (!(centred > -1.0 && centred < (double)v->resolution)) return;
        base[1 + k] = (int32_t)(centred + 1.0) - 1;
        fraction[k] = centred - (double)base[1 + k];
        inside = inside && base[1 + k] >= 0;
    }
    if (inside) {
        esi_voxel_cursor_init(&cursor, &v->index);
        esi_voxel_cursor_move(&cursor, base);
    }
    for (int i = 0; i < 8; i++) {
        const int dx = i & 1, dy = i >> 1 & 1, dz = i >> 2 & 1;
        const double w = (dx ? fraction[0] : 1.0 - fraction[0]) * (dy ? fraction[1] : 1.0 - fraction[1]) *
                         (dz ? fraction[2] : 1.0 - fraction[2]);
        int32_t row;

        if (!(w > 0.0)) continue;
        row = inside ? esi_voxel_cursor_at(&cursor, dx, dy, dz)
                     : esi_voxel_index_find(&v->index, 0, base[1] + dx, base[2] + dy, base[3] + dz);
        if (row < 0) continue;
        c->row[c->count] = row;
        c->weight[c->count++] = w;
    }
}

/* Voxels of other sheets lose their weight. */
static void weigh_sheets(const esi_bake_sheets *s, const float g[3], const double normal[3], corners *c)
{
    double off[8], least = INFINITY;

    for (int i = 0; i < c->count; i++) {
        double place[3], d = 0.0;

        off[i] = 0.0;
        if (!find_place(s, c->row[i], place)) continue;
        for (int k = 0; k < 3; k++) d += (place[k] - (double)g[k]) * normal[k];
        off[i] = fabs(d);
        least = ESI_MIN(least, off[i]);
    }
    for (int i = 0; i < c->count; i++) {
        const double more = off[i] - least;

        if (more >= OTHER_SHEET) c->weight[i] = 0.0;
        else if (more > SAME_SHEET) c->weight[i] *= (OTHER_SHEET - more) / (OTHER_SHEET - SAME_SHEET);
    }
}

/* Do the voxels differ at all? */
static bool all_equal(const esi_volume *v, const corners *c)
{
    const float *first = v->attrs + 6 * (int64_t)c->row[0];

    for (int i = 1; i < c->count; i++) {
        if (memcmp(first, v->attrs + 6 * (int64_t)c->row[i], 6 * sizeof *first) != 0) return false;
    }
    return true;
}

int esi_bake_sheet_sample(const esi_bake_sheets *s, const float g[3], const double normal[3], float out[6])
{
    const float *attrs = s->volume->attrs;
    double sum = 0.0;
    corners c;

    find_corners(s->volume, g, &c);
    if (c.count == 0) {
        memset(out, 0, 6 * sizeof *out);
        return 0;
    }
    if (!all_equal(s->volume, &c)) weigh_sheets(s, g, normal, &c);
    for (int i = 0; i < c.count; i++) sum += c.weight[i];
    for (int k = 0; k < 6; k++) {
        const double first = (double)attrs[6 * (int64_t)c.row[0] + k];
        double difference = 0.0;

        for (int i = 1; i < c.count; i++) difference += c.weight[i] * ((double)attrs[6 * (int64_t)c.row[i] + k] - first);
        out[k] = (float)(first + difference / sum);
    }
    return c.count;
}
