/* SPDX-License-Identifier: MIT
 *
 * nonmanifold.c: at most two faces on each edge. All ways here work on face corners: corners that belong to one vertex and are joined
 * across edges form a class (a fan, open or closed), and every class becomes a vertex.
 *
 * The reference (CuMesh clean_up.cu) joins across manifold edges only. Ours also pairs the faces of the other edges: around the edge, a
 * face that material begins behind is followed by the one where it ends, like brackets; each bracket is a wedge of the solid. Where both
 * ends of such an edge still have one fan for two pairs (the solid's surface touches itself along the edge only), the edge is cut in the
 * middle for one of them: no place of the surface moves.
 */
#include "mesh/clean.h"
#include "mesh/edit.h"
#include "mesh/sides.h"

/* ------------------------------------------------------------------- fans */

/* Marks the corners that follow `corner` over the side `side` of its face until the fan ends or closes. */
static void walk_fan(const int32_t *faces, const int32_t *opposite, int32_t *first, int32_t corner, int32_t side)
{
    const int32_t vertex = faces[corner];

    for (;;) {
        const int32_t across = opposite[side];
        int32_t next;

        if (across < 0) return;
        next = faces[across] == vertex ? across : esi_next_corner(across);
        if (first[next] >= 0) return;
        first[next] = corner;
        side = next == across ? esi_previous_corner(next) : next;
    }
}

/* first[c] = lowest corner of c's class. */
static espalier_status find_fans(espalier_context *ctx, const esi_mesh *mesh, const int32_t *opposite, int32_t *first, int64_t *n_classes)
{
    espalier_status st = ESPALIER_OK;
    int64_t count = 0;

    memset(first, 0xff, (size_t)(3 * mesh->n_faces) * sizeof *first);
    for (int64_t i = 0; i < 3 * mesh->n_faces && st == ESPALIER_OK; i++) {
        const int32_t c = (int32_t)i;

        st = esi_poll(ctx, i);
        if (first[c] >= 0) continue;
        first[c] = c;
        count++;
        walk_fan(mesh->faces, opposite, first, c, c);
        walk_fan(mesh->faces, opposite, first, c, esi_previous_corner(c));
    }
    *n_classes = count;
    return st;
}

espalier_status esi_count_fans(espalier_context *ctx, const esi_mesh *mesh, const int32_t *opposite, int64_t *n_classes)
{
    int32_t *first = esi_alloc(ctx, (size_t)mesh->n_faces, 3 * sizeof *first, "mesh corners");
    espalier_status st = first ? find_fans(ctx, mesh, opposite, first, n_classes) : ESPALIER_ERR_RESOURCE;

    esi_free(ctx, first);
    return st;
}

/* Every class becomes a vertex, numbered by its lowest corner. */
static espalier_status number_by_corner(espalier_context *ctx, esi_mesh *mesh, const int32_t *first, int64_t n_classes)
{
    float *vertices = esi_alloc(ctx, (size_t)n_classes, 3 * sizeof *vertices, "mesh vertices");
    int32_t count = 0;

    if (!vertices) return ESPALIER_ERR_RESOURCE;
    for (int64_t c = 0; c < 3 * mesh->n_faces; c++) {
        if (first[c] == c) {
            memcpy(vertices + 3 * (int64_t)count, mesh->vertices + 3 * (int64_t)mesh->faces[c], 3 * sizeof *vertices);
            mesh->faces[c] = count++;
        } else {
            mesh->faces[c] = mesh->faces[first[c]];
        }
    }
    esi_free(ctx, mesh->vertices);
    mesh->vertices = vertices;
    mesh->n_vertices = n_classes;
    return ESPALIER_OK;
}

/* The lowest class of a vertex keeps its number, the others get new ones. */
static espalier_status number_at_end(espalier_context *ctx, esi_mesh *mesh, const int32_t *first, int64_t n_classes)
{
    uint8_t *taken = esi_calloc(ctx, (size_t)mesh->n_vertices, 1, "mesh vertices");
    float *vertices = NULL;
    int64_t count = mesh->n_vertices;

    if (taken) vertices = esi_realloc(ctx, mesh->vertices, (size_t)n_classes, 3 * sizeof *vertices, "mesh vertices");
    if (!vertices) {
        esi_free(ctx, taken);
        return ESPALIER_ERR_RESOURCE;
    }
    mesh->vertices = vertices;
    for (int64_t c = 0; c < 3 * mesh->n_faces; c++) {
        const int32_t v = mesh->faces[c];

        if (first[c] != c) {
            mesh->faces[c] = mesh->faces[first[c]];
        } else if (!taken[v]) {
            taken[v] = 1;
        } else {
            memcpy(vertices + 3 * count, vertices + 3 * (int64_t)v, 3 * sizeof *vertices);
            mesh->faces[c] = (int32_t)count++;
        }
    }
    mesh->n_vertices = count;
    esi_free(ctx, taken);
    return ESPALIER_OK;
}

