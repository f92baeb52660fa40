/* SPDX-License-Identifier: MIT
 *
 * pack_grid.h: a square of cells, free or taken, and where in it a shape fits. Shapes are any sets of cells, holes and hollows included.
 *
 * 64 places are tested at once: bit i of a word stands for the place i cells further right. For every power of two the grid keeps, for
 * each cell, whether anything is taken in the run of so many cells to its right, and in the square of that side. A run of any length is
 * the union of two such runs, so one row of a shape costs two look-ups for 64 places however long it is. The largest square inside the
 * shape is asked first, and where whole words of places have no room for a square of its size, a summary of one bit per word says so.
 */
#ifndef ESI_MESH_PACK_GRID_H
#define ESI_MESH_PACK_GRID_H

#include "mesh/pack_mask.h"

typedef struct esi_pack_grid {
    int32_t size, stride, summary_stride;
    int32_t levels, all_levels;    /* kept up to date; with memory */
    uint64_t *memory;
    uint64_t *runs, *squares;      /* [levels][size][stride]; level 0 of both is the grid itself */
    uint64_t *summary;             /* [levels][size][summary_stride] bit i: word i of that row of squares has a free place */
} esi_pack_grid;

/* All free. Shapes may have runs of up to `longest` cells. */
espalier_status esi_pack_grid_new(espalier_context *ctx, esi_pack_grid *out, int32_t size, int32_t longest);
void esi_pack_grid_clear(esi_pack_grid *grid);
void esi_pack_grid_free(espalier_context *ctx, esi_pack_grid *grid);

/* A run of cells of one row of a shape, as two runs of 2^level cells: where 64 places' bits for them lie in the grid's runs, from the word
 * at which the first place has the shape's square. */
typedef struct esi_pack_run { int32_t offset[2], shift[2]; } esi_pack_run;

/* A square of 2^level cells a side, all of them in the shape. level -1: there are no cells. */
typedef struct esi_pack_square { int32_t level, x, y; } esi_pack_square;

typedef struct esi_pack_shape {
    int32_t width, height;
    esi_pack_square square;
    esi_pack_run *runs;            /* the telling ones first, see find */
    int64_t n_runs, cap_runs;
    esi_pack_mask scratch;
} esi_pack_shape;
/* The largest such square of a mask, and where it is after a quarter turn. */
espalier_status esi_pack_shape_square(espalier_context *ctx, esi_pack_shape *shape, const esi_pack_mask *mask, esi_pack_square *square);
esi_pack_square esi_pack_square_turn(esi_pack_square square, const esi_pack_mask *before);
/* Runs of a mask, for grids of this size and number of levels; the shape's memory is used again. */
espalier_status esi_pack_shape_set(espalier_context *ctx, esi_pack_shape *shape, const esi_pack_grid *grid, const esi_pack_mask *mask,
                                   esi_pack_square square);
void esi_pack_shape_free(espalier_context *ctx, esi_pack_shape *shape);

/* First place in rows [y_begin, y_end] (row by row, left to right) where the shape covers free cells only. Reorders the shape's runs. *work
 * grows by the number of look-ups. */
bool esi_pack_grid_find(const esi_pack_grid *grid, esi_pack_shape *shape, int32_t y_begin, int32_t y_end, int32_t *x, int32_t *y,
                        uint64_t *work);

/* Take the cells of a mask at (x, y), which may stick out on all sides. Levels above `levels` are no longer kept. */
void esi_pack_grid_take(esi_pack_grid *grid, const esi_pack_mask *mask, int32_t x, int32_t y, int32_t levels);

#endif
