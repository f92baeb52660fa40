/* SPDX-License-Identifier: MIT
 *
 * npz.c: O-Voxels as NumPy archives: a zip of .npy files (NumPy Enhancement Proposal 1), "coord" [N, 3] and one array of bytes
 * [N, channels] per attribute. Coordinates are uint16 where they fit, as the reference writes them.
 */
#include "formats/bytes.h"
#include "formats/vxz_internal.h"
#include "formats/zip.h"

#include <stdio.h>

#define MAGIC "\x93NUMPY"
#define LEVEL 6                    /* of deflate, as numpy.savez_compressed() */

/* ----------------------------------------------------------------- reading */

typedef struct npy {
    const uint8_t *data;
    uint64_t size;                 /* bytes of data */
    char type[4];                  /* "|u1", "<u2" ... */
    int rank;
    uint64_t shape[2];
} npy;

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n')) c->at++;
}

static bool take(cursor *c, const char *what)
{
    const size_t n = strlen(what);

    skip_blanks(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, what, n) != 0) return false;
    c->at += n;
    return true;
}

/* A number of at most 18 digits. */
static bool take_number(cursor *c, uint64_t *out)
{
    int digits = 0;

    skip_blanks(c);
    for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9' && digits < 18; digits++) *out = *out * 10 + (uint64_t)(*c->at++ - '0');
    return digits > 0;
}

/* "(5048, 3)", "(5048,)" */
static bool take_shape(cursor *c, npy *a)
{
    if (!take(c, "(")) return false;
    for (a->rank = 0; !take(c, ")"); a->rank++) {
        if (a->rank == 2 || !take_number(c, &a->shape[a->rank])) return false;
        if (take(c, ",")) continue;
        a->rank++;
        return take(c, ")");
    }
    return true;
}

static bool take_type(cursor *c, npy *a)
{
    if (!take(c, "'") || c->end - c->at < 4 || c->at[3] != '\'') return false;
    memcpy(a->type, c->at, 3);
    a->type[3] = '\0';
    c->at += 4;
    return true;
}

/* {'descr': '<u2', 'fortran_order': False, 'shape': (5048, 3), } in any order. */
static bool parse_dictionary(cursor *c, npy *a)
{
    bool type = false, order = false, shape = false;

    if (!take(c, "{")) return false;
    while (!take(c, "}")) {
        if (!type && take(c, "'descr':"))
            type = take_type(c, a);
        else if (!order && take(c, "'fortran_order':"))
            order = take(c, "False");
        else if (!shape && take(c, "'shape':"))
            shape = take_shape(c, a);
        else
            return false;
        if (!take(c, ",")) {
            if (!take(c, "}")) return false;
            break;
        }
    }
    skip_blanks(c);
    return type && order && shape && c->at == c->end;
}

static bool parse_npy(npy *a, const uint8_t *bytes, uint64_t size)
{
    uint64_t head, length;
    cursor c;

    if (size < 12 || memcmp(bytes, MAGIC, 6) != 0 || bytes[6] < 1 || bytes[6] > 3) return false;
    head = bytes[6] == 1 ? 10 : 12;
    length = bytes[6] == 1 ? esi_load_u16le(bytes + 8) : esi_load_u32le(bytes + 8);
    if (length > size - head) return false;
    c = (cursor){(const char *)bytes + head, (const char *)bytes + head + length};
    if (!parse_dictionary(&c, a)) return false;
    a->data = bytes + head + length;
    a->size = size - head - length;
    return true;
}

static espalier_status fail_array(espalier_context *ctx, const char *name, const esi_zip_entry *e, const char *what)
{
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: %.*s: %s", name, (int)ESI_MIN(e->name_len, (size_t)80), e->name, what);
}

static int coordinate_size(const char *type)
{
    static const struct { const char *type; int size; } known[] = {{"<u2", 2}, {"<i4", 4}, {"<u4", 4}, {"<i8", 8}, {"|u1", 1}};

    for (size_t i = 0; i < ESI_COUNT(known); i++) {
        if (strcmp(type, known[i].type) == 0) return known[i].size;
    }
    return 0;
}

