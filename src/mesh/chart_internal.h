/* SPDX-License-Identifier: MIT
 *
 * chart_internal.h: what the steps of esi_charts_create() share. Only src/mesh/chart_*.c and their tests include this.
 */
#ifndef ESI_MESH_CHART_INTERNAL_H
#define ESI_MESH_CHART_INTERNAL_H

#include "mesh/charts.h"
#include "mesh/sparse_cholesky.h"
#include "mesh/vec.h"

/* What charts are made of; read-only once built. A face is thin when its height over its longest side is below CHART_THIN of that side:
 * its normal says nothing. */
#define CHART_THIN 1e-4
typedef struct chart_faces {
    const esi_mesh *mesh;
    int32_t *across;               /* [3 * n_faces] corner on the other side of a corner's side, or -1: boundary, non-manifold edge, or two
                                      faces that wind against each other: no chart goes on there */
    float *normal;                 /* [n_faces][3] unit; 0 of thin faces */
    double *area;                  /* [n_faces] */
    double total_area;
} chart_faces;
espalier_status chart_faces_build(espalier_context *ctx, chart_faces *out, const esi_mesh *mesh);
void chart_faces_free(espalier_context *ctx, chart_faces *faces);
/* Vertex of a corner in double precision. */
void chart_corner_position(double out[3], const esi_mesh *mesh, int32_t corner);
/* Length of the face side that begins at a corner. */
double chart_side_length(const esi_mesh *mesh, int32_t corner);

/* ------------------------------------------------- chart_cluster.c, chart_calm.c, chart_absorb.c, chart_border.c */

typedef struct chart_limits {
    double min_cos;                /* of a face's normal to the axis of its chart */
    double max_bend;               /* 1 - |sum of area * normal| / area of a chart: 0 = flat, 0.5 = half a sphere */
    int32_t min_pieces;            /* stop merging when a group is down to so many pieces */
} chart_limits;

/* Joins the faces of each group (group[face] >= 0; others are left alone) into pieces within the limits. piece[face] of faces in groups:
 * first .. *n_pieces - 1, numbered by their lowest face. */
espalier_status chart_cluster(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, int32_t first, const chart_faces *faces,
                              const int32_t *group, const chart_limits *limits);
/* Where a rough surface left pieces of few faces, cut again with normals averaged, if that leaves fewer: then
 * *normal [n_faces][3] are those (esi_alloc), else NULL. */
espalier_status chart_calm(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, const chart_faces *faces, const int32_t *group,
                           const chart_limits *limits, float **normal);
/* Small pieces become part of the one that surrounds them, also where its cone does not take them in. */
espalier_status chart_absorb(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, const chart_faces *faces);
/* Moves faces between neighbouring pieces where that makes their border shorter; pieces stay connected and never vanish. */
espalier_status chart_smooth_borders(espalier_context *ctx, int32_t *piece, int32_t n_pieces, const chart_faces *faces,
                                     const chart_limits *limits);

/* ------------------------------------------------- chart_flatten.c, chart_untangle.c, chart_check.c */

/* Which faces belong together now. */
typedef struct chart_lists {
    const chart_faces *faces;
    const int32_t *piece;          /* [n_faces] */
    const int32_t *members;        /* faces of all pieces, ascending within each */
    int32_t *place;                /* [n_faces] position of a face among those of its piece */
} chart_lists;

typedef struct chart_shape {
    double x1, x2, y2;             /* the face laid flat: corners 0, 0 - x1, 0 - x2, y2 */
    double weight[3];              /* half the cotangent at each corner */
    double area;
} chart_shape;

