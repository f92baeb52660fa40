/* SPDX-License-Identifier: MIT
 *
 * zip.c: see the header. When reading, the central directory counts, and local headers only tell where an entry's bytes begin.
 */
#include "formats/zip.h"

#include "formats/bytes.h"
#include "formats/compress.h"

#define END_SIZE 22
#define CENTRAL_SIZE 46
#define LOCAL_SIZE 30
#define MAX_COMMENT 65535
#define MAX_RATIO 1032             /* deflate cannot do more */
#define DOS_DATE 0x0021            /* 1980-01-01 */
#define PAD_FIELD 0x1986           /* number of the extra field that pads, as USD's tools write it */

/* ----------------------------------------------------------------- reading */

static espalier_status damaged(espalier_context *ctx, const char *name, const char *what)
{
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged zip archive: %s", name, what);
}

/* The end record lies at the end, before a comment of unknown length. */
static const uint8_t *find_end(const uint8_t *bytes, uint64_t size)
{
    for (uint64_t back = END_SIZE; back <= size && back <= END_SIZE + MAX_COMMENT; back++) {
        const uint8_t *at = bytes + size - back;

        if (esi_load_u32le(at) == 0x06054b50 && esi_load_u16le(at + 20) == back - END_SIZE) return at;
    }
    return NULL;
}

/* One record of the directory at `at`, of which `left` bytes are there; *length = its length. */
static espalier_status read_entry(espalier_context *ctx, esi_zip_entry *e, const uint8_t *bytes, uint64_t size, const uint8_t *at,
                                  uint64_t left, uint64_t *length, const char *name)
{
    uint64_t offset, head;
    unsigned method;

    if (left < CENTRAL_SIZE || esi_load_u32le(at) != 0x02014b50) return damaged(ctx, name, "its directory is cut off");
    e->name = (const char *)at + CENTRAL_SIZE;
    e->name_len = esi_load_u16le(at + 28);
    *length = CENTRAL_SIZE + (uint64_t)e->name_len + esi_load_u16le(at + 30) + esi_load_u16le(at + 32);
    if (*length > left) return damaged(ctx, name, "its directory is cut off");
    method = esi_load_u16le(at + 10);
    if ((esi_load_u16le(at + 8) & 1) || (method != 0 && method != 8))
        return damaged(ctx, name, "an entry is encrypted or compressed by an unknown method");
    e->deflated = method == 8;
    e->crc = esi_load_u32le(at + 16);
    e->stored = esi_load_u32le(at + 20);
    e->size = esi_load_u32le(at + 24);
    offset = esi_load_u32le(at + 42);
    if (offset > size || size - offset < LOCAL_SIZE || esi_load_u32le(bytes + offset) != 0x04034b50)
        return damaged(ctx, name, "an entry is not where its directory says");
    head = LOCAL_SIZE + (uint64_t)esi_load_u16le(bytes + offset + 26) + esi_load_u16le(bytes + offset + 28);
    if (head > size - offset || e->stored > size - offset - head) return damaged(ctx, name, "an entry is cut off");
    if (e->deflated ? e->size > e->stored * MAX_RATIO + MAX_RATIO : e->size != e->stored)
        return damaged(ctx, name, "an entry has an impossible size");
    e->bytes = bytes + offset + head;
    return ESPALIER_OK;
}

