/* SPDX-License-Identifier: MIT
 *
 * vxz_filter.c: attributes of voxels as differences modulo 256 and back, which compress better (O-Voxel's filters "parent" and "neighbor").
 */
#include "formats/vxz_internal.h"

/* ------------------------------------------------------------------ parent
 * Every inner node takes the attributes of its first leaf. A node's differences between siblings lie together where pre-order first meets
 * the node; the very first row is the first leaf itself. */

typedef struct parent_walk {
    uint8_t *out;
    const uint8_t *in;
    const uint32_t *codes;
    size_t channels, next;         /* row of the file where the next node's differences go */
    bool decode;
} parent_walk;

static void store_difference(const parent_walk *w, size_t row, size_t leaf, size_t previous)
{
    const size_t c = w->channels;

    for (size_t i = 0; i < c; i++) {
        if (w->decode)
            w->out[leaf * c + i] = (uint8_t)(w->out[previous * c + i] + w->in[row * c + i]);
        else
            w->out[row * c + i] = (uint8_t)(w->in[leaf * c + i] - w->in[previous * c + i]);
    }
}

/* The node over codes [begin, end). At most 10 calls deep. */
static void walk_parent(parent_walk *w, size_t begin, size_t end, int level)
{
    size_t starts[9], n = 0;

    for (size_t i = begin; i < end; i++) {
        if (i == begin || w->codes[i] >> (3 * level) != w->codes[i - 1] >> (3 * level)) starts[n++] = i;
    }
    starts[n] = end;
    for (size_t k = 1; k < n; k++) store_difference(w, w->next++, starts[k], starts[k - 1]);
    for (size_t k = 0; k < n && level > 0; k++) walk_parent(w, starts[k], starts[k + 1], level - 1);
}

static void run_parent(parent_walk *w, size_t n, int depth)
{
    if (n == 0) return;
    memcpy(w->out, w->in, w->channels);
    w->next = 1;
    walk_parent(w, 0, n, depth - 1);
}

void esi_filter_parent_encode(uint8_t *out, const uint8_t *in, size_t channels, const uint32_t *codes, size_t n, int depth)
{
    parent_walk w = {.out = out, .in = in, .codes = codes, .channels = channels};

    run_parent(&w, n, depth);
}

void esi_filter_parent_decode(uint8_t *out, const uint8_t *in, size_t channels, const uint32_t *codes, size_t n, int depth)
{
    parent_walk w = {.out = out, .in = in, .codes = codes, .channels = channels, .decode = true};

    run_parent(&w, n, depth);
}

/* ---------------------------------------------------------------- neighbour
 * The difference to the last of these cells that is there: (-x), (-y), (-z), (-x-y), (-x-z), (-y-z), (-x-y-z). In the order of (z, y, x)
 * all of them come earlier, and the place of each moves forward only, so that seven fingers find them all in one pass. */

#define AXIS 11                                  /* bits per axis in a key */
#define NEIGHBORS 7

static const uint64_t steps[NEIGHBORS][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}};

/* One more than the coordinate, so that a step below zero is a key nobody has. */
static uint64_t key_of(uint32_t code)
{
    uint32_t p[3];

    esi_morton_decode(code, p);
    return (uint64_t)(p[2] + 1) << (2 * AXIS) | (uint64_t)(p[1] + 1) << AXIS | (uint64_t)(p[0] + 1);
}

static void apply_neighbor(uint8_t *out, const uint8_t *in, size_t channels, size_t row, int64_t neighbor, bool decode)
{
    const uint8_t *values = decode ? out : in;

    for (size_t i = 0; i < channels; i++) {
        const uint8_t base = neighbor < 0 ? 0 : values[(size_t)neighbor * channels + i];
        const uint8_t value = in[row * channels + i];

        out[row * channels + i] = (uint8_t)(decode ? value + base : value - base);
    }
}

espalier_status esi_filter_neighbor(espalier_context *ctx, uint8_t *out, const uint8_t *in, size_t channels, const uint32_t *codes,
                                    size_t n, bool decode)
{
    uint64_t *keys = esi_alloc(ctx, n, sizeof *keys, "voxel keys");
    uint32_t *order = esi_alloc(ctx, n, sizeof *order, "voxel order"), *scratch = esi_alloc(ctx, n, sizeof *scratch, "voxel order");
    size_t finger[NEIGHBORS] = {0};
    espalier_status st = keys && order && scratch ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < n; i++) {
        keys[i] = key_of(codes[i]);
        order[i] = (uint32_t)i;
    }
    esi_radix_sort(order, scratch, keys, n, 3 * AXIS);
    for (size_t i = 0; i < n; i++) {
        int64_t neighbor = -1;

        for (int k = 0; k < NEIGHBORS; k++) {
            const uint64_t wanted = keys[order[i]] - (steps[k][2] << (2 * AXIS)) - (steps[k][1] << AXIS) - steps[k][0];

            while (keys[order[finger[k]]] < wanted) finger[k]++;
            if (keys[order[finger[k]]] == wanted) neighbor = order[finger[k]];
        }
        apply_neighbor(out, in, channels, order[i], neighbor, decode);
    }
done:
    esi_free(ctx, keys);
    esi_free(ctx, order);
    esi_free(ctx, scratch);
    return st;
}
