/* SPDX-License-Identifier: MIT
 *
 * kind_vxz.c: kind vxz: files of the reference are read exactly, and written again (uncompressed ones equal in every byte); sample.npz;
 * codes, octree bytes and filtered attributes of small grids.
 */
#include "formats/vxz_internal.h"
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>

/* Coordinates and attributes against `prefix` ("out." or "in."); false and a failed expectation under `what` when they differ. */
static espalier_status expect_voxels(golden_case *c, const char *what, const esi_vxz *v, const char *prefix)
{
    const int32_t *coords;
    golden_shape shape;
    espalier_status st = golden_i32(c, golden_name(c, "%scoords", prefix), &coords, &shape);

    if (st != ESPALIER_OK) return st;
    golden_expect_int(c, golden_name(c, "%s count", what), v->count, shape.extent[0]);
    if (v->count != shape.extent[0]) return ESPALIER_OK;
    golden_expect(c, golden_name(c, "%s coords", what), memcmp(coords, v->coords, (size_t)v->count * 12) == 0, "other cells");
    for (int32_t i = 0; i < v->n_attrs; i++) {
        const esi_vxz_attr *a = &v->attrs[i];
        const uint8_t *values;

        st = golden_u8(c, golden_name(c, "%sattr.%s", prefix, a->name), &values, &shape);
        if (st != ESPALIER_OK) return st;
        golden_expect_int(c, golden_name(c, "%s channels", what), a->channels, shape.extent[1]);
        golden_expect(c, golden_name(c, "%s %s", what, a->name), a->channels == shape.extent[1] &&
                      memcmp(values, a->values, (size_t)v->count * (size_t)a->channels) == 0, "other values");
    }
    golden_expect_int(c, golden_name(c, "%s attributes", what), v->n_attrs, (int64_t)esi_json_size(esi_json_get(c->config, "attr")));
    return ESPALIER_OK;
}

static void check_stored(golden_case *c, const esi_vxz *v)
{
    golden_check(c, "out.coords", v->coords, ESI_FILE_I32, GOLDEN_SHAPE(v->count, 3));
    for (int32_t i = 0; i < v->n_attrs; i++)
        golden_check(c, golden_name(c, "out.attr.%s", v->attrs[i].name), v->attrs[i].values, ESI_FILE_U8,
                     GOLDEN_SHAPE(v->count, v->attrs[i].channels));
}

static int choice(const esi_json *file, const char *key, const char *const *words)
{
    const char *text = "";
    int i = 0;

    (void)esi_json_string(esi_json_get(file, key), &text);
    while (words[i] && strcmp(words[i], text) != 0) i++;
    return i;
}

/* The voxels of the case, in their own order, through our writer. */
static espalier_status write_again(golden_case *c, const char *file, const esi_json *how, const esi_vxz *source)
{
    static const char *const filters[] = {"none", "parent", "neighbor", NULL}, *const methods[] = {"none", "deflate", "lzma", "zstd", NULL},
                             *const interleaves[] = {"as_is", "none", "all", NULL};
    const char *base = getenv("TMPDIR"),
               *path = golden_name(c, "%s/espalier-golden-%p.vxz", base && *base ? base : "/tmp", (const void *)c);
    esi_vxz_options o = esi_vxz_options_default();
    esi_file_map *ours = NULL, *theirs = NULL;
    esi_vxz v = {0};
    espalier_status st;

    o.chunk_size = (int32_t)golden_config_int(c, "chunk_size", 256);
    o.filter = (esi_vxz_filter)choice(how, "filter", filters);
    o.compression = (esi_vxz_compression)choice(how, "compression", methods);
    o.interleave = (esi_vxz_interleave)choice(how, "attr_interleave", interleaves);
    st = esi_vxz_write(c->ctx, source, path, &o);
    if (st == ESPALIER_OK) st = esi_vxz_read(c->ctx, &v, path);
    if (st == ESPALIER_OK) st = expect_voxels(c, golden_name(c, "%s again", file), &v, "out.");
    if (st == ESPALIER_OK && o.compression == ESI_VXZ_NONE) st = esi_file_map_open(c->ctx, &ours, path, ESPALIER_ERR_INPUT);
    if (st == ESPALIER_OK && ours) st = esi_file_map_open(c->ctx, &theirs, golden_path(c, file), ESPALIER_ERR_INPUT);
    if (st == ESPALIER_OK && ours)
        golden_expect(c, golden_name(c, "%s bytes", file), esi_file_map_size(ours) == esi_file_map_size(theirs) &&
                      memcmp(esi_file_map_data(ours), esi_file_map_data(theirs), (size_t)esi_file_map_size(ours)) == 0, "another file");
    esi_file_map_release(ours);
    esi_file_map_release(theirs);
    esi_vxz_free(c->ctx, &v);
    (void)remove(path);
    return st;
}

