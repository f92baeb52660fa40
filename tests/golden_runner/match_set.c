/* SPDX-License-Identifier: MIT
 *
 * match_set.c: rows whose order means nothing (tolerance keyword as_set) put into the stored order, so that the other keywords can look at
 * one row after the other. A row without a partner takes a place that nobody else wants, where it breaks the tolerance.
 */
#include "golden.h"

#include <math.h>
#include <stdlib.h>

typedef struct keyed_row { double key; int64_t row; } keyed_row;
typedef struct keyed_face { int32_t corner[3]; int64_t row; } keyed_face;

static int compare_rows(const void *a, const void *b)
{
    const keyed_row *x = a, *y = b;

    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int compare_faces(const void *a, const void *b)
{
    const keyed_face *x = a, *y = b;

    for (int k = 0; k < 3; k++) {
        if (x->corner[k] != y->corner[k]) return x->corner[k] < y->corner[k] ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Partners that nobody found get what is left, in order. */
static void fill_rest(int64_t *partner, bool *used, int64_t count)
{
    int64_t next = 0;

    for (int64_t i = 0; i < count; i++) {
        if (partner[i] >= 0) continue;
        while (used[next]) next++;
        used[next] = true;
        partner[i] = next;
    }
}

/* partner[i]: our point for the stored point i, the nearest within `tolerance` on every axis that is still free. */
static void match_points(golden_case *c, int64_t *partner, const float *ours, const float *theirs, int64_t count, double tolerance)
{
    keyed_row *rows = golden_alloc(c, (size_t)count, sizeof *rows);
    bool *used = golden_alloc(c, (size_t)count, sizeof *used);

    for (int64_t i = 0; i < count; i++) rows[i] = (keyed_row){(double)ours[3 * i], i};
    qsort(rows, (size_t)count, sizeof *rows, compare_rows);
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)theirs[3 * i];
        double best = INFINITY;
        int64_t low = 0, high = count;

        partner[i] = -1;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;

            if (rows[middle].key < x - tolerance) low = middle + 1;
            else high = middle;
        }
        for (; low < count && rows[low].key <= x + tolerance; low++) {
            double d2 = 0.0, most = 0.0;

            for (int k = 0; k < 3; k++) {
                const double d = (double)ours[3 * rows[low].row + k] - (double)theirs[3 * i + k];
                d2 += d * d;
                most = fmax(most, fabs(d));
            }
            if (used[rows[low].row] || !(most <= tolerance) || !(d2 < best)) continue;
            best = d2;
            partner[i] = rows[low].row;
        }
        if (partner[i] >= 0) used[partner[i]] = true;
    }
    fill_rest(partner, used, count);
}

/* The lowest corner first, winding kept. */
static keyed_face turned(const int32_t face[3], int64_t row)
{
    int first = 0;

    for (int k = 1; k < 3; k++) {
        if (face[k] < face[first]) first = k;
    }
    return (keyed_face){{face[first], face[(first + 1) % 3], face[(first + 2) % 3]}, row};
}

void golden_check_mesh_set(golden_case *c, const char *vertices_name, const char *faces_name, const float *vertices, int64_t n_vertices,
                           const int32_t *faces, int64_t n_faces, double tolerance)
{
    const float *their_vertices = NULL;
    const int32_t *their_faces = NULL;
    golden_shape vertex_shape, face_shape;
    float *ordered_vertices = golden_alloc(c, (size_t)n_vertices * 3, sizeof *ordered_vertices);
    int32_t *ordered_faces = golden_alloc(c, (size_t)n_faces * 3, sizeof *ordered_faces);

    memcpy(ordered_vertices, vertices, (size_t)n_vertices * 3 * sizeof *vertices);
    memcpy(ordered_faces, faces, (size_t)n_faces * 3 * sizeof *faces);
    if (golden_f32(c, vertices_name, &their_vertices, &vertex_shape) == ESPALIER_OK &&
        golden_i32(c, faces_name, &their_faces, &face_shape) == ESPALIER_OK && vertex_shape.extent[0] == n_vertices &&
        face_shape.extent[0] == n_faces) {
        int64_t *partner = golden_alloc(c, (size_t)n_vertices, sizeof *partner);
        int32_t *number = golden_alloc(c, (size_t)n_vertices, sizeof *number);
        keyed_face *a = golden_alloc(c, (size_t)n_faces, sizeof *a), *b = golden_alloc(c, (size_t)n_faces, sizeof *b);

        match_points(c, partner, vertices, their_vertices, n_vertices, tolerance);
        for (int64_t i = 0; i < n_vertices; i++) {
            memcpy(ordered_vertices + 3 * i, vertices + 3 * partner[i], 3 * sizeof *vertices);
            number[partner[i]] = (int32_t)i;
        }
        for (int64_t f = 0; f < n_faces; f++) {
            const int32_t face[3] = {number[faces[3 * f]], number[faces[3 * f + 1]], number[faces[3 * f + 2]]};
            a[f] = turned(face, f);
            b[f] = turned(their_faces + 3 * f, f);
        }
        qsort(a, (size_t)n_faces, sizeof *a, compare_faces);
        qsort(b, (size_t)n_faces, sizeof *b, compare_faces);
        /* Equal sets have equal sorted lists. Equal triples are stored turned as the others are. */
        for (int64_t i = 0; i < n_faces; i++) {
            const bool equal = memcmp(a[i].corner, b[i].corner, sizeof a[i].corner) == 0;
            memcpy(ordered_faces + 3 * b[i].row, equal ? their_faces + 3 * b[i].row : a[i].corner, sizeof a[i].corner);
        }
    }
    golden_check(c, vertices_name, ordered_vertices, ESI_FILE_F32, GOLDEN_SHAPE(n_vertices, 3));
    golden_check(c, faces_name, ordered_faces, ESI_FILE_I32, GOLDEN_SHAPE(n_faces, 3));
}
