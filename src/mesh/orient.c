/* SPDX-License-Identifier: MIT
 *
 * orient.c: consistent winding within a component (CuMesh unify_face_orientations), and outside where it belongs. Which components enclose
 * a volume, and which of them lie in others, decides about closed ones (nesting.c); open ones show most of their area away from their
 * middle.
 */
#include "mesh/clean.h"
#include "mesh/edit.h"
#include "mesh/metrics.h"
#include "mesh/nesting.h"
#include "mesh/sides.h"

/* ------------------------------------------------------------------ winding */

typedef struct winding {
    esi_mesh *mesh;
    const int32_t *opposite;
    int32_t *queue;
    uint8_t *state;                /* 0 = new, 1 = kept, 2 = flipped */
    int64_t flipped, conflicts;
} winding;

/* Do both faces run through the shared edge in the same direction, as the mesh is now? */
static bool same_direction(const esi_mesh *mesh, int32_t side, int32_t across)
{
    return mesh->faces[side] == mesh->faces[across];
}

/* From the lowest face on, each face tells its new neighbours; conflicts are counted with both faces known, once for each edge. */
static int64_t spread_from(winding *w, int32_t root)
{
    int64_t head = 0, tail = 1;

    w->queue[0] = root;
    w->state[root] = 1;
    while (head < tail) {
        const int32_t f = w->queue[head++];

        for (int32_t c = 3 * f; c < 3 * f + 3; c++) {
            const int32_t across = w->opposite[c], g = across / 3;
            bool same;

            if (across < 0) continue;
            same = same_direction(w->mesh, c, across);
            if (w->state[g] == 0) {
                w->state[g] = same == (w->state[f] == 1) ? 2 : 1;
                w->queue[tail++] = g;
            } else if (across > c && same == (w->state[f] == w->state[g])) {
                w->conflicts++;
            }
        }
    }
    return tail;
}

espalier_status esi_mesh_unify_orientation(espalier_context *ctx, esi_mesh *mesh, int64_t *flipped, int64_t *conflicts)
{
    int32_t *opposite = NULL;
    winding w = {.mesh = mesh};
    int64_t since_poll = 0;
    espalier_status st = esi_opposite_corners(ctx, &opposite, mesh);

    if (flipped) *flipped = 0;
    if (conflicts) *conflicts = 0;
    if (st != ESPALIER_OK) return st;
    w.opposite = opposite;
    st = ESPALIER_ERR_RESOURCE;
    w.queue = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *w.queue, "mesh orientation");
    if (w.queue) w.state = esi_calloc(ctx, (size_t)mesh->n_faces, 1, "mesh orientation");
    if (!w.state) goto done;
    st = ESPALIER_OK;
    for (int64_t f = 0; f < mesh->n_faces && st == ESPALIER_OK; f++) {
        if (w.state[f] == 0) since_poll += spread_from(&w, (int32_t)f);
        if (since_poll <= ESI_POLL_MASK) continue;
        since_poll = 0;
        st = esi_check_cancel(ctx);
    }
    if (st != ESPALIER_OK) goto done;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        if (w.state[f] != 2) continue;
        esi_flip_face(mesh, f);
        w.flipped++;
    }
    if (flipped) *flipped = w.flipped;
    if (conflicts) *conflicts = w.conflicts;
done:
    esi_free(ctx, opposite);
    esi_free(ctx, w.queue);
    esi_free(ctx, w.state);
    return st;
}

/* ------------------------------------------------------------------ volumes */

/* odd[c]: this edge has an odd number of c's faces, so far. */
static void mark_open(bool *closed, uint8_t *odd, const esi_sides *sides, const int32_t *component)
{
    int64_t next;

    for (int64_t i = 0; i < sides->count; i = next) {
        next = esi_edge_end(sides, i, sides->count);
        if (next - i == 2) continue;           /* manifold: both faces are of one component */
        for (int64_t k = i; k < next; k++) odd[component[esi_side_corner(sides->sides[k]) / 3]] ^= 1;
        for (int64_t k = i; k < next; k++) {
            const int32_t c = component[esi_side_corner(sides->sides[k]) / 3];

            if (odd[c]) closed[c] = false;
            odd[c] = 0;
        }
    }
}

espalier_status esi_sides_volumes(espalier_context *ctx, double **volumes, bool **closed, const esi_mesh *mesh, const esi_sides *sides,
                                  const int32_t *component, int32_t n)
{
    double *sum = esi_calloc(ctx, (size_t)n, sizeof *sum, "mesh volumes");
    bool *shut = NULL;
    uint8_t *odd = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *volumes = NULL;
    *closed = NULL;
    if (sum) shut = esi_alloc(ctx, (size_t)n, sizeof *shut, "mesh volumes");
    if (shut) odd = esi_calloc(ctx, (size_t)n, 1, "mesh volumes");
    if (!odd) goto done;
    for (int32_t c = 0; c < n; c++) shut[c] = true;
    mark_open(shut, odd, sides, component);
    st = ESPALIER_OK;
    for (int64_t f = 0; f < mesh->n_faces && st == ESPALIER_OK; f++) {
        sum[component[f]] += esi_face_volume(mesh, f);
        st = esi_poll(ctx, f);
    }
done:
    esi_free(ctx, odd);
    if (st == ESPALIER_OK) {
        *volumes = sum;
        *closed = shut;
        return st;
    }
    esi_free(ctx, sum);
    esi_free(ctx, shut);
    return st;
}