static espalier_status check_file(golden_case *c, const char *file, const esi_json *how, const esi_vxz *source, bool first)
{
    esi_vxz v = {0};
    espalier_status st = esi_vxz_read(c->ctx, &v, golden_path(c, file));

    if (st == ESPALIER_OK) st = expect_voxels(c, file, &v, "out.");
    if (st == ESPALIER_OK && first) check_stored(c, &v);
    if (st == ESPALIER_OK) st = write_again(c, file, how, source);
    esi_vxz_free(c->ctx, &v);
    return st;
}

/* ------------------------------------------------------------- small grids */

static espalier_status check_grid(golden_case *c, const char *name, int depth)
{
    const char *prefix = golden_name(c, "out.%s.", name);
    const int32_t *coords;
    const uint8_t *attr;
    golden_shape shape, attr_shape;
    espalier_status st = golden_i32(c, golden_name(c, "in.%s.coords", name), &coords, &shape);
    size_t n, channels, size = 0, back = 0;
    uint32_t *morton, *hilbert, *codes;
    uint8_t *tree, *delta;

    if (st == ESPALIER_OK) st = golden_u8(c, golden_name(c, "in.%s.attr", name), &attr, &attr_shape);
    if (st != ESPALIER_OK) return st;
    n = (size_t)shape.extent[0];
    channels = (size_t)attr_shape.extent[1];
    morton = golden_alloc(c, n, sizeof *morton);
    hilbert = golden_alloc(c, n, sizeof *hilbert);
    codes = golden_alloc(c, n, sizeof *codes);
    tree = golden_alloc(c, n, (size_t)depth);
    delta = golden_alloc(c, n, channels);
    for (size_t i = 0; i < n; i++) {
        morton[i] = esi_morton_encode((uint32_t)coords[3 * i], (uint32_t)coords[3 * i + 1], (uint32_t)coords[3 * i + 2]);
        hilbert[i] = esi_hilbert_encode((uint32_t)coords[3 * i], (uint32_t)coords[3 * i + 1], (uint32_t)coords[3 * i + 2]);
    }
    golden_check(c, golden_name(c, "%smorton", prefix), morton, ESI_FILE_I32, GOLDEN_SHAPE((int64_t)n));
    golden_check(c, golden_name(c, "%shilbert", prefix), hilbert, ESI_FILE_I32, GOLDEN_SHAPE((int64_t)n));
    esi_octree_encode(tree, &size, morton, n, depth);
    golden_check(c, golden_name(c, "%soctree", prefix), tree, ESI_FILE_U8, GOLDEN_SHAPE((int64_t)size));
    golden_expect(c, golden_name(c, "%s octree back", name), esi_octree_decode(codes, n, &back, tree, size, depth) && back == n &&
                  memcmp(codes, morton, n * sizeof *codes) == 0, "other codes");
    esi_filter_parent_encode(delta, attr, channels, morton, n, depth);
    golden_check(c, golden_name(c, "%sparent_delta", prefix), delta, ESI_FILE_U8, attr_shape);
    st = esi_filter_neighbor(c->ctx, delta, attr, channels, morton, n, false);
    if (st == ESPALIER_OK) golden_check(c, golden_name(c, "%sneighbor_delta", prefix), delta, ESI_FILE_U8, attr_shape);
    return st;
}

espalier_status golden_kind_vxz(golden_case *c)
{
    const esi_json *files = esi_json_get(c->config, "files"), *how;
    const char *const *grids;
    const size_t n_grids = golden_sub_cases(c, "in.svo", ".coords", &grids);
    const char *file;
    void *iterator = NULL;
    bool first = true;
    esi_vxz npz = {0};
    espalier_status st = esi_vxz_read(c->ctx, &npz, golden_path(c, "sample.npz"));

    if (st == ESPALIER_OK) st = expect_voxels(c, "sample.npz", &npz, "in.");
    while (st == ESPALIER_OK && (file = esi_json_next(files, &iterator, &how)) != NULL) {
        st = check_file(c, file, how, &npz, first);
        first = false;
    }
    for (size_t i = 0; st == ESPALIER_OK && i < n_grids; i++) st = check_grid(c, golden_name(c, "svo%s", grids[i]), atoi(grids[i]));
    esi_vxz_free(c->ctx, &npz);
    return st;
}