typedef espalier_status (*number_fn)(espalier_context *ctx, esi_mesh *mesh, const int32_t *first, int64_t n_classes);

/* All vertices are in use. */
static espalier_status split_fans(espalier_context *ctx, esi_mesh *mesh, const int32_t *opposite, number_fn number)
{
    int32_t *first = esi_alloc(ctx, (size_t)mesh->n_faces, 3 * sizeof *first, "mesh corners");
    int64_t n_classes = 0;
    espalier_status st = first ? find_fans(ctx, mesh, opposite, first, &n_classes) : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK && n_classes > ESI_MESH_MAX_VERTICES) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: %lld vertices are more than can be numbered", (long long)n_classes);
    }
    if (st == ESPALIER_OK && (n_classes > mesh->n_vertices || number == number_by_corner)) st = number(ctx, mesh, first, n_classes);
    esi_free(ctx, first);
    return st;
}

espalier_status esi_mesh_repair_nonmanifold_edges(espalier_context *ctx, esi_mesh *mesh, int64_t *vertices_added)
{
    int32_t *opposite = NULL;
    int64_t n_before;
    espalier_status st = esi_mesh_compact(ctx, mesh, NULL);

    if (vertices_added) *vertices_added = 0;
    n_before = mesh->n_vertices;
    if (st == ESPALIER_OK) st = esi_opposite_corners(ctx, &opposite, mesh);
    if (st == ESPALIER_OK) st = split_fans(ctx, mesh, opposite, number_by_corner);
    if (st == ESPALIER_OK && vertices_added) *vertices_added = mesh->n_vertices - n_before;
    esi_free(ctx, opposite);
    return st;
}

/* ------------------------------------------------------------------ pairing */

/* Scratch for the faces of one edge. */
typedef struct around {
    uint64_t *keys;                /* angle in 31 bits, 1 bit for faces where material begins, corner */
    int32_t *stack;
    bool *paired;
    int64_t room;
} around;

static espalier_status reserve(espalier_context *ctx, around *a, int64_t n)
{
    if (n <= a->room) return ESPALIER_OK;
    esi_free(ctx, a->keys);
    esi_free(ctx, a->stack);
    esi_free(ctx, a->paired);
    *a = (around){.room = 2 * n};
    a->keys = esi_alloc(ctx, (size_t)a->room, sizeof *a->keys, "non-manifold edges");
    if (a->keys) a->stack = esi_alloc(ctx, (size_t)a->room, sizeof *a->stack, "non-manifold edges");
    if (a->stack) a->paired = esi_alloc(ctx, (size_t)a->room, sizeof *a->paired, "non-manifold edges");
    if (a->paired) return ESPALIER_OK;
    a->room = 0;
    return ESPALIER_ERR_RESOURCE;
}

/* Two directions across the edge vector e, so that (across[0], across[1], e) is right-handed; lengths 1. */
static void make_frame(double across[2][3], const double e[3])
{
    double axis[3] = {0, 0, 0};
    int smallest = 0;

    for (int k = 1; k < 3; k++)
        if (fabs(e[k]) < fabs(e[smallest])) smallest = k;
    axis[smallest] = 1;
    esi_vec_cross(across[0], axis, e);
    esi_vec_cross(across[1], e, across[0]);
    for (int i = 0; i < 2; i++) {
        const double length = sqrt(esi_vec_dot(across[i], across[i]));

        for (int k = 0; k < 3; k++) across[i][k] = length > 0 ? across[i][k] / length : 0;
    }
}

/* Grows with the angle of (x, y) from 0 to 2^31 around the circle, rounded, so that coplanar faces agree. */
static uint64_t angle_key(double x, double y)
{
    const double sum = fabs(x) + fabs(y);
    double turn;

    if (!(sum > 0)) return 0;
    turn = y >= 0 ? 1 - x / sum : 3 + x / sum;
    return (uint64_t)(turn * 536870912.0 + 0.5) & 0x7fffffff;
}