espalier_status esi_component_volumes(espalier_context *ctx, double **volumes, bool **closed, const esi_mesh *mesh,
                                      const int32_t *component, int32_t n)
{
    esi_sides sides = {0};
    espalier_status st = esi_sides_build(ctx, &sides, mesh);

    *volumes = NULL;
    *closed = NULL;
    if (st == ESPALIER_OK) st = esi_sides_volumes(ctx, volumes, closed, mesh, &sides, component, n);
    esi_sides_free(ctx, &sides);
    return st;
}

/* --------------------------------------------------------- open components */

typedef struct open_part {
    double area, middle[3], away;  /* area-weighted mean of the faces' centres; area that faces away from it */
} open_part;

static double face_centre(double centre[3], double cross[3], const esi_mesh *mesh, int64_t f)
{
    for (int k = 0; k < 3; k++) {
        double sum = 0;

        for (int i = 0; i < 3; i++) sum += (double)mesh->vertices[3 * (int64_t)mesh->faces[3 * f + i] + k];
        centre[k] = sum / 3.0;
    }
    esi_face_cross(cross, mesh, f);
    return 0.5 * sqrt(esi_vec_dot(cross, cross));
}

/* Share of an open component's area that must face the wrong way before it is turned. */
#define CLEAR_SHARE 0.6

static espalier_status judge_open(espalier_context *ctx, uint8_t *flip, const esi_mesh *mesh, const int32_t *component, int32_t n,
                                  const bool *closed)
{
    open_part *parts = esi_calloc(ctx, (size_t)n, sizeof *parts, "mesh orientation");
    double centre[3], cross[3];

    if (!parts) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        open_part *p = &parts[component[f]];
        double area;

        if (closed[component[f]]) continue;
        area = face_centre(centre, cross, mesh, f);
        p->area += area;
        for (int k = 0; k < 3; k++) p->middle[k] += area * centre[k];
    }
    for (int32_t c = 0; c < n; c++)
        for (int k = 0; k < 3; k++) parts[c].middle[k] = parts[c].area > 0 ? parts[c].middle[k] / parts[c].area : 0;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        open_part *p = &parts[component[f]];
        double area;

        if (closed[component[f]]) continue;
        area = face_centre(centre, cross, mesh, f);
        for (int k = 0; k < 3; k++) centre[k] -= p->middle[k];
        if (esi_vec_dot(centre, cross) < 0) p->away += area;       /* would face away if it were turned */
    }
    for (int32_t c = 0; c < n; c++)
        if (!closed[c] && parts[c].away > CLEAR_SHARE * parts[c].area) flip[c] = 1;
    esi_free(ctx, parts);
    return esi_check_cancel(ctx);
}

/* ----------------------------------------------------------------- outward */

static void flip_components(esi_mesh *mesh, const int32_t *component, const uint8_t *flip)
{
    for (int64_t f = 0; f < mesh->n_faces; f++)
        if (flip[component[f]]) esi_flip_face(mesh, f);
}

espalier_status esi_mesh_orient_outward(espalier_context *ctx, esi_mesh *mesh, int64_t *flipped_components)
{
    int32_t *component = NULL, n = 0;
    double *volumes = NULL;
    bool *closed = NULL;
    uint8_t *flip = NULL, *nested = NULL;
    int64_t n_flipped = 0;
    espalier_status st = esi_face_components(ctx, &component, &n, mesh);

    if (flipped_components) *flipped_components = 0;
    if (st == ESPALIER_OK) st = esi_component_volumes(ctx, &volumes, &closed, mesh, component, n);
    if (st == ESPALIER_OK) st = esi_nested_components(ctx, &nested, mesh, component, n, closed);
    if (st != ESPALIER_OK) goto done;
    flip = esi_calloc(ctx, (size_t)n, 1, "mesh orientation");
    st = flip ? judge_open(ctx, flip, mesh, component, n, closed) : ESPALIER_ERR_RESOURCE;
    if (st != ESPALIER_OK) goto done;
    for (int32_t c = 0; c < n; c++) {
        if (closed[c]) flip[c] = nested[c] ? volumes[c] > 0 : volumes[c] < 0;
        n_flipped += flip[c];
    }
    if (n_flipped) flip_components(mesh, component, flip);
    if (flipped_components) *flipped_components = n_flipped;
done:
    esi_free(ctx, component);
    esi_free(ctx, volumes);
    esi_free(ctx, closed);
    esi_free(ctx, nested);
    esi_free(ctx, flip);
    return st;
}