espalier_status esi_zip_open(espalier_context *ctx, esi_zip *zip, const void *bytes, uint64_t size, const char *name)
{
    const uint8_t *end = find_end(bytes, size), *at;
    uint64_t offset, left, length = 0;
    espalier_status st = ESPALIER_OK;

    memset(zip, 0, sizeof *zip);
    zip->name = name;
    if (!end) return damaged(ctx, name, "its directory is not there");
    zip->n_entries = esi_load_u16le(end + 10);
    left = esi_load_u32le(end + 12);
    offset = esi_load_u32le(end + 16);
    if (esi_load_u16le(end + 4) != 0 || esi_load_u16le(end + 8) != zip->n_entries || offset > size || left > size - offset ||
        (uint64_t)zip->n_entries * CENTRAL_SIZE > left)
        return damaged(ctx, name, "its directory is cut off, or it is of several parts or over 4 GiB");
    zip->entries = esi_calloc(ctx, zip->n_entries, sizeof *zip->entries, "zip directory");
    if (!zip->entries) return ESPALIER_ERR_RESOURCE;
    at = (const uint8_t *)bytes + offset;
    for (size_t i = 0; st == ESPALIER_OK && i < zip->n_entries; i++, at += length, left -= length)
        st = read_entry(ctx, &zip->entries[i], bytes, size, at, left, &length, name);
    if (st != ESPALIER_OK) esi_zip_close(ctx, zip);
    return st;
}

void esi_zip_close(espalier_context *ctx, esi_zip *zip)
{
    esi_free(ctx, zip->entries);
    memset(zip, 0, sizeof *zip);
}

const esi_zip_entry *esi_zip_find(const esi_zip *zip, const char *entry)
{
    for (size_t i = 0; i < zip->n_entries; i++) {
        if (zip->entries[i].name_len == strlen(entry) && memcmp(zip->entries[i].name, entry, strlen(entry)) == 0) return &zip->entries[i];
    }
    return NULL;
}

espalier_status esi_zip_extract(espalier_context *ctx, const esi_zip *zip, const esi_zip_entry *e, uint8_t **out, size_t *size,
                                uint64_t limit)
{
    uint8_t *data;
    espalier_status st;

    *out = NULL;
    *size = 0;
    if (e->size > limit || e->size > SIZE_MAX - 1)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: an entry of %llu bytes is over the limit", zip->name, (unsigned long long)e->size);
    data = esi_alloc(ctx, (size_t)e->size + 1, 1, "an entry of a zip archive");
    if (!data) return ESPALIER_ERR_RESOURCE;
    st = esi_decompress(ctx, data, (size_t)e->size, e->bytes, (size_t)e->stored,
                        e->deflated ? ESI_COMPRESSION_DEFLATE : ESI_COMPRESSION_NONE, 0, zip->name);
    if (st == ESPALIER_OK && esi_crc32(0, data, (size_t)e->size) != e->crc) st = damaged(ctx, zip->name, "a checksum is wrong");
    if (st != ESPALIER_OK) {
        esi_free(ctx, data);
        return st;
    }
    data[e->size] = '\0';
    *out = data;
    *size = (size_t)e->size;
    return ESPALIER_OK;
}

/* ----------------------------------------------------------------- writing */

static uint8_t *put16(uint8_t *to, unsigned v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
    return to + 2;
}

static uint8_t *put32(uint8_t *to, uint32_t v)
{
    esi_store_u32le(to, v);
    return to + 4;
}

/* From "version needed" to "extra field length", which both kinds of header share. */
static uint8_t *put_common(uint8_t *to, bool deflated, uint32_t crc, size_t stored, size_t size, size_t name_len, unsigned extra)
{
    to = put16(to, 20);
    to = put16(to, 0);
    to = put16(to, deflated ? 8 : 0);
    to = put16(to, 0);
    to = put16(to, DOS_DATE);
    to = put32(to, crc);
    to = put32(to, (uint32_t)stored);
    to = put32(to, (uint32_t)size);
    to = put16(to, (unsigned)name_len);
    return put16(to, extra);
}

/* Length of an extra field (0, or at least the 4 bytes of its head) that brings the data to a multiple of `align`. */
static unsigned padding(uint64_t data_at, uint32_t align)
{
    const unsigned over = align ? (unsigned)(data_at % align) : 0;

    if (over == 0) return 0;
    return align - over >= 4 ? align - over : 2 * align - over;
}