#define CHART_CARVE 48
/* One chart being laid flat: scratch of one thread, grown as needed. Zero-initialise. */
typedef struct chart_flat {
    const chart_lists *lists;
    const int32_t *members;        /* [n_faces] */
    int32_t piece, n_faces, n_vertices;
    bool thin;                     /* some face is; its shape was made thicker */
    double area;                   /* of the faces in space */
    double axis[3];                /* sum of area * normal */
    int32_t *corner;               /* [3 n_faces] vertex of the chart at each corner: one per fan of faces */
    int32_t *source;               /* [n_vertices] a corner of the mesh that is there */
    chart_shape *shapes;           /* [n_faces] */
    double *uv, *projection, *rhs; /* [n_vertices][2] */
    double *diagonal;              /* [n_vertices] */
    int32_t *slot, *row_start;     /* [n_vertices (+ 1)] */
    int32_t *column;               /* [6 n_faces] */
    double *entry;
    int32_t *follower;             /* [n_vertices] next vertex on the outline, -1 inside */
    int32_t *outline;              /* [n_outline] corners whose side is on the outline */
    int32_t n_outline;
    int32_t carve[CHART_CARVE];    /* faces (of the chart) to do without: where the outlines meet, or that are turned over */
    int32_t n_carve;               /* CHART_CARVE + 1 = too many */
    int32_t *cell_start, *cell_item;
    int64_t face_capacity, vertex_capacity, outline_capacity, system_faces, system_vertices, cell_capacity, item_capacity;
    esi_cholesky factor;
    int64_t work;                  /* steps spent on this piece */
    double min_ratio, stretch;     /* chart_measure(): least signed UV area over area; L2 stretch at equal total area */
} chart_flat;
void chart_flat_free(espalier_context *ctx, chart_flat *flat);

typedef enum chart_verdict { CHART_GOOD, CHART_FLIPPED, CHART_STRETCHED, CHART_OVERLAPS, CHART_VERDICTS } chart_verdict;

/* Lays the piece flat into flat->uv: by orthogonal projection where that is nearly isometric (or where `plane_only`), else as rigid as
 * possible. */
espalier_status chart_flatten(espalier_context *ctx, chart_flat *flat, const chart_lists *lists, int32_t first, int32_t count,
                              double max_stretch, bool plane_only, chart_verdict *verdict, esi_chart_method *method);

/* Below this share of its own area a face counts as flipped. */
#define CHART_MIN_RATIO 1e-3
void chart_measure(chart_flat *flat, const double *uv);
/* Moves vertices of flipped faces within their stars. True when min_ratio is sufficient afterwards. */
bool chart_untangle(chart_flat *flat);
/* Remember a face that spoils the chart. */
void chart_carve(chart_flat *flat, int32_t face);
/* Do the outlines cross or touch, or enclose each other so that parts of the chart lie over each other? Carves faces there. */
espalier_status chart_overlaps(espalier_context *ctx, chart_flat *flat, bool *overlaps);

/* ------------------------------------------------- chart_pieces.c, chart_join.c, chart_create.c */

enum { CHART_ROLE_NONE, CHART_ROLE_FIRST, CHART_ROLE_SECOND };

/* All that esi_charts_create() works with. */
typedef struct chart_creation {
    esi_charts *out;
    chart_faces faces;
    const esi_chart_options *options;
    float *calm;                   /* [n_faces][3] averaged normals of a rough mesh, or NULL */
    int32_t *group;                /* [n_faces] piece to be cut again; -1 = done */
    int32_t *parts;                /* [n_faces] the same for faces of a piece that was parted already, by carving or halving; -1 = none */
    uint8_t *role;                 /* [n_faces] in carving or halving its piece */
    int32_t *members, *place;      /* chart_lists */
    int32_t *start;                /* [n_pieces + 1] in members; pieces from `first` on only */
    int32_t *task_piece;           /* [n_tasks + 1] */
    uint8_t *verdict;              /* [n_pieces] chart_verdict */
    uint8_t *method;               /* [n_pieces] */
    int32_t first, n_pieces;       /* of this round; n_pieces is the end */
    int64_t piece_capacity;
    chart_flat *flat;              /* [slots] */
    espalier_context *ctx;
    int64_t *work;                 /* [n_pieces] steps */
    /* how pieces are treated in this round */
    double max_stretch;
    bool plane_only, single_faces; /* a projection is good enough; every piece is a face, and fine */
    bool may_carve, halve;         /* what is planned for pieces that fail */
} chart_creation;

/* Lays the pieces from `first` on flat, that is all faces with group >= 0: verdict, method, work, and where good, the coordinates; else the
 * faces' roles in the next cut. */
espalier_status chart_lay_pieces(chart_creation *c);
/* Tries small charts as parts of a neighbour, and keeps what can be laid flat well. */
espalier_status chart_join(chart_creation *c);

#endif
