/* SPDX-License-Identifier: MIT
 *
 * volume.c: attributes of sparse voxels at any position: trilinear over the voxels that exist, the cell itself, the closest voxel
 * (FlexGEMM grid_sample.cu; the closest voxel is ours).
 *
 * The weighted mean is taken of the differences to the first voxel that exists: rounding then never moves a constant, and a bake of a
 * constant volume is constant to the last bit.
 */
#include "voxel/volume.h"

#include "voxel/keys.h"

#include <math.h>

#define MAX_CHANNELS 16
#define MAX_RESOLUTION ESI_COORD_LIMIT

static espalier_status check_rows(espalier_context *ctx, const int32_t *coords, int64_t count, int32_t resolution)
{
    for (int64_t n = 0; n < count; n++) {
        const int32_t *row = coords + 4 * n;

        if ((n & 0xfffff) == 0 && esi_check_cancel(ctx) != ESPALIER_OK) return ESPALIER_ERR_CANCELLED;
        if (row[0] == 0 && row[1] >= 0 && row[2] >= 0 && row[3] >= 0 && row[1] < resolution && row[2] < resolution && row[3] < resolution) {
            continue;
        }
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "voxels: row %lld (%d, %d, %d, %d) lies outside the grid of %d cells", (long long)n,
                        (int)row[0], (int)row[1], (int)row[2], (int)row[3], (int)resolution);
    }
    return ESPALIER_OK;
}

/* The index calls a coordinate that occurs twice our own fault; here it is the file's. */
static espalier_status blame_input(espalier_context *ctx)
{
    char text[256];
    const char *message = espalier_error_message(ctx);
    const size_t length = strlen(message) < sizeof text ? strlen(message) : sizeof text - 1;

    memcpy(text, message, length);
    text[length] = '\0';
    esi_clear_error(ctx);
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s", text);
}

espalier_status esi_volume_open(espalier_context *ctx, esi_volume *out, const int32_t *coords, const float *attrs, int64_t count,
                                int32_t channels, int32_t resolution)
{
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (channels < 1 || channels > MAX_CHANNELS || resolution < 1 || resolution > MAX_RESOLUTION) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: %d channels on %d cells", (int)channels, (int)resolution);
    }
    st = esi_row_count_check(ctx, count);
    if (st == ESPALIER_OK) st = check_rows(ctx, coords, count, resolution);
    if (st != ESPALIER_OK) return st;
    st = esi_voxel_index_build(ctx, &out->index, coords, count);
    if (st == ESPALIER_ERR_INTERNAL) st = blame_input(ctx);
    if (st != ESPALIER_OK) {
        esi_volume_close(ctx, out);
        return st;
    }
    out->coords = coords;
    out->attrs = attrs;
    out->count = count;
    out->channels = channels;
    out->resolution = resolution;
    return ESPALIER_OK;
}

void esi_volume_close(espalier_context *ctx, esi_volume *volume)
{
    if (!volume) return;
    esi_voxel_index_free(ctx, &volume->index);
    memset(volume, 0, sizeof *volume);
}

/* ---------------------------------------------------------------- trilinear */

typedef struct corner_set {
    int count;
    int32_t row[8];
    double weight[8];              /* > 0 */
    double sum;
} corner_set;

/* False when no corner can exist. base: lowest corner; fraction: place between the two corners of each axis. */
static bool find_base(const esi_volume *v, const float g[3], int32_t base[3], double fraction[3])
{
    for (int a = 0; a < 3; a++) {
        const double centred = (double)g[a] - 0.5;

        if (!(centred > -1.0 && centred < (double)v->resolution)) return false;
        base[a] = (int32_t)(centred + 1.0) - 1;    /* floor of a number above -1 */
        fraction[a] = centred - (double)base[a];
    }
    return true;
}

static void find_corners(const esi_volume *v, const float g[3], corner_set *c)
{
    int32_t base[3], row[4] = {0};
    double fraction[3];
    esi_voxel_cursor cursor;
    bool inside;

    c->count = 0;
    c->sum = 0.0;
    if (!find_base(v, g, base, fraction)) return;
    inside = base[0] >= 0 && base[1] >= 0 && base[2] >= 0;
    if (inside) {
        for (int a = 0; a < 3; a++) row[1 + a] = base[a];
        esi_voxel_cursor_init(&cursor, &v->index);
        esi_voxel_cursor_move(&cursor, row);
    }
    for (int i = 0; i < 8; i++) {
        const int d[3] = {i & 1, i >> 1 & 1, i >> 2 & 1};
        double w = 1.0;
        int32_t found;

        for (int a = 0; a < 3; a++) w *= d[a] ? fraction[a] : 1.0 - fraction[a];
        if (!(w > 0.0)) continue;
        found = inside ? esi_voxel_cursor_at(&cursor, d[0], d[1], d[2])
                       : esi_voxel_index_find(&v->index, 0, base[0] + d[0], base[1] + d[1], base[2] + d[2]);
        if (found < 0) continue;
        c->row[c->count] = found;
        c->weight[c->count++] = w;
        c->sum += w;
    }
}

