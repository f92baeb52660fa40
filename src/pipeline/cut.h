/* SPDX-License-Identifier: MIT
 *
 * cut.h: insides of espalier_matting, and cutting out as the preprocessing needs it.
 */
#ifndef ESI_CUT_H
#define ESI_CUT_H

#include "formats/json_write.h"
#include "formats/preprocess.h"
#include "pipeline/matting.h"

struct espalier_matting {
    espalier_context *owner; /* pays for everything below */
    espalier_matte matte;
    bool over_alpha, keep_largest;
    esi_arena arena;           /* paths */
    const char *directory;     /* the first one that was looked in, or NULL */
    const char *network_file;  /* what will be opened; NULL: nothing was found */
    espalier_matte wanted;     /* the network that network_file must hold; AUTO: any */
    esi_matting *network;      /* NULL until a picture needs it */
};

/* One picture's cutting out. Zero but for `matting`, which may be NULL (the picture must have transparency), and `name`. */
typedef struct esi_cut {
    espalier_matting *matting;
    const char *name;
    espalier_matte_stats stats;
} esi_cut;
/* How this picture's alpha comes about: decided, logged, and the network opened. *source then goes with the picture to
 * esi_matte_picture() or esi_preprocess(), which fill cut->stats; both outlive that call. */
espalier_status esi_cut_begin(espalier_context *ctx, esi_cut *cut, esi_matte_source *source, const espalier_image *picture);

/* ------------------------------------------------------------- cut_report.c */

/* Finds what is suspicious, sets stats->warnings and says each with its numbers. */
void esi_cut_warn(espalier_context *ctx, espalier_matte_stats *stats, const char *name);
/* The object `key` of a report. `file` stands for stats->network_file, which may be gone. */
void esi_put_matte(esi_json_writer *w, const char *key, const espalier_matte_stats *stats, const char *file);

#endif
