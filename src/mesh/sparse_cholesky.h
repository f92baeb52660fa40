/* SPDX-License-Identifier: MIT
 *
 * sparse_cholesky.h: direct solution of sparse symmetric positive definite systems that come from triangle meshes in the plane.
 */
#ifndef ESI_MESH_SPARSE_CHOLESKY_H
#define ESI_MESH_SPARSE_CHOLESKY_H

#include "base/base.h"

/* Symmetric matrix: diagonal, and off-diagonal entries of both triangles row by row, columns in any order without repetition. */
typedef struct esi_symmetric {
    int32_t n;
    const int32_t *start;          /* [n + 1] */
    const int32_t *column;
    const double *value;
    const double *diagonal;        /* [n] */
} esi_symmetric;

/* Zero-initialise. L L^T = P A P^T, columns of L below the diagonal. Buffers are kept and grown from one factorisation to the next. */
typedef struct esi_cholesky {
    int32_t n;
    int64_t entries;
    int32_t *order;                /* [n] unknown that is eliminated k-th */
    int32_t *inverse;              /* [n] */
    int32_t *parent, *count, *mark, *stack;      /* [n] elimination tree and scratch */
    int64_t *start;                /* [n + 1] */
    double *diagonal;              /* [n] of L */
    double *work;                  /* [2 n] */
    int32_t *row;                  /* [entries] */
    double *value;
    int64_t capacity, entry_capacity;
} esi_cholesky;

/* Order by nested dissection of the unknowns' places [n][2] (any layout in which neighbours are close) and factorise. *positive = false,
 * without error, when a pivot is not positive (A is not definite then) or L would get more than ESI_CHOLESKY_FILL entries per unknown
 * (neighbours are far apart; meshes in the plane stay below 160 up to a million unknowns). */
#define ESI_CHOLESKY_FILL 400
espalier_status esi_cholesky_factor(espalier_context *ctx, esi_cholesky *f, const esi_symmetric *a, const double *place, bool *positive);
/* Two right-hand sides at once, [n][2], in place. */
void esi_cholesky_solve2(const esi_cholesky *f, double *x);
void esi_cholesky_free(espalier_context *ctx, esi_cholesky *f);

#endif