static espalier_status take_coords(espalier_context *ctx, esi_vxz *out, const npy *a, const esi_zip_entry *e, const char *name)
{
    const int size = coordinate_size(a->type);

    if (size == 0 || a->rank != 2 || a->shape[1] != 3 || a->shape[0] > INT32_MAX)
        return fail_array(ctx, name, e, "coordinates must be whole numbers [N, 3]");
    if (a->size != a->shape[0] * 3 * (uint64_t)size) return fail_array(ctx, name, e, "its length does not fit its shape");
    out->coords = esi_alloc(ctx, (size_t)a->shape[0], 3 * sizeof *out->coords, "voxel coordinates");
    if (!out->coords) return ESPALIER_ERR_RESOURCE;
    out->count = (int64_t)a->shape[0];
    for (uint64_t i = 0; i < 3 * a->shape[0]; i++) {
        uint64_t v = 0;

        for (int b = 0; b < size; b++) v |= (uint64_t)a->data[i * (uint64_t)size + (uint64_t)b] << (8 * b);
        if (v >= ESI_VXZ_MAX_COORD) return fail_array(ctx, name, e, "a coordinate is outside the grid");      /* negative ones too */
        out->coords[i] = (int32_t)v;
    }
    return ESPALIER_OK;
}

static espalier_status take_attr(espalier_context *ctx, esi_vxz *out, const npy *a, const esi_zip_entry *e, const char *name)
{
    esi_vxz_attr *to = &out->attrs[out->n_attrs];
    const size_t len = e->name_len - 4;          /* without ".npy" */
    const uint64_t channels = a->rank == 2 ? a->shape[1] : 1;

    if (strcmp(a->type, "|u1") != 0 || a->rank < 1 || channels < 1 || channels > ESI_VXZ_MAX_CHANNELS)
        return fail_array(ctx, name, e, "attributes must be bytes [N, channels]");
    if (a->shape[0] > INT32_MAX || a->size != a->shape[0] * channels) return fail_array(ctx, name, e, "its length does not fit its shape");
    if (out->n_attrs == ESI_VXZ_MAX_ATTRS || len == 0 || len >= sizeof to->name || memchr(e->name, '\0', len))
        return fail_array(ctx, name, e, "an attribute too many, or one of an impossible name");
    memcpy(to->name, e->name, len);
    to->channels = (int32_t)channels;
    to->values = esi_alloc(ctx, (size_t)a->size, 1, "voxel attributes");
    if (!to->values) return ESPALIER_ERR_RESOURCE;
    if (a->size > 0) memcpy(to->values, a->data, (size_t)a->size);
    out->n_attrs++;
    return esi_vxz_find(out, to->name) == to ? ESPALIER_OK : fail_array(ctx, name, e, "two arrays share a name");
}

static espalier_status read_array(espalier_context *ctx, esi_vxz *out, const esi_zip *zip, const esi_zip_entry *e, int64_t *rows)
{
    npy a = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    const bool coords = e->name_len == 9 && memcmp(e->name, "coord.npy", 9) == 0;
    espalier_status st;

    if (e->name_len < 4 || memcmp(e->name + e->name_len - 4, ".npy", 4) != 0) return fail_array(ctx, zip->name, e, "not an array");
    if (coords && out->coords) return fail_array(ctx, zip->name, e, "two arrays share a name");
    st = esi_zip_extract(ctx, zip, e, &bytes, &size, UINT64_MAX);
    if (st != ESPALIER_OK) return st;
    if (!parse_npy(&a, bytes, size))
        st = fail_array(ctx, zip->name, e, "not a NumPy array in C order");
    else
        st = coords ? take_coords(ctx, out, &a, e, zip->name) : take_attr(ctx, out, &a, e, zip->name);
    if (st == ESPALIER_OK && *rows >= 0 && a.shape[0] != (uint64_t)*rows) st = fail_array(ctx, zip->name, e, "arrays of different length");
    *rows = (int64_t)a.shape[0];
    esi_free(ctx, bytes);
    return st;
}

espalier_status esi_npz_parse(espalier_context *ctx, esi_vxz *out, const uint8_t *bytes, uint64_t size, const char *name)
{
    esi_zip zip;
    uint32_t *order = NULL;
    int64_t rows = -1;
    espalier_status st = esi_zip_open(ctx, &zip, bytes, size, name);

    if (st != ESPALIER_OK) return st;
    for (size_t i = 0; st == ESPALIER_OK && i < zip.n_entries; i++) st = read_array(ctx, out, &zip, &zip.entries[i], &rows);
    if (st == ESPALIER_OK && !out->coords) st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no array \"coord\": not an O-Voxel file", name);
    if (st == ESPALIER_OK) st = esi_vxz_order(ctx, &order, out->coords, out->count, 8, name, ESPALIER_ERR_INPUT);
    esi_free(ctx, order);
    esi_zip_close(ctx, &zip);
    return st;
}

