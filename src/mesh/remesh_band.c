/* SPDX-License-Identifier: MIT
 *
 * remesh_band.c: the cells that the surface at distance epsilon can touch, and the function at their corners.
 *
 * A cell stays when there is a triangle within epsilon and 0.87 cells of its centre. Cubes of 32, 16, .. 2 cells are looked at before: as a
 * distance changes by no more than one moves, a cube that fails the same test with its own size has no such cell. The reference also drops
 * cells nearer than epsilon less 0.87 cells: all their corners are inside, so they make no difference, and without that test most cells are
 * known from the triangle that was found for the cube around them. Eight centres or corners are looked at together.
 */
#include "mesh/bvh_packet.h"
#include "mesh/remesh_internal.h"

#include <math.h>

#define TILE 32                    /* columns of a task, and the largest cube, a power of two */
#define CORNER_TILE 16

/* ---------------------------------------------------------------------- cells */

typedef struct found_cell { uint32_t place; int32_t seed; } found_cell;       /* place: (x, y in the tile, z) */

typedef struct band_scratch {
    uint64_t *bits;                /* [TILE * TILE][words] */
    found_cell *found;
    int64_t n_found, capacity;
    bvh_nearby nearby;
    bool failed;
} band_scratch;

typedef struct tile_cells { int64_t count; uint16_t *z; int32_t *seeds; } tile_cells;

typedef struct band_job {
    espalier_context *ctx;
    const esi_bvh *bvh;
    remesh_grid grid;
    remesh_band *band;
    int32_t tiles, words;          /* tiles along an axis; 64-bit words of a column */
    band_scratch *scratch;         /* per slot */
    tile_cells *tile;
    int32_t *seeds;                /* per cell: the triangle nearest to its centre */
} band_job;

static inline float lattice_point(const remesh_grid *g, float i, int axis)
{
    return (i / (float)g->resolution - 0.5f) * g->scale + g->center[axis];
}

static void note_cell(const band_job *job, band_scratch *s, const int32_t origin[2], const int32_t at[3], int32_t seed)
{
    const uint32_t column = (uint32_t)((at[0] - origin[0]) * TILE + (at[1] - origin[1]));

    if (s->n_found == s->capacity) {
        const int64_t capacity = ESI_MAX(s->capacity * 2, 4096);
        found_cell *found = esi_realloc(job->ctx, s->found, (size_t)capacity, sizeof *found, "remesh cells");

        if (!found) {
            s->failed = true;
            return;
        }
        s->found = found;
        s->capacity = capacity;
    }
    s->found[s->n_found++] = (found_cell){column << 16 | (uint32_t)at[2], seed};
    s->bits[(size_t)column * (size_t)job->words + (size_t)(at[2] >> 6)] |= UINT64_C(1) << (at[2] & 63);
}

/* A cube that the surface may touch: which of its eight parts it may touch. From NEARBY_CUBE cells on, the leaves around it are listed
 * for all that it is cut into. */
#define NEARBY_CUBE 4

static void look_into_cube(const band_job *job, band_scratch *s, const int32_t origin[2], const int32_t at[3], int32_t size, int32_t seed)
{
    const remesh_grid *g = &job->grid;
    const int32_t half = size / 2;
    const float radius = g->epsilon + g->reach * (float)half;
    bvh_packet p = {.n = 0};
    int32_t child[8][3];

    for (int i = 0; i < 8; i++) {
        const int32_t part[3] = {at[0] + (i >> 2) * half, at[1] + (i >> 1 & 1) * half, at[2] + (i & 1) * half};
        float centre[3];

        if (part[0] >= g->resolution || part[1] >= g->resolution || part[2] >= g->resolution) continue;
        for (int k = 0; k < 3; k++) centre[k] = lattice_point(g, (float)part[k] + 0.5f * (float)half, k);
        memcpy(child[p.n], part, sizeof part);
        bvh_packet_add(&p, centre, seed);
    }
    if (size == NEARBY_CUBE) {
        float low[3], high[3];

        /* Centres of smaller parts are nearer to these than their reach is shorter. */
        for (int k = 0; k < 3; k++) {
            low[k] = lattice_point(g, (float)at[k] + 0.5f * (float)half, k);
            high[k] = lattice_point(g, (float)at[k] + 1.5f * (float)half, k);
        }
        bvh_nearby_find(&s->nearby, job->bvh, low, high, radius);
    }
    bvh_packet_within(job->bvh, size <= NEARBY_CUBE ? &s->nearby : NULL, &p, radius);
    for (int i = 0; i < p.n && !s->failed; i++) {
        if (p.distance[i] == INFINITY) continue;
        if (half == 1) note_cell(job, s, origin, child[i], p.seed[i]);
        else look_into_cube(job, s, origin, child[i], half, p.seed[i]);
    }
}

