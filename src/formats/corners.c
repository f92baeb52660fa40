/* SPDX-License-Identifier: MIT
 *
 * corners.c: formats that number positions, texture coordinates and normals apart -> one number per vertex.
 */
#include "formats/mesh_files.h"

static uint64_t hash_corner(esi_corner c)
{
    uint64_t h = (uint64_t)(uint32_t)c.v * UINT64_C(0x9E3779B97F4A7C15) + (uint32_t)c.t;

    h = (h ^ h >> 29) * UINT64_C(0xBF58476D1CE4E5B9) + (uint32_t)c.n;
    h = (h ^ h >> 32) * UINT64_C(0x94D049BB133111EB);
    return h ^ h >> 31;
}

static bool same_corner(esi_corner a, esi_corner b)
{
    return a.v == b.v && a.t == b.t && a.n == b.n;
}

static size_t find_slot(const esi_corners *c, esi_corner corner)
{
    size_t slot = (size_t)hash_corner(corner) & (c->slots - 1);

    while (c->table[slot] >= 0 && !same_corner(c->corners[c->table[slot]], corner)) slot = (slot + 1) & (c->slots - 1);
    return slot;
}

/* At most half of the slots are taken. */
static espalier_status make_table(espalier_context *ctx, esi_corners *c, size_t slots)
{
    int32_t *table = esi_alloc(ctx, slots, sizeof *table, "vertex numbers");

    if (!table) return ESPALIER_ERR_RESOURCE;
    esi_free(ctx, c->table);
    c->table = table;
    c->slots = slots;
    memset(table, 0xff, slots * sizeof *table);
    for (int64_t i = 0; i < c->count; i++) {
        if (c->corners[i].v >= 0) table[find_slot(c, c->corners[i])] = (int32_t)i;
    }
    return ESPALIER_OK;
}

espalier_status esi_corners_open(espalier_context *ctx, esi_corners *c, int64_t positions, const char *name)
{
    *c = (esi_corners){.name = name};
    c->corners = esi_alloc(ctx, (size_t)positions, sizeof *c->corners, "vertex numbers");
    if (!c->corners) return ESPALIER_ERR_RESOURCE;
    c->count = c->capacity = positions;
    for (int64_t i = 0; i < positions; i++) c->corners[i] = (esi_corner){-2, -1, -1};
    return make_table(ctx, c, 1024);
}

static espalier_status add_corner(espalier_context *ctx, esi_corners *c, esi_corner corner, int32_t *index)
{
    if (c->corners[corner.v].v == -2) {          /* the position is still free for its first corner */
        *index = corner.v;
        c->corners[corner.v] = corner;
        return ESPALIER_OK;
    }
    if (c->count == c->capacity) {
        const int64_t capacity = c->capacity + c->capacity / 2 + 1024;
        esi_corner *corners;

        if (capacity > ESI_MESH_MAX_VERTICES)
            return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: more vertices than can be numbered", c->name);
        corners = esi_realloc(ctx, c->corners, (size_t)capacity, sizeof *corners, "vertex numbers");
        if (!corners) return ESPALIER_ERR_RESOURCE;
        c->corners = corners;
        c->capacity = capacity;
    }
    *index = (int32_t)c->count;
    c->corners[c->count++] = corner;
    return ESPALIER_OK;
}

espalier_status esi_corners_number(espalier_context *ctx, esi_corners *c, esi_corner corner, int32_t *index)
{
    const size_t slot = find_slot(c, corner);
    espalier_status st;

    if (c->table[slot] >= 0) {
        *index = c->table[slot];
        return ESPALIER_OK;
    }
    st = add_corner(ctx, c, corner, index);
    if (st != ESPALIER_OK) return st;
    c->table[slot] = *index;
    return 2 * ++c->taken > c->slots ? make_table(ctx, c, 2 * c->slots) : ESPALIER_OK;
}

void esi_corners_close(espalier_context *ctx, esi_corners *c)
{
    esi_free(ctx, c->corners);
    esi_free(ctx, c->table);
    memset(c, 0, sizeof *c);
}