/* ----------------------------------------------------------------- writing */

/* Head of an array file, padded to a multiple of 64 bytes, and room for the data behind it; NULL after esi_fail(). */
static uint8_t *make_npy(const esi_zip_writer *zip, size_t *size, size_t *head, const char *type, int64_t rows, int32_t columns,
                         size_t bytes)
{
    char text[192];
    uint8_t *out;
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %d), }", type, (long long)rows,
                     (int)columns);
    const size_t padded = (10 + (size_t)n + 1 + 63) / 64 * 64;

    if (!esi_add_size(size, padded, bytes)) {
        (void)esi_fail(zip->ctx, ESPALIER_ERR_RESOURCE, "%s: arrays too large", zip->name);
        return NULL;
    }
    out = esi_alloc(zip->ctx, *size, 1, "a NumPy array");
    if (!out) return NULL;
    memcpy(out, MAGIC, 6);
    out[6] = 1;
    out[7] = 0;
    out[8] = (uint8_t)(padded - 10);
    out[9] = (uint8_t)((padded - 10) >> 8);
    memset(out + 10, ' ', padded - 10);
    memcpy(out + 10, text, (size_t)n);
    out[padded - 1] = '\n';
    *head = padded;
    return out;
}

static espalier_status add_coords(esi_zip_writer *zip, const esi_vxz *v)
{
    bool small = true;
    size_t size = 0, head = 0;
    uint8_t *array;
    espalier_status st;

    for (int64_t i = 0; i < 3 * v->count; i++) small = small && v->coords[i] <= UINT16_MAX;
    array = make_npy(zip, &size, &head, small ? "<u2" : "<i4", v->count, 3, (size_t)v->count * 3 * (small ? 2 : 4));
    if (!array) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * v->count; i++) {
        uint8_t *to = array + head + (size_t)i * (small ? 2 : 4);

        to[0] = (uint8_t)v->coords[i];
        to[1] = (uint8_t)(v->coords[i] >> 8);
        if (!small) to[2] = (uint8_t)(v->coords[i] >> 16), to[3] = (uint8_t)(v->coords[i] >> 24);
    }
    st = esi_zip_add(zip, "coord.npy", array, size, LEVEL, 0);
    esi_free(zip->ctx, array);
    return st;
}

static espalier_status add_attr(esi_zip_writer *zip, const esi_vxz *v, const esi_vxz_attr *a)
{
    const size_t bytes = (size_t)v->count * (size_t)a->channels;
    size_t size = 0, head = 0;
    char name[sizeof a->name + 8];
    uint8_t *array = make_npy(zip, &size, &head, "|u1", v->count, a->channels, bytes);
    espalier_status st;

    if (!array) return ESPALIER_ERR_RESOURCE;
    if (bytes > 0) memcpy(array + head, a->values, bytes);
    snprintf(name, sizeof name, "%s.npy", a->name);
    st = esi_zip_add(zip, name, array, size, LEVEL, 0);
    esi_free(zip->ctx, array);
    return st;
}

espalier_status esi_npz_write(espalier_context *ctx, const esi_vxz *v, const char *path)
{
    esi_zip_writer zip = {.ctx = ctx, .name = path};
    uint32_t *order = NULL;
    espalier_status st = esi_vxz_order(ctx, &order, v->coords, v->count, 8, path, ESPALIER_ERR_INTERNAL);      /* only for the check */

    esi_free(ctx, order);
    if (st == ESPALIER_OK) st = esi_writer_open(ctx, &zip.out, path);
    if (st == ESPALIER_OK) st = add_coords(&zip, v);
    for (int32_t i = 0; st == ESPALIER_OK && i < v->n_attrs; i++) st = add_attr(&zip, v, &v->attrs[i]);
    if (st == ESPALIER_OK) st = esi_zip_finish(&zip);
    if (st == ESPALIER_OK)
        st = esi_writer_commit(zip.out);
    else
        esi_writer_abort(zip.out);
    esi_zip_writer_free(&zip);
    return st;
}