static void look_at_cube(const band_job *job, band_scratch *s, const int32_t origin[2], int32_t z)
{
    const remesh_grid *g = &job->grid;
    const int32_t at[3] = {origin[0], origin[1], z};
    const float reach = g->reach * (float)TILE;
    int32_t seed = -1;
    float p[3];

    for (int k = 0; k < 3; k++) p[k] = lattice_point(g, (float)at[k] + 0.5f * (float)TILE, k);
    if (bvh_distance_from(job->bvh, p, g->epsilon + reach, &seed) < INFINITY) look_into_cube(job, s, origin, at, TILE, seed);
}

static inline int bit_count(uint64_t v)
{
    v = v - (v >> 1 & UINT64_C(0x5555555555555555));
    v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
    return (int)(((v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * UINT64_C(0x0101010101010101) >> 56);
}

/* From the order of finding into columns; counts go to cells.start. */
static void order_cells(const band_job *job, band_scratch *s, const int32_t origin[2], tile_cells *out)
{
    const int32_t side = job->grid.resolution, words = job->words;
    int64_t first[TILE * TILE], at = 0;

    for (int column = 0; column < TILE * TILE; column++) {
        const int32_t x = origin[0] + column / TILE, y = origin[1] + column % TILE;
        const uint64_t *bits = s->bits + (size_t)column * (size_t)words;

        first[column] = at;
        for (int32_t w = 0; w < words; w++) at += bit_count(bits[w]);
        if (x < side && y < side) job->band->cells.start[(int64_t)x * side + y + 1] = at - first[column];
    }
    for (int64_t i = 0; i < s->n_found; i++) {
        const uint32_t column = s->found[i].place >> 16, z = s->found[i].place & 0xffffu;
        const uint64_t *bits = s->bits + (size_t)column * (size_t)words;
        int64_t rank = first[column];

        for (uint32_t w = 0; w < z / 64; w++) rank += bit_count(bits[w]);
        rank += bit_count(bits[z / 64] & ((UINT64_C(1) << z % 64) - 1));
        out->z[rank] = (uint16_t)z;
        out->seeds[rank] = s->found[i].seed;
    }
}

static void find_cells(void *arg, size_t index, int slot)
{
    band_job *job = arg;
    band_scratch *s = &job->scratch[slot];
    tile_cells *out = &job->tile[index];
    const int32_t origin[2] = {(int32_t)index / job->tiles * TILE, (int32_t)index % job->tiles * TILE};
    const size_t words = (size_t)TILE * TILE * (size_t)job->words;

    s->n_found = 0;
    if (!s->bits) s->bits = esi_alloc(job->ctx, words, sizeof *s->bits, "remesh cells");
    if (!s->bits || s->failed) return;
    memset(s->bits, 0, words * sizeof *s->bits);
    for (int32_t z = 0; z < job->grid.resolution; z += TILE) {
        if (esi_cancel_requested(job->ctx)) return;
        look_at_cube(job, s, origin, z);
    }
    if (s->failed || !s->n_found) return;
    out->z = esi_alloc(job->ctx, (size_t)s->n_found, sizeof *out->z, "remesh cells");
    out->seeds = esi_alloc(job->ctx, (size_t)s->n_found, sizeof *out->seeds, "remesh cells");
    if (!out->z || !out->seeds) return;
    out->count = s->n_found;
    order_cells(job, s, origin, out);
}

/* Columns of a tile that follow each other along y are one run in the tile and in the whole. */
static void place_cells(void *arg, size_t index, int slot)
{
    const band_job *job = arg;
    const remesh_columns *cells = &job->band->cells;
    tile_cells *tile = &job->tile[index];
    const int32_t x0 = (int32_t)index / job->tiles * TILE, y0 = (int32_t)index % job->tiles * TILE;
    const int32_t y1 = ESI_MIN(y0 + TILE, cells->side);
    int64_t from = 0;

    (void)slot;
    for (int32_t x = x0; x < ESI_MIN(x0 + TILE, cells->side) && tile->count; x++) {
        const int64_t to = cells->start[(int64_t)x * cells->side + y0];
        const size_t n = (size_t)(cells->start[(int64_t)x * cells->side + y1] - to);

        memcpy(cells->z + to, tile->z + from, n * sizeof *tile->z);
        memcpy(job->seeds + to, tile->seeds + from, n * sizeof *tile->seeds);
        from += (int64_t)n;
    }
    esi_free(job->ctx, tile->z);
    esi_free(job->ctx, tile->seeds);
    *tile = (tile_cells){0};
}

/* start holds the count of column i at i + 1: make it the sum of all before. */
static espalier_status columns_from_counts(espalier_context *ctx, remesh_columns *c)
{
    const int64_t n = (int64_t)c->side * c->side;

    for (int64_t i = 0; i < n; i++) c->start[i + 1] += c->start[i];
    c->count = c->start[n];
    c->z = esi_alloc(ctx, (size_t)c->count, sizeof *c->z, "remesh grid");
    return c->z ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status columns_open(espalier_context *ctx, remesh_columns *c, int32_t side)
{
    c->side = side;
    c->start = esi_calloc(ctx, (size_t)side * (size_t)side + 1, sizeof *c->start, "remesh grid");
    return c->start ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status make_cells(band_job *job)
{
    const size_t n_tiles = (size_t)job->tiles * (size_t)job->tiles, slots = (size_t)esi_slots(job->ctx);
    espalier_status st = columns_open(job->ctx, &job->band->cells, job->grid.resolution);

    if (st != ESPALIER_OK) return st;
    st = ESPALIER_ERR_RESOURCE;
    job->scratch = esi_calloc(job->ctx, slots, sizeof *job->scratch, "remesh cells");
    job->tile = esi_calloc(job->ctx, n_tiles, sizeof *job->tile, "remesh cells");
    if (!job->scratch || !job->tile) goto done;
    st = esi_parallel(job->ctx, n_tiles, find_cells, job);
    if (st != ESPALIER_OK) goto done;
    st = columns_from_counts(job->ctx, &job->band->cells);
    if (st != ESPALIER_OK) goto done;
    job->seeds = esi_alloc(job->ctx, (size_t)job->band->cells.count, sizeof *job->seeds, "remesh cells");
    st = job->seeds ? esi_parallel(job->ctx, n_tiles, place_cells, job) : ESPALIER_ERR_RESOURCE;

done:
    for (size_t i = 0; job->scratch && i < slots; i++) {
        esi_free(job->ctx, job->scratch[i].bits);
        esi_free(job->ctx, job->scratch[i].found);
    }
    for (size_t i = 0; job->tile && i < n_tiles; i++) {
        esi_free(job->ctx, job->tile[i].z);
        esi_free(job->ctx, job->tile[i].seeds);
    }
    esi_free(job->ctx, job->scratch);
    esi_free(job->ctx, job->tile);
    return st;
}

/* -------------------------------------------------------------------- corners */

/* Walks the lattice points z and z + 1 of the up to four cell columns around a corner column, ascending, each once. */
typedef struct corner_walk {
    int64_t at[4], end[4];
    int n;
    const uint16_t *z;
    int32_t next_top;              /* upper corner of the last cell, -1 = none */
    int64_t cell;                  /* a cell that the corner belongs to */
} corner_walk;

static void walk_start(corner_walk *w, const remesh_columns *cells, int32_t x, int32_t y)
{
    w->n = 0;
    w->z = cells->z;
    w->next_top = -1;
    w->cell = -1;
    for (int i = 0; i < 4; i++) {
        const int32_t cx = x - (i >> 1), cy = y - (i & 1);

        if (cx < 0 || cy < 0 || cx >= cells->side || cy >= cells->side) continue;
        w->at[w->n] = cells->start[(int64_t)cx * cells->side + cy];
        w->end[w->n] = cells->start[(int64_t)cx * cells->side + cy + 1];
        w->n += w->at[w->n] < w->end[w->n];
    }
}

/* The next z, or -1. */
static int32_t walk_next(corner_walk *w)
{
    int32_t least = INT32_MAX;

    for (int i = 0; i < w->n; i++) {
        if (w->at[i] < w->end[i] && w->z[w->at[i]] < least) least = w->z[w->at[i]];
    }
    if (w->next_top >= 0 && w->next_top <= least) {
        const int32_t top = w->next_top;

        w->next_top = -1;
        if (top < least) return top;
    }
    if (least == INT32_MAX) return -1;
    for (int i = 0; i < w->n; i++) {
        if (w->at[i] < w->end[i] && w->z[w->at[i]] == least) w->cell = w->at[i]++;
    }
    w->next_top = least + 1;
    return least;
}

static void each_corner_column(const band_job *job, size_t index, void (*fn)(const band_job *job, int32_t x, int32_t y))
{
    const int32_t side = job->band->corners.side, tiles = (side + CORNER_TILE - 1) / CORNER_TILE;
    const int32_t x0 = (int32_t)index / tiles * CORNER_TILE, y0 = (int32_t)index % tiles * CORNER_TILE;

    for (int32_t x = x0; x < ESI_MIN(x0 + CORNER_TILE, side); x++) {
        for (int32_t y = y0; y < ESI_MIN(y0 + CORNER_TILE, side); y++) fn(job, x, y);
    }
}

static void count_column(const band_job *job, int32_t x, int32_t y)
{
    corner_walk w;
    int64_t n = 0;

    walk_start(&w, &job->band->cells, x, y);
    while (w.n && walk_next(&w) >= 0) n++;
    job->band->corners.start[(int64_t)x * job->band->corners.side + y + 1] = n;
}

/* z, and in f for now the bits of the seed. */
static void seed_column(const band_job *job, int32_t x, int32_t y)
{
    const remesh_columns *corners = &job->band->corners;
    int64_t at = corners->start[(int64_t)x * corners->side + y];
    corner_walk w;
    int32_t z;

    walk_start(&w, &job->band->cells, x, y);
    while (w.n && (z = walk_next(&w)) >= 0) {
        corners->z[at] = (uint16_t)z;
        memcpy(&job->band->f[at++], &job->seeds[w.cell], sizeof(float));
    }
}

/* Corners are looked at in cubes of BLOCK, which share a list of leaves, and in packets of two by two by two. */
#define BLOCK 4

typedef struct corner_block {
    bvh_nearby nearby;
    int32_t x, y;
    int64_t first[BLOCK * BLOCK], end[BLOCK * BLOCK];          /* of the columns: what is still to do */
} corner_block;

static void measure_packet(const band_job *job, corner_block *b, int32_t x, int32_t y, int32_t z)
{
    const remesh_columns *corners = &job->band->corners;
    int64_t place[PACKET_POINTS];
    bvh_packet p = {.n = 0};

    for (int c = 0; c < 4; c++) {
        const int32_t cx = x + c / 2, cy = y + c % 2;
        const int column = cx * BLOCK + cy;
        float point[3] = {lattice_point(&job->grid, (float)(b->x + cx), 0), lattice_point(&job->grid, (float)(b->y + cy), 1), 0.0f};

        for (; b->first[column] < b->end[column] && corners->z[b->first[column]] < z + 2; b->first[column]++) {
            int32_t seed;

            memcpy(&seed, &job->band->f[b->first[column]], sizeof seed);
            point[2] = lattice_point(&job->grid, (float)corners->z[b->first[column]], 2);
            place[p.n] = b->first[column];
            bvh_packet_add(&p, point, seed);
        }
    }
    if (p.n) bvh_packet_measure(job->bvh, &b->nearby, &p, INFINITY);
    for (int i = 0; i < p.n; i++) job->band->f[place[i]] = p.distance[i] - job->grid.epsilon;
}

static void measure_block(const band_job *job, corner_block *b, int32_t z)
{
    const remesh_grid *g = &job->grid;
    const int32_t at[3] = {b->x, b->y, z};
    float low[3], high[3];

    for (int k = 0; k < 3; k++) {
        low[k] = lattice_point(g, (float)at[k], k);
        high[k] = lattice_point(g, (float)(at[k] + BLOCK - 1), k);
    }
    bvh_nearby_find(&b->nearby, job->bvh, low, high, g->epsilon + 2.0f * g->reach);    /* a corner is within reach of a cell's centre */
    for (int i = 0; i < 8; i++) measure_packet(job, b, i / 4 * 2, i / 2 % 2 * 2, z + i % 2 * 2);
}

static void measure_columns(const band_job *job, int32_t x, int32_t y)
{
    const remesh_columns *corners = &job->band->corners;
    corner_block b = {.x = x, .y = y};

    for (int c = 0; c < BLOCK * BLOCK; c++) {
        const int32_t cx = x + c / BLOCK, cy = y + c % BLOCK;
        const bool there = cx < corners->side && cy < corners->side;

        b.first[c] = there ? corners->start[(int64_t)cx * corners->side + cy] : 0;
        b.end[c] = there ? corners->start[(int64_t)cx * corners->side + cy + 1] : 0;
    }
    for (;;) {
        int32_t least = INT32_MAX;

        for (int c = 0; c < BLOCK * BLOCK; c++) {
            if (b.first[c] < b.end[c] && corners->z[b.first[c]] < least) least = corners->z[b.first[c]];
        }
        if (least == INT32_MAX) return;
        measure_block(job, &b, least / BLOCK * BLOCK);
    }
}

static void count_corners(void *arg, size_t index, int slot)
{
    (void)slot;
    each_corner_column(arg, index, count_column);
}

static void measure_corners(void *arg, size_t index, int slot)
{
    const band_job *job = arg;
    const int32_t side = job->band->corners.side, tiles = (side + CORNER_TILE - 1) / CORNER_TILE;
    const int32_t x0 = (int32_t)index / tiles * CORNER_TILE, y0 = (int32_t)index % tiles * CORNER_TILE;

    (void)slot;
    each_corner_column(job, index, seed_column);
    for (int32_t x = x0; x < ESI_MIN(x0 + CORNER_TILE, side); x += BLOCK) {
        for (int32_t y = y0; y < ESI_MIN(y0 + CORNER_TILE, side); y += BLOCK) measure_columns(job, x, y);
    }
}

static espalier_status make_corners(band_job *job)
{
    remesh_columns *corners = &job->band->corners;
    const int32_t side = job->grid.resolution + 1, tiles = (side + CORNER_TILE - 1) / CORNER_TILE;
    espalier_status st = columns_open(job->ctx, corners, side);

    if (st != ESPALIER_OK) return st;
    st = esi_parallel(job->ctx, (size_t)tiles * (size_t)tiles, count_corners, job);
    if (st != ESPALIER_OK) return st;
    st = columns_from_counts(job->ctx, corners);
    if (st != ESPALIER_OK) return st;
    job->band->f = esi_alloc(job->ctx, (size_t)corners->count, sizeof *job->band->f, "remesh distances");
    if (!job->band->f) return ESPALIER_ERR_RESOURCE;
    return esi_parallel(job->ctx, (size_t)tiles * (size_t)tiles, measure_corners, job);
}

espalier_status remesh_band_make(espalier_context *ctx, remesh_band *out, const esi_bvh *bvh, const remesh_grid *grid)
{
    band_job job = {.ctx = ctx, .bvh = bvh, .grid = *grid, .band = out};
    espalier_status st;

    memset(out, 0, sizeof *out);
    out->grid = *grid;
    job.tiles = (grid->resolution + TILE - 1) / TILE;
    job.words = (grid->resolution + 63) / 64;
    st = make_cells(&job);
    if (st == ESPALIER_OK && out->cells.count == 0)
        st = esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "remesh: the mesh is outside the grid");
    if (st == ESPALIER_OK) st = make_corners(&job);
    esi_free(ctx, job.seeds);
    return st;
}

/* ------------------------------------------------------------- reference's count */

typedef struct active_job {
    const esi_bvh *bvh;
    const remesh_band *band;
    int64_t *deep;                 /* per x: cells that the reference leaves out because they are too near */
} active_job;

static void count_deep(void *arg, size_t x, int slot)
{
    const active_job *job = arg;
    const remesh_grid *g = &job->band->grid;
    const remesh_columns *c = &job->band->cells;
    int64_t deep = 0;

    (void)slot;
    for (int32_t y = 0; y < c->side; y++) {
        const size_t column = x * (size_t)c->side + (size_t)y;

        for (int64_t i = c->start[column]; i < c->start[column + 1]; i++) {
            const float p[3] = {lattice_point(g, (float)x + 0.5f, 0), lattice_point(g, (float)y + 0.5f, 1),
                                lattice_point(g, (float)c->z[i] + 0.5f, 2)};
            int32_t seed = -1;

            deep += !(fabsf(bvh_distance_from(job->bvh, p, g->epsilon + g->reach, &seed) - g->epsilon) < g->reach);
        }
    }
    job->deep[x] = deep;
}

espalier_status remesh_band_active(espalier_context *ctx, int64_t *count, const esi_bvh *bvh, const remesh_band *band)
{
    active_job job = {.bvh = bvh, .band = band};
    const int32_t side = band->cells.side;

    *count = band->cells.count;
    job.deep = esi_calloc(ctx, (size_t)side, sizeof *job.deep, "remesh cells");
    if (!job.deep) return ESPALIER_ERR_RESOURCE;
    espalier_status st = esi_parallel(ctx, (size_t)side, count_deep, &job);
    for (int32_t x = 0; st == ESPALIER_OK && x < side; x++) *count -= job.deep[x];
    esi_free(ctx, job.deep);
    return st;
}

void remesh_band_free(espalier_context *ctx, remesh_band *band)
{
    esi_free(ctx, band->cells.start);
    esi_free(ctx, band->cells.z);
    esi_free(ctx, band->corners.start);
    esi_free(ctx, band->corners.z);
    esi_free(ctx, band->f);
    memset(band, 0, sizeof *band);
}