static espalier_status write_local(esi_zip_writer *zip, const char *name, bool deflated, uint32_t crc, size_t stored, size_t size,
                                   unsigned extra)
{
    uint8_t head[LOCAL_SIZE], field[4];
    const size_t name_len = strlen(name);
    espalier_status st;

    (void)put_common(put32(head, 0x04034b50), deflated, crc, stored, size, name_len, extra);
    st = esi_writer_write(zip->out, head, sizeof head);
    if (st == ESPALIER_OK) st = esi_writer_write(zip->out, name, name_len);
    if (st != ESPALIER_OK || extra == 0) return st;
    (void)put16(put16(field, PAD_FIELD), extra - 4);
    st = esi_writer_write(zip->out, field, sizeof field);
    return st == ESPALIER_OK ? esi_writer_zeros(zip->out, extra - 4) : st;
}

static espalier_status note_entry(esi_zip_writer *zip, const char *name, bool deflated, uint32_t crc, size_t stored, size_t size,
                                  uint64_t offset)
{
    uint8_t head[CENTRAL_SIZE] = {0}, *at = put32(head, 0x02014b50);

    at = put_common(put16(at, 20), deflated, crc, stored, size, strlen(name), 0);
    esi_store_u32le(head + 42, (uint32_t)offset);      /* between them: no comment, disk 0, no attributes */
    esi_text_append_bytes(zip->ctx, &zip->directory, head, sizeof head);
    esi_text_append_bytes(zip->ctx, &zip->directory, name, strlen(name));
    zip->n_entries++;
    (void)at;
    return zip->directory.failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

static espalier_status too_large(esi_zip_writer *zip)
{
    return esi_fail(zip->ctx, ESPALIER_ERR_RESOURCE, "%s: it needs more than the 4 GiB of a zip archive", zip->name);
}

espalier_status esi_zip_add(esi_zip_writer *zip, const char *name, const void *bytes, size_t size, int level, uint32_t align)
{
    const uint64_t offset = esi_writer_position(zip->out);
    const uint32_t crc = esi_crc32(0, bytes, size);
    uint8_t *packed = NULL;
    size_t stored = size;
    unsigned extra;
    espalier_status st = ESPALIER_OK;

    if (zip->n_entries >= 65534 || strlen(name) > 65535) return too_large(zip);
    if (level > 0) st = esi_compress(zip->ctx, &packed, &stored, bytes, size, ESI_COMPRESSION_DEFLATE, level);
    if (st != ESPALIER_OK) return st;
    extra = padding(offset + LOCAL_SIZE + strlen(name), align);
    if (offset + LOCAL_SIZE + strlen(name) + extra > UINT32_MAX || size > UINT32_MAX || stored > UINT32_MAX)
        st = too_large(zip);
    if (st == ESPALIER_OK) st = write_local(zip, name, packed != NULL, crc, stored, size, extra);
    if (st == ESPALIER_OK) st = esi_writer_write(zip->out, packed ? packed : bytes, stored);
    if (st == ESPALIER_OK) st = note_entry(zip, name, packed != NULL, crc, stored, size, offset);
    esi_free(zip->ctx, packed);
    return st;
}

espalier_status esi_zip_finish(esi_zip_writer *zip)
{
    const uint64_t at = esi_writer_position(zip->out);
    uint8_t end[END_SIZE] = {0}, *to = put32(end, 0x06054b50) + 4;
    espalier_status st;

    if (zip->directory.failed) return ESPALIER_ERR_RESOURCE;
    if (at + zip->directory.len > UINT32_MAX) return too_large(zip);
    to = put16(put16(to, (unsigned)zip->n_entries), (unsigned)zip->n_entries);
    (void)put32(put32(to, (uint32_t)zip->directory.len), (uint32_t)at);
    st = esi_writer_write(zip->out, zip->directory.data, zip->directory.len);
    return st == ESPALIER_OK ? esi_writer_write(zip->out, end, sizeof end) : st;
}

void esi_zip_writer_free(esi_zip_writer *zip)
{
    esi_text_free(zip->ctx, &zip->directory);
}
