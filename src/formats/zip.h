/* SPDX-License-Identifier: MIT
 *
 * zip.h: zip archives (PKWARE APPNOTE), stored and deflated, below 4 GiB, for .npz, .3mf and .usdz.
 */
#ifndef ESI_ZIP_H
#define ESI_ZIP_H

#include "base/base.h"

/* --------------------------------------------------------------- reading */

typedef struct esi_zip_entry {
    const char *name;              /* not terminated */
    size_t name_len;
    const uint8_t *bytes;          /* as stored */
    uint64_t stored, size;         /* bytes stored and expanded */
    uint32_t crc;
    bool deflated;
} esi_zip_entry;

typedef struct esi_zip {
    const char *name;              /* of the archive, for messages */
    esi_zip_entry *entries;        /* in the order of the directory */
    size_t n_entries;
} esi_zip;

/* Reads the directory; the bytes must outlive the archive. ERR_INPUT: no archive, damaged, encrypted, zip64, methods of later years. */
espalier_status esi_zip_open(espalier_context *ctx, esi_zip *zip, const void *bytes, uint64_t size, const char *name);
void esi_zip_close(espalier_context *ctx, esi_zip *zip);
const esi_zip_entry *esi_zip_find(const esi_zip *zip, const char *entry);         /* the first of that name, or NULL */
/* An esi_alloc block with a NUL behind it that is not counted; checked against the CRC. ERR_RESOURCE beyond `limit`. */
espalier_status esi_zip_extract(espalier_context *ctx, const esi_zip *zip, const esi_zip_entry *entry, uint8_t **out, size_t *size,
                                uint64_t limit);

/* --------------------------------------------------------------- writing */

typedef struct esi_zip_writer {
    espalier_context *ctx;
    const char *name;              /* of the archive, for messages */
    esi_writer *out;
    esi_text directory;
    size_t n_entries;
} esi_zip_writer;

/* Zero-initialise with ctx, name and out. level 0 = stored; align: the entry's bytes begin at a multiple of it (0 = anywhere). Entries bear
 * the date 1980-01-01, so that the same contents give the same bytes. ERR_RESOURCE beyond 4 GiB or 65,534 entries. */
espalier_status esi_zip_add(esi_zip_writer *zip, const char *name, const void *bytes, size_t size, int level, uint32_t align);
/* Writes the directory; `out` stays open. */
espalier_status esi_zip_finish(esi_zip_writer *zip);
void esi_zip_writer_free(esi_zip_writer *zip);

#endif