/* Fills keys with the faces of an edge, ascending by angle around it. At equal angles material ends before it begins. */
static void sort_around(around *a, const esi_mesh *mesh, const esi_side *sides, int64_t n)
{
    const int32_t c0 = esi_side_corner(sides[0]);
    const int32_t v0 = mesh->faces[c0], v1 = mesh->faces[esi_next_corner(c0)];
    const int32_t low = ESI_MIN(v0, v1), high = ESI_MAX(v0, v1);
    double e[3], across[2][3];

    esi_edge_vector(e, mesh, low, high);
    make_frame(across, e);
    for (int64_t i = 0; i < n; i++) {
        const int32_t c = esi_side_corner(sides[i]);
        const uint64_t begins = mesh->faces[c] == high;        /* seen along e, the solid lies behind a face that runs with e */
        double d[3];

        esi_edge_vector(d, mesh, low, mesh->faces[esi_previous_corner(c)]);
        a->keys[i] = angle_key(esi_vec_dot(d, across[0]), esi_vec_dot(d, across[1])) << 33 | begins << 32 | (uint32_t)c;
    }
    esi_sort_keys(a->keys, n);
}

static void join_sides(around *a, int32_t *opposite, int32_t i, int32_t k)
{
    const int32_t c = (int32_t)(uint32_t)a->keys[i], d = (int32_t)(uint32_t)a->keys[k];

    opposite[c] = d;
    opposite[d] = c;
    a->paired[i] = a->paired[k] = true;
}

/* Brackets on a circle: twice around. What is left runs one way only and is paired in order; an odd one stays alone. */
static void pair_faces(around *a, int32_t *opposite, int64_t n)
{
    int64_t depth = 0, left = -1;

    for (int64_t i = 0; i < n; i++) a->paired[i] = false;
    for (int64_t turn = 0; turn < 2 * n; turn++) {
        const int32_t i = (int32_t)(turn % n);
        const bool begins = a->keys[i] >> 32 & 1;

        if (begins && turn < n) a->stack[depth++] = i;
        if (!begins && !a->paired[i] && depth > 0) join_sides(a, opposite, a->stack[--depth], i);
    }
    for (int64_t i = 0; i < n; i++) {
        if (a->paired[i]) continue;
        if (left >= 0) {
            join_sides(a, opposite, (int32_t)left, (int32_t)i);
            left = -1;
        } else {
            left = i;
        }
    }
    if (left >= 0) opposite[(int32_t)(uint32_t)a->keys[left]] = -1;
}

/* *n_edges: how many non-manifold edges there were. */
static espalier_status pair_around_edges(espalier_context *ctx, const esi_mesh *mesh, const esi_sides *sides, int32_t *opposite,
                                         int64_t *n_edges)
{
    around a = {0};
    espalier_status st = ESPALIER_OK;
    int64_t next;

    *n_edges = 0;
    for (int64_t i = 0; i < sides->count && st == ESPALIER_OK; i = next) {
        next = esi_edge_end(sides, i, sides->count);
        if (next - i <= 2) continue;
        st = reserve(ctx, &a, next - i);
        if (st != ESPALIER_OK) break;
        sort_around(&a, mesh, sides->sides + i, next - i);
        pair_faces(&a, opposite, next - i);
        ++*n_edges;
        st = esi_poll(ctx, *n_edges);
    }
    esi_free(ctx, a.keys);
    esi_free(ctx, a.stack);
    esi_free(ctx, a.paired);
    return st;
}

/* ------------------------------------------------- edges that touch themselves */

/* Cuts the face of a side at the side's middle; the far half becomes a new face. */
static void cut_face(esi_mesh *mesh, int32_t corner, int32_t middle)
{
    int32_t *end = &mesh->faces[esi_next_corner(corner)];
    int32_t *added = mesh->faces + 3 * mesh->n_faces++;

    added[0] = middle;
    added[1] = *end;
    added[2] = mesh->faces[esi_previous_corner(corner)];
    *end = middle;
}

static void cut_pair(esi_mesh *mesh, int32_t corner, int32_t partner)
{
    const float *p = mesh->vertices + 3 * (int64_t)mesh->faces[corner];
    const float *q = mesh->vertices + 3 * (int64_t)mesh->faces[esi_next_corner(corner)];
    const int32_t middle = (int32_t)mesh->n_vertices++;

    for (int k = 0; k < 3; k++) mesh->vertices[3 * (int64_t)middle + k] = (float)(((double)p[k] + (double)q[k]) * 0.5);
    cut_face(mesh, corner, middle);
    cut_face(mesh, partner, middle);
}

/* Which sides to cut: of each edge with several pairs all but one stay away from it (all, if an unpaired face keeps it). Faces already
 * involved wait for the next round: touched. */
