/* SPDX-License-Identifier: MIT
 *
 * espalier/matte.h: cutting an object out of a picture: by the alpha that the picture has, by a matting network, or by a white backdrop
 * when that is asked for. Nothing is guessed: what was chosen and why is told, and so is a matte that looks wrong.
 *
 *     espalier_matting_options options = espalier_matting_options_default();
 *     const char *directories[] = {"models", NULL};
 *     options.directories = directories;
 *     espalier_matting_create(ctx, &matting, &options);
 *     espalier_matting_cut(ctx, matting, &cut, NULL, NULL, &picture, "photo.jpg");     as often as there are pictures
 *     espalier_matting_free(matting);
 */
#ifndef ESPALIER_MATTE_H
#define ESPALIER_MATTE_H

#include <espalier/image.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the alpha of a picture comes from. A picture "has transparency" when some alpha value is not 255, as in TRELLIS.2. */
typedef enum espalier_matte {
    ESPALIER_MATTE_ALPHA = 0,        /* the picture must have transparency; refused otherwise */
    ESPALIER_MATTE_NONE = 1,         /* the picture is taken whole */
    ESPALIER_MATTE_AUTO = 2,         /* the first of BIREFNET, ISNET, U2NET, U2NETP whose file is there; refused when there is none */
    ESPALIER_MATTE_BIREFNET = 3,
    ESPALIER_MATTE_ISNET = 4,
    ESPALIER_MATTE_U2NET = 5,
    ESPALIER_MATTE_U2NETP = 6,
    ESPALIER_MATTE_THRESHOLD = 7     /* clear what is white (232 and more in all channels) and connected to the border */
} espalier_matte;
ESPALIER_API const char *espalier_matte_name(espalier_matte matte);                      /* "alpha", "birefnet", ...; "?" if unknown */
ESPALIER_API espalier_status espalier_matte_parse(espalier_matte *out, const char *name);   /* ERR_ARG if unknown */

typedef struct espalier_matting_options {
    uint32_t struct_size;
    espalier_matte matte;                /* default AUTO. Alpha that a picture has wins over all of them, unless over_alpha is set */
    const char *const *directories;      /* where networks are looked for (docs/matting.md), NULL-terminated; may be NULL */
    const char *network_file;            /* this file instead of what is found; it must hold the network asked for; may be NULL */
    int32_t over_alpha;                  /* 1: as if the picture had no transparency */
    int32_t keep_largest;                /* 1: only the largest connected part of the matte */
} espalier_matting_options;
ESPALIER_API espalier_matting_options espalier_matting_options_default(void);

/* A way of cutting out with its network, which is opened once for any number of pictures, and paid for by itself. Used by one thread at a
 * time; the runtime of ctx must outlive it, ctx need not. */
typedef struct espalier_matting espalier_matting;
/* options may be NULL (the defaults). A network that is asked for by name or file is opened here, that of AUTO when a picture needs it.
 * ERR_ARG: options that contradict each other; ERR_MODEL: the file is missing, damaged, or holds another network. */
ESPALIER_API espalier_status espalier_matting_create(espalier_context *ctx, espalier_matting **out,
                                                     const espalier_matting_options *options);
ESPALIER_API void espalier_matting_free(espalier_matting *matting);

/* What makes a matte suspicious. Each is also told as a warning in the log, with its number; none about a picture that is taken whole. */
typedef enum espalier_matte_warning {
    ESPALIER_MATTE_COVERS_MOST    = 1,   /* coverage over 0.9 */
    ESPALIER_MATTE_COVERS_LITTLE  = 2,   /* coverage under 0.01 */
    ESPALIER_MATTE_TOUCHES_BORDER = 4,   /* border over 0.25 */
    ESPALIER_MATTE_INVERTED       = 8,   /* border over 0.5 and centre under 0.5 */
    ESPALIER_MATTE_SEVERAL_PARTS  = 16,  /* large_parts over 1; all are kept */
    ESPALIER_MATTE_SOFT           = 32   /* soft over 0.2 */
} espalier_matte_warning;
/* "covers_most", ... of a single warning; "?" if unknown. */
ESPALIER_API const char *espalier_matte_warning_name(espalier_matte_warning warning);

/* The matte in numbers; shares are 0..1. A pixel belongs to the matte from alpha 128 on. */
typedef struct espalier_matte_stats {
    uint32_t struct_size;
    espalier_matte used;                 /* ALPHA, NONE, THRESHOLD or a network; never AUTO */
    const char *network_file;            /* of a network; lives as long as the matting. Else NULL */
    const char *reason;                  /* why this one: constant text */
    double coverage;                     /* of the frame */
    double border;                       /* of the outermost pixels */
    double centre;                       /* of the middle half in both directions */
    double soft;                         /* pixels with alpha 26..229 among those with 26..255 */
    int64_t parts;                       /* sets of pixels of the matte that touch each other by a side or corner */
    int64_t large_parts;                 /* those of at least a tenth of the largest one's pixels */
    double largest_part;                 /* share of the matte */
    int64_t dropped_parts;               /* by keep_largest; the numbers above are those of the rest */
    double dropped;                      /* share of the matte before */
    uint32_t warnings;                   /* espalier_matte_warning, or-ed */
} espalier_matte_stats;
ESPALIER_API espalier_matte_stats espalier_matte_stats_default(void);

/* *cut = the picture (RGB or RGBA) at its own size with the matte as alpha, colours unchanged; *mask = the matte alone, 1 channel. Either
 * may be NULL; both are released with espalier_image_free(). stats, which may be NULL, is made by ..._default(). name is for messages, may
 * be NULL.
 * ERR_INPUT: no transparency and nothing to cut the object out with, no white backdrop (THRESHOLD), or no pixel with alpha above 204;
 * ERR_MODEL: the network's file is damaged or its weights give no numbers; ERR_DEVICE. */
ESPALIER_API espalier_status espalier_matting_cut(espalier_context *ctx, espalier_matting *matting, espalier_image *cut,
                                                  espalier_image *mask, espalier_matte_stats *stats, const espalier_image *picture,
                                                  const char *name);

#ifdef __cplusplus
}
#endif
#endif
