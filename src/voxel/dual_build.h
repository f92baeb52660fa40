/* SPDX-License-Identifier: MIT
 *
 * dual_build.h: parts of the way from a mesh to a flexible dual grid (o_voxel convert/flexible_dual_grid).
 *
 * Positions are in cells ("grid units"): lattice points are integers, cell (x, y, z) is [x, x+1] x [y, y+1] x [z, z+1]. Lengths and angles
 * are measured after scaling each axis by the size of its cell, the largest being 1 ("metric").
 *
 * Edge `axis` of cell c joins the lattice points c + 1 in the other two axes, c and c + 1 in this one: what esi_dual_grid's flags mean.
 */
#ifndef ESI_VOXEL_DUAL_BUILD_H
#define ESI_VOXEL_DUAL_BUILD_H

#include "voxel/voxel_index.h"
#include "voxel/voxelize.h"

/* ---------------------------------------------------------------- the mesh
 * Either plain points (reference) or fixed-point numbers: position = fixed / 2^bits - ESI_FIXED_BORDER, so that all decisions about
 * crossings are exact in 64-bit integers. */
#define ESI_FIXED_BORDER 2         /* cells beside the grid that fixed-point numbers reach */
typedef struct esi_cell_mesh {
    const int32_t *fixed;          /* [n_points][3], or NULL */
    const double *points;          /* [n_points][3], or NULL */
    const float *shifted;          /* reference: the points in world units from the lower corner, or NULL */
    float cell_size[3];            /* reference */
    const int32_t *faces;          /* [n_faces][3] */
    int64_t n_points, n_faces;
    int bits;
    double unit;                   /* 2^-bits */
    double scale[3];               /* metric size of a cell */
} esi_cell_mesh;

static inline void esi_cell_corner(const esi_cell_mesh *m, int32_t point, double out[3])
{
    for (int a = 0; a < 3; a++) {
        out[a] = m->fixed ? (double)m->fixed[3 * (int64_t)point + a] * m->unit - ESI_FIXED_BORDER : m->points[3 * (int64_t)point + a];
    }
}

/* The mesh in fixed point, cut at ESI_FIXED_BORDER cells beside the grid. */
typedef struct esi_fixed_mesh {
    esi_cell_mesh mesh;
    int32_t *points, *faces;       /* esi_alloc'ed; faces NULL when nothing was cut and mesh.faces are the caller's */
    int64_t clipped_faces;         /* input faces that leave the grid */
} esi_fixed_mesh;
espalier_status esi_fixed_mesh_make(espalier_context *ctx, esi_fixed_mesh *out, const esi_mesh *mesh, const int32_t resolution[3],
                                    const float aabb_min[3], const float aabb_max[3]);
void esi_fixed_mesh_free(espalier_context *ctx, esi_fixed_mesh *mesh);

/* Faces by slab of `thickness` layers of cells along x, each list ascending: faces[first[s] .. first[s + 1]). A face is in every slab whose
 * closed range it meets, give or take a hundredth of a cell. first [n_slabs + 1], both esi_alloc'ed. */
typedef struct esi_slab_faces {
    int32_t thickness, n_slabs;    /* depend on the resolution alone */
    int64_t *first;
    int32_t *faces;
} esi_slab_faces;
espalier_status esi_slab_faces_make(espalier_context *ctx, esi_slab_faces *out, const esi_cell_mesh *mesh, const int32_t resolution[3]);
void esi_slab_faces_free(espalier_context *ctx, esi_slab_faces *slabs);

/* -------------------------------------------------------------- crossings */

typedef struct esi_dual_hit {
    int16_t cell[3];               /* whose edge is crossed */
    int16_t axis;
    int32_t face;
    double at;                     /* along the axis, grid units */
} esi_dual_hit;

typedef struct esi_dual_hits {
    esi_dual_hit *items;
    int64_t count, cap;
} esi_dual_hits;
espalier_status esi_dual_hits_add(espalier_context *ctx, esi_dual_hits *hits, esi_dual_hit hit);

/* Every crossing of a face with edges that belong to cells of layers [x0, x1), or to layer x0 - 1 if they lie in the plane x = x0. */
espalier_status esi_cross_face(espalier_context *ctx, esi_dual_hits *hits, const esi_cell_mesh *mesh, int32_t face,
                               const int32_t resolution[3], int32_t x0, int32_t x1);
/* Those of the reference, for all faces in order; vertices: fp32, minus the lower corner. */
espalier_status esi_cross_reference(espalier_context *ctx, esi_dual_hits *hits, const float *vertices, const int32_t *faces,
                                    int64_t n_faces, const int32_t resolution[3], const float cell_size[3]);

/* -------------------------------------------------------------- quadrics */

