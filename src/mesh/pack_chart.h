/* SPDX-License-Identifier: MIT
 *
 * pack_chart.h: charts as the packer sees them: turned to their smallest box, scaled, moved and where needed widened so that a texel centre
 * lies inside, and the cells they touch.
 */
#ifndef ESI_MESH_PACK_CHART_H
#define ESI_MESH_PACK_CHART_H

#include "mesh/charts.h"
#include "mesh/pack_grid.h"

/* Coordinates may move by so much (texels) when they are rounded, and coverage still holds. */
#define ESI_PACK_SLACK (1.0 / 256.0)

typedef struct esi_pack_chart {
    double cosine, sine;           /* frame of the smallest box: x = cosine u + sine v, y = cosine v - sine u */
    double low[2], extent[2];      /* box in that frame, world units */
    double middle[2], radius;      /* largest circle inside one of the faces, centre from `low` */
    double area;
    bool folded;                   /* some face is turned over: its outline does not tell what it covers */
    /* at one scale: texel = matrix (position - low) + offset; box in texels */
    double matrix[2][2], offset[2];
    int32_t width, height;
    bool enlarged;                 /* more than scaled */
    bool point;                    /* too thin for anything else: one small triangle inside a texel */
} esi_pack_chart;

typedef struct esi_pack_charts {
    const esi_charts *source;
    const esi_mesh *mesh;
    esi_pack_chart *charts;        /* [n] */
    int32_t n;
    int32_t *start, *faces;        /* faces of a chart: faces[start[i] .. start[i + 1]), ascending */
    int32_t *border_start, *borders;           /* sides at its border, by the corner they begin at, in the same way */
    double (*border_ends)[2][2];               /* of these sides, in the chart's frame from `low` */
    double area;
} esi_pack_charts;

espalier_status esi_pack_charts_prepare(espalier_context *ctx, esi_pack_charts *out, const esi_charts *source, const esi_mesh *mesh,
                                        bool rotate);
void esi_pack_charts_free(espalier_context *ctx, esi_pack_charts *charts);

/* Place all charts in boxes of their own at so many texels per unit. */
espalier_status esi_pack_charts_fit(espalier_context *ctx, esi_pack_charts *charts, double texels_per_unit);

/* Corners of a face in the texels of its chart's box. */
void esi_pack_corners(const esi_pack_charts *charts, int32_t chart, int32_t face, double corner[3][2]);

/* Cells of `cell` x `cell` texels that the chart touches; the mask has its width and height in cells, and its words are zero. scratch is
 * used and kept. By the outline alone, unless `by_faces` or the chart is folded. */
espalier_status esi_pack_chart_cells(espalier_context *ctx, const esi_pack_charts *charts, int32_t chart, esi_pack_mask *mask, int32_t cell,
                                     esi_pack_mask *scratch, bool by_faces);

/* Direction of a side of the smallest turned box around points [n][2], n >= 1. They are reordered; behind them is room for 2 n + 2 more. */
void esi_pack_smallest_box(double (*points)[2], int64_t n, double *cosine, double *sine);

#endif
