/* SPDX-License-Identifier: MIT
 *
 * hole_fit.c: would an absent voxel close the hole beside it? Tried on its neighbourhood of 5^3 cells, with every choice of its own flags.
 */
#include "voxel/keys.h"
#include "voxel/repair_grid.h"

enum { AROUND = 5, CENTER = 2 };

/* The neighbourhood of an absent voxel, it being in the middle. Row -1: absent; AT_CENTER: the voxel itself. */
#define AT_CENTER (-2)
typedef struct neighborhood {
    const esi_growing_grid *g;
    int32_t row[AROUND][AROUND][AROUND];
    bool center_present;
    unsigned center_flags;         /* bit a: its edge a */
} neighborhood;

static void load_neighborhood(neighborhood *h, const esi_growing_grid *g, uint64_t key)
{
    int32_t v[4];

    esi_key_unpack(v, key);
    h->g = g;
    for (int x = 0; x < AROUND; x++) {
        for (int y = 0; y < AROUND; y++) {
            for (int z = 0; z < AROUND; z++) {
                h->row[x][y][z] = esi_voxel_index_find(&g->index, v[0], v[1] + x - CENTER, v[2] + y - CENTER, v[3] + z - CENTER);
            }
        }
    }
    h->row[CENTER][CENTER][CENTER] = AT_CENTER;
}

static bool is_present(const neighborhood *h, int x, int y, int z)
{
    const int32_t row = h->row[x][y][z];

    return row >= 0 || (row == AT_CENTER && h->center_present);
}

/* Does a complete edge `axis` belong to the voxel at p, whatever its flag? */
static bool is_complete(const neighborhood *h, const int p[3], int axis)
{
    if (!is_present(h, p[0], p[1], p[2])) return false;
    for (int i = 0; i < 3; i++) {
        const int8_t *d = esi_quad_corner[axis][i];

        if (!is_present(h, p[0] + d[0], p[1] + d[1], p[2] + d[2])) return false;
    }
    return true;
}

static bool is_on(const neighborhood *h, const int p[3], int axis)
{
    const int32_t row = h->row[p[0]][p[1]][p[2]];

    if (!is_complete(h, p, axis)) return false;
    return row == AT_CENTER ? (h->center_flags >> axis & 1) != 0 : h->g->flags[3 * (int64_t)row + axis] != 0;
}

/* Odd faces among those (bit 3 * place + direction) around the middle. */
static int count_odd_around(const neighborhood *h, const uint8_t marked[27])
{
    int odd = 0;

    for (int place = 0; place < 27; place++) {
        const int n[3] = {place / 9 + CENTER - 1, place / 3 % 3 + CENTER - 1, place % 3 + CENTER - 1};

        for (int d = 0; d < 3; d++) {
            const int a = d == 0 ? 1 : 0, b = d == 2 ? 1 : 2;
            int p[3] = {n[0], n[1], n[2]}, q[3] = {n[0], n[1], n[2]};

            if (!(marked[place] >> d & 1)) continue;
            p[b]--;
            q[a]--;
            odd += (is_on(h, n, a) + is_on(h, p, a) + is_on(h, n, b) + is_on(h, q, b)) & 1;
        }
    }
    return odd;
}

static void mark_face(uint8_t marked[27], const int n[3], int direction)
{
    marked[9 * (n[0] - CENTER + 1) + 3 * (n[1] - CENTER + 1) + n[2] - CENTER + 1] |= (uint8_t)(1 << direction);
}

/* Faces that a complete edge around the middle touches. */
static void mark_faces(const neighborhood *h, uint8_t marked[27])
{
    for (int axis = 0; axis < 3; axis++) {
        const int b = axis == 0 ? 1 : 0, c = axis == 2 ? 1 : 2;

        for (int owner = 0; owner < 4; owner++) {
            int p[3] = {CENTER, CENTER, CENTER}, q[3];

            p[b] -= owner & 1;
            p[c] -= owner >> 1;
            if (!is_complete(h, p, axis)) continue;
            mark_face(marked, p, b);
            mark_face(marked, p, c);
            memcpy(q, p, sizeof q);
            q[b]++;
            mark_face(marked, q, c);
            memcpy(q, p, sizeof q);
            q[c]++;
            mark_face(marked, q, b);
        }
    }
}

/* How far the mean of the vertices that would share a quad with the voxel lies from its cell, in cells. The same hole can often be closed
 * by a voxel on the wrong side of the surface, whose neighbours' vertices all lie beyond its border. */
static double distance_from_cell(const neighborhood *h)
{
    double sum[3] = {0.0, 0.0, 0.0}, worst = 0.0;
    bool seen[AROUND][AROUND][AROUND] = {{{false}}};
    int n = 0;

    for (int axis = 0; axis < 3; axis++) {
        const int b = axis == 0 ? 1 : 0, c = axis == 2 ? 1 : 2;

        for (int i = 0; i < 16; i++) {                               /* owner of the edge, then corner of its quad */
            int p[3] = {CENTER, CENTER, CENTER};
            int32_t row;

            p[b] -= i & 1;
            p[c] -= i >> 1 & 1;
            if (!is_on(h, p, axis)) continue;
            p[b] += i >> 2 & 1;
            p[c] += i >> 3;
            row = h->row[p[0]][p[1]][p[2]];
            if (row < 0 || seen[p[0]][p[1]][p[2]]) continue;
            seen[p[0]][p[1]][p[2]] = true;
            for (int a = 0; a < 3; a++) sum[a] += (double)(p[a] - CENTER) + (double)esi_growing_local(h->g, row)[a];
            n++;
        }
    }
    for (int a = 0; a < 3 && n > 0; a++) worst = ESI_MAX(worst, ESI_MAX(-sum[a] / n, sum[a] / n - 1.0));
    return n > 0 ? worst : ESI_NO_FIT;
}

/* Some faces are odd without the voxel, and with it and the right flags of its own none is: distance_from_cell(), else ESI_NO_FIT. */
double esi_hole_fit(const esi_growing_grid *g, uint64_t key)
{
    neighborhood h;
    uint8_t marked[27] = {0};
    unsigned possible = 0;
    double best = ESI_NO_FIT;

    load_neighborhood(&h, g, key);
    h.center_present = true;
    for (int a = 0; a < 3; a++) possible |= (unsigned)is_complete(&h, (int[]){CENTER, CENTER, CENTER}, a) << a;
    mark_faces(&h, marked);
    h.center_present = false;
    if (count_odd_around(&h, marked) == 0) return ESI_NO_FIT;
    h.center_present = true;
    for (h.center_flags = 0; h.center_flags < 8; h.center_flags++) {
        if ((h.center_flags & ~possible) == 0 && count_odd_around(&h, marked) == 0) best = ESI_MIN(best, distance_from_cell(&h));
    }
    return best;
}