/* Sum of squared distances x^T A x + 2 b.x + constant, x metric from the cell's lower corner; A = xx, yy, zz, yz, xz, xy. */
typedef struct esi_quadric {
    double a[6], b[3];
    double mean[3], count;         /* sum of crossing points; their number */
} esi_quadric;

/* The cells that have a row. Either a bit per cell of layers [x0, x1) with the row before each word, or an index. */
typedef struct esi_cell_rows {
    int32_t n[3], x0, x1;
    const uint64_t *bits;
    const int32_t *before;         /* rows in words before this one */
    const esi_voxel_index *index;
} esi_cell_rows;

static inline int64_t esi_cell_bit(const esi_cell_rows *r, int32_t x, int32_t y, int32_t z)
{
    return ((int64_t)(x - r->x0) * r->n[1] + y) * r->n[2] + z;
}

/* Row of a cell, or -1. */
static inline int64_t esi_cell_row(const esi_cell_rows *r, int32_t x, int32_t y, int32_t z)
{
    int64_t bit;
    uint64_t word, v;

    if (x < r->x0 || x >= r->x1 || y < 0 || z < 0 || y >= r->n[1] || z >= r->n[2]) return -1;
    if (r->index) return esi_voxel_index_find(r->index, 0, x, y, z);
    bit = esi_cell_bit(r, x, y, z);
    word = r->bits[bit >> 6];
    if (!(word >> (bit & 63) & 1)) return -1;
    v = word & ((UINT64_C(1) << (bit & 63)) - 1);
    v -= v >> 1 & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
    v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return r->before[bit >> 6] + (int64_t)(v * UINT64_C(0x0101010101010101) >> 56);
}

/* Plane of the hit's face, and the point, to the rows of the four cells around the edge. */
void esi_quadrics_add_hit(esi_quadric *quadrics, const esi_cell_rows *rows, const esi_cell_mesh *mesh, const esi_dual_hit *hit);
/* Plane of a face to the rows of all cells that it meets. */
void esi_quadrics_add_face(esi_quadric *quadrics, const esi_cell_rows *rows, const esi_cell_mesh *mesh, int32_t face);
/* Line of an edge, times weight, to the rows of the cells it passes. shortest: metric, or world units for the reference. */
void esi_quadrics_add_line(esi_quadric *quadrics, const esi_cell_rows *rows, const esi_cell_mesh *mesh, const int32_t edge[2],
                           double weight, double shortest);

/* Edges of exactly one face as pairs (low, high), ascending. by_position: points at the same place are one (fixed meshes). */
espalier_status esi_boundary_edges(espalier_context *ctx, int32_t **edges, int64_t *count, const esi_cell_mesh *mesh, bool by_position);

/* The point in the closed cell that minimises the quadric + regularization * |x - mean|^2; metric. Returns whether the free minimum lies
 * outside. */
bool esi_quadric_solve(double x[3], const esi_quadric *quadric, double regularization, const double size[3]);

/* -------------------------------------------------- triangle meets cell (8.2) */

/* Schwarz and Seidel, "Fast Parallel Surface and Solid Voxelization on GPUs", 2010. Closed: touching counts. */
typedef struct esi_triangle_test {
    double corner[3][3];
    double normal[3];
    double d1, d2;                 /* of the plane */
    double g[3][3][2], d[3][3];    /* by plane, edge */
    int32_t low[3], high[3];       /* cells that come into question: [low, high) */
    int major;                     /* axis of the largest normal component */
    const esi_cell_mesh *reference;          /* test in its fp32; NULL: in double */
    float v[3][3], n[3];           /* reference: corners in world units, unit normal */
} esi_triangle_test;
/* Unit normal as the reference rounds it; of a face without area it is zero or noise. */
void esi_reference_normal(float n[3], const esi_cell_mesh *mesh, int32_t face);
bool esi_reference_triangle_meets(const esi_triangle_test *t, int32_t x, int32_t y, int32_t z);
/* False when it has no area (in grid units). */
bool esi_triangle_test_make(esi_triangle_test *t, const esi_cell_mesh *mesh, int32_t face, const int32_t resolution[3]);
bool esi_triangle_meets(const esi_triangle_test *t, int32_t x, int32_t y, int32_t z);
/* Calls fn for the cells of layers [x0, x1) that the triangle meets, in a fixed order. Before testing, wanted(arg, cell) is asked unless
 * NULL. */
typedef bool (*esi_cell_wanted_fn)(void *arg, const int32_t cell[3]);
typedef void (*esi_cell_fn)(void *arg, const int32_t cell[3]);
void esi_triangle_cells(const esi_triangle_test *t, int32_t x0, int32_t x1, esi_cell_wanted_fn wanted, esi_cell_fn fn, void *arg);

#endif