static int64_t choose_cuts(const esi_sides *sides, const int32_t *opposite, uint8_t *touched, int32_t *cuts)
{
    int64_t n_cuts = 0, next;

    for (int64_t i = 0; i < sides->count; i = next) {
        bool free_faces = true, keep;

        next = esi_edge_end(sides, i, sides->count);
        if (next - i <= 2) continue;
        keep = (next - i) % 2 == 0;
        for (int64_t k = i; k < next; k++) free_faces &= !touched[esi_side_corner(sides->sides[k]) / 3];
        if (!free_faces) continue;
        for (int64_t k = i; k < next; k++) {
            const int32_t c = esi_side_corner(sides->sides[k]);

            touched[c / 3] = 1;
            if (opposite[c] <= c) continue;    /* alone, or the pair has been seen */
            if (keep) keep = false;
            else cuts[n_cuts++] = c;
        }
    }
    return n_cuts;
}

static int64_t count_third_sides(const esi_sides *sides)
{
    int64_t count = 0, next;

    for (int64_t i = 0; i < sides->count; i = next) {
        next = esi_edge_end(sides, i, sides->count);
        if (next - i > 2) count += next - i;
    }
    return count;
}

/* `opposite` holds the pairs. *n_cut = 0: no edge has more than two faces. */
static espalier_status cut_edges(espalier_context *ctx, esi_mesh *mesh, const int32_t *opposite, int64_t *n_cut)
{
    esi_sides sides = {0};
    uint8_t *touched = NULL;
    int32_t *cuts = NULL, *faces;
    float *vertices;
    int64_t room;
    espalier_status st = esi_sides_build(ctx, &sides, mesh);

    *n_cut = 0;
    if (st != ESPALIER_OK) return st;
    room = count_third_sides(&sides);
    if (room == 0) goto done;
    st = ESPALIER_ERR_RESOURCE;
    touched = esi_calloc(ctx, (size_t)mesh->n_faces, 1, "non-manifold edges");
    if (touched) cuts = esi_alloc(ctx, (size_t)room, sizeof *cuts, "non-manifold edges");
    if (!cuts) goto done;
    *n_cut = choose_cuts(&sides, opposite, touched, cuts);
    if (mesh->n_faces + 2 * *n_cut > ESI_MESH_MAX_FACES || mesh->n_vertices + *n_cut > ESI_MESH_MAX_VERTICES) {
        esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: cutting %lld edges makes more faces than can be numbered", (long long)*n_cut);
        goto done;
    }
    vertices = esi_realloc(ctx, mesh->vertices, (size_t)(mesh->n_vertices + *n_cut), 3 * sizeof *vertices, "mesh vertices");
    if (!vertices) goto done;
    mesh->vertices = vertices;
    faces = esi_realloc(ctx, mesh->faces, (size_t)(mesh->n_faces + 2 * *n_cut), 3 * sizeof *faces, "mesh faces");
    if (!faces) goto done;
    mesh->faces = faces;
    for (int64_t i = 0; i < *n_cut; i++) cut_pair(mesh, cuts[i], opposite[cuts[i]]);
    st = ESPALIER_OK;
done:
    esi_free(ctx, touched);
    esi_free(ctx, cuts);
    esi_sides_free(ctx, &sides);
    return st;
}

/* Pair, split, and cut what still has more than two faces. *more: another round may be needed. */
static espalier_status split_round(espalier_context *ctx, esi_mesh *mesh, bool *more)
{
    esi_sides sides = {0};
    int32_t *opposite = NULL;
    int64_t n_edges = 0, n_cut = 0;
    espalier_status st = esi_sides_build(ctx, &sides, mesh);

    if (st == ESPALIER_OK) st = esi_sides_opposite(ctx, &opposite, &sides, mesh->n_faces);
    if (st == ESPALIER_OK) st = pair_around_edges(ctx, mesh, &sides, opposite, &n_edges);
    esi_sides_free(ctx, &sides);
    if (st == ESPALIER_OK) st = split_fans(ctx, mesh, opposite, number_at_end);
    if (st == ESPALIER_OK && n_edges > 0) st = cut_edges(ctx, mesh, opposite, &n_cut);
    esi_free(ctx, opposite);
    *more = n_cut > 0;
    return st;
}

#define MAX_ROUNDS 64

espalier_status esi_mesh_split_nonmanifold(espalier_context *ctx, esi_mesh *mesh, int64_t *vertices_added)
{
    bool more = true;
    int64_t n_before;
    espalier_status st = esi_mesh_compact(ctx, mesh, NULL);

    if (vertices_added) *vertices_added = 0;
    n_before = mesh->n_vertices;
    for (int round = 0; st == ESPALIER_OK && more && round < MAX_ROUNDS; round++) st = split_round(ctx, mesh, &more);
    if (st == ESPALIER_OK && vertices_added) *vertices_added = mesh->n_vertices - n_before;
    return st;
}