int esi_volume_trilinear(const esi_volume *v, const float g[3], float *out)
{
    const int32_t channels = v->channels;
    corner_set c;

    find_corners(v, g, &c);
    if (c.count == 0) {
        memset(out, 0, (size_t)channels * sizeof *out);
        return 0;
    }
    for (int32_t k = 0; k < channels; k++) {
        const double first = (double)v->attrs[(int64_t)c.row[0] * channels + k];
        double sum = 0.0;

        for (int i = 1; i < c.count; i++) sum += c.weight[i] * ((double)v->attrs[(int64_t)c.row[i] * channels + k] - first);
        out[k] = (float)(first + sum / c.sum);
    }
    return c.count;
}

/* ------------------------------------------------------ the cell, the closest */

bool esi_volume_nearest(const esi_volume *v, const float g[3], float *out)
{
    int32_t cell[3], row = -1;
    bool inside = true;

    for (int a = 0; a < 3; a++) {
        cell[a] = 0;
        if (g[a] > -1.0f && g[a] < (float)v->resolution) {
            cell[a] = (int32_t)g[a];
        } else {
            inside = false;
        }
    }
    if (inside) row = esi_voxel_index_find(&v->index, 0, cell[0], cell[1], cell[2]);
    if (row < 0) {
        memset(out, 0, (size_t)v->channels * sizeof *out);
        return false;
    }
    memcpy(out, v->attrs + (int64_t)row * v->channels, (size_t)v->channels * sizeof *out);
    return true;
}

typedef struct closest_search {
    const esi_volume *volume;
    double g[3];
    double best;                   /* squared distance that a voxel may have at most */
    int32_t row;
} closest_search;

/* Squared distance from g to the box of the centres of block b. */
static double block_distance2(const closest_search *s, const int32_t b[3])
{
    double sum = 0.0;

    for (int a = 0; a < 3; a++) {
        const double low = 4.0 * (double)b[a] + 0.5 - s->g[a], high = s->g[a] - (4.0 * (double)b[a] + 3.5);
        const double d = low > 0.0 ? low : high > 0.0 ? high : 0.0;

        sum += d * d;
    }
    return sum;
}

static void search_block(closest_search *s, const int32_t b[3])
{
    const esi_voxel_block *block;
    const int32_t *rows;
    int64_t i = 0;

    if (block_distance2(s, b) > s->best) return;
    block = esi_voxel_index_block(&s->volume->index, 0, b[0], b[1], b[2]);
    if (!block) return;
    rows = s->volume->index.rows + block->first;
    for (uint64_t mask = block->mask; mask != 0; mask &= mask - 1, i++) {
        const int32_t *coord = s->volume->coords + 4 * (int64_t)rows[i];
        double d2 = 0.0;

        for (int a = 0; a < 3; a++) {
            const double d = (double)coord[1 + a] + 0.5 - s->g[a];

            d2 += d * d;
        }
        if (d2 > s->best || (d2 == s->best && s->row >= 0 && rows[i] > s->row)) continue;
        s->best = d2;
        s->row = rows[i];
    }
}

int32_t esi_volume_closest(const esi_volume *v, const float g[3], double cells)
{
    closest_search s = {.volume = v, .row = -1};
    const int32_t blocks = (v->resolution + 3) / 4;
    int32_t home[3];

    if (!(cells >= 0.0)) return -1;
    cells = ESI_MIN(cells, 4.0 * (double)MAX_RESOLUTION);
    s.best = cells * cells;
    for (int a = 0; a < 3; a++) {
        if (!(g[a] >= (float)-cells && g[a] <= (float)((double)v->resolution + cells))) return -1;
        s.g[a] = (double)g[a];
        home[a] = (int32_t)ESI_MIN(ESI_MAX(s.g[a] / 4.0, 0.0), (double)(blocks - 1));
    }
    /* Shells of blocks around the one that holds g (or is nearest to it): a block of shell r is at least 4r - 3.5 cells away. */
    for (int32_t r = 0; r < blocks; r++) {
        const double gap = 4.0 * (double)r - 3.5;

        if (gap > 0.0 && gap * gap > s.best) break;
        for (int32_t x = ESI_MAX(home[0] - r, 0); x <= ESI_MIN(home[0] + r, blocks - 1); x++) {
            for (int32_t y = ESI_MAX(home[1] - r, 0); y <= ESI_MIN(home[1] + r, blocks - 1); y++) {
                const bool face = x == home[0] - r || x == home[0] + r || y == home[1] - r || y == home[1] + r;
                const int32_t step = face || r == 0 ? 1 : 2 * r;

                for (int32_t z = home[2] - r; z <= home[2] + r; z += step) {
                    if (z >= 0 && z < blocks) search_block(&s, (int32_t[]){x, y, z});
                }
            }
        }
    }
    return s.row;
}
