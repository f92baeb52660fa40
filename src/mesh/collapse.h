/* SPDX-License-Identifier: MIT
 *
 * collapse.h: a triangle mesh whose edges can be collapsed and flipped: corners in a list per vertex, and the tests that keep a mesh
 * sound. Used by simplification and by the removal of degenerate faces.
 *
 * A vertex is a *curve* vertex when it touches an edge whose count is not 2 (a rim, a crease of non-manifold edges), and *fixed* when the
 * curve does not just pass through it: ends, forks, changes of count.
 */
#ifndef ESI_COLLAPSE_H
#define ESI_COLLAPSE_H

#include "mesh/quadric.h"
#include "mesh/topology.h"

enum {
    ESI_COLLAPSE_CURVE = 1,
    ESI_COLLAPSE_FIXED = 2,
    ESI_COLLAPSE_BLOCKED = 4                   /* simplify.c: a collapse of an edge here was refused */
};

typedef struct esi_collapse_vertex {
    float position[3];
    int32_t first;                 /* a corner of it, -1: none */
    int32_t mark;                  /* scratch of the last test */
    int32_t component;             /* its vertex component's lowest vertex */
    uint16_t stamp, revision;      /* simplify.c */
    uint32_t flags;
} esi_collapse_vertex;

typedef struct esi_collapse_face {
    int32_t vertex[3];             /* vertex[0] < 0: gone */
    int32_t next[3];               /* the next corner of the same vertex, -1 at the end; may lead through faces that are gone */
} esi_collapse_face;

typedef struct esi_collapse_mesh {
    esi_collapse_vertex *vertices;
    esi_collapse_face *faces;
    int32_t *component_faces;      /* [n_vertices] by component */
    int64_t n_vertices, n_faces, live_faces;
    int32_t generation;            /* of marks */
    double centre[3], scale;       /* local coordinates = (position - centre) * scale lie in [-1, 1] */
} esi_collapse_mesh;

/* Faces with a repeated index are left out. edges: of `mesh`. */
espalier_status esi_collapse_open(espalier_context *ctx, esi_collapse_mesh *m, const esi_mesh *mesh, const esi_edges *edges);
void esi_collapse_close(espalier_context *ctx, esi_collapse_mesh *m);
/* What is left replaces the arrays of `mesh`, in the order that it had. On failure `mesh` stays. */
espalier_status esi_collapse_store(espalier_context *ctx, const esi_collapse_mesh *m, esi_mesh *mesh);

static inline void esi_collapse_local(double out[3], const esi_collapse_mesh *m, const float position[3])
{
    for (int k = 0; k < 3; k++) out[k] = ((double)position[k] - m->centre[k]) * m->scale;
}
static inline void esi_collapse_position(double out[3], const esi_collapse_mesh *m, int32_t v)
{
    esi_collapse_local(out, m, m->vertices[v].position);
}

/* for (ESI_COLLAPSE_EACH(m, v, corner)) visits v's corners, those of dead faces too. */
#define ESI_COLLAPSE_EACH(m, v, corner) \
    int32_t corner = (m)->vertices[v].first; corner >= 0; corner = (m)->faces[corner / 3].next[corner % 3]

/* ------------------------------------------------------------------- collapse */

/* More faces around an edge than this and it is not collapsed: that keeps the work per edge bounded. */
#define ESI_STAR_MAX 512

/* The faces around an edge (a, b). */
typedef struct esi_star {
    int32_t a, b;
    int32_t n_kept;                            /* faces around a or b only */
    int32_t n_gone;                            /* faces around both */
    int32_t kept[ESI_STAR_MAX];                /* their corners at a or b */
    int32_t gone[ESI_STAR_MAX];                /* faces */
    int32_t third[ESI_STAR_MAX];               /* their third vertices */
    int32_t flat[ESI_STAR_MAX];                /* scratch */
    double before[ESI_STAR_MAX][3];            /* cross products of kept faces in local coordinates */
    double after[ESI_STAR_MAX][3];
} esi_star;

/* May a and b become one vertex without changing what the surface is? (Link condition, Dey, Edelsbrunner, Guha, Nekhayev 1999; curves
 * count as joined to one more vertex.) Fills the star's faces. False when a-b is no edge, too. */
bool esi_collapse_gather(esi_collapse_mesh *m, esi_star *star, int32_t a, int32_t b);
/* Would a face turn by more than 60 degrees, or become a needle that was none, with a and b at `position`? Fills before and after. */
bool esi_collapse_folds(const esi_collapse_mesh *m, esi_star *star, const float position[3]);
/* b becomes a, at `position`. */
void esi_collapse_apply(esi_collapse_mesh *m, const esi_star *star, const float position[3]);

/* The vertex that must keep its place when a-b collapses, or -1. */
static inline int32_t esi_collapse_anchor(const esi_collapse_mesh *m, int32_t a, int32_t b)
{
    const uint32_t fa = m->vertices[a].flags, fb = m->vertices[b].flags;

    if (fa & ESI_COLLAPSE_FIXED) return a;
    if (fb & ESI_COLLAPSE_FIXED) return b;
    if ((fa ^ fb) & ESI_COLLAPSE_CURVE) return fa & ESI_COLLAPSE_CURVE ? a : b;
    return -1;
}

/* Other vertices of the faces around v, each once, at most `capacity`. */
int32_t esi_collapse_ring(esi_collapse_mesh *m, int32_t v, int32_t *ring, int32_t capacity);
/* Faces that both vertices have. */
int32_t esi_collapse_edge_count(const esi_collapse_mesh *m, int32_t a, int32_t b);
/* Take the corner out of its vertex's list. */
void esi_collapse_unlink(esi_collapse_mesh *m, int32_t corner);

/* How far from being a line a face with this cross product and these corners is: (2 area / sum of squared sides)^2, at most 1/12. */
static inline double esi_collapse_fatness(const double cross[3], double p[3][3])
{
    double sides = 0.0;

    for (int k = 0; k < 3; k++) {
        const double *u = p[k], *v = p[k == 2 ? 0 : k + 1];
        sides += (u[0] - v[0]) * (u[0] - v[0]) + (u[1] - v[1]) * (u[1] - v[1]) + (u[2] - v[2]) * (u[2] - v[2]);
    }
    return sides > 0.0 ? esi_vec_dot(cross, cross) / (sides * sides) : 0.0;
}

#endif
