/* SPDX-License-Identifier: MIT
 *
 * matting_files.h: where the weights of the matting networks lie: beside the TRELLIS.2 files under the names that people have them. Looks
 * at names only.
 */
#ifndef ESI_MATTING_FILES_H
#define ESI_MATTING_FILES_H

#include "base/base.h"

#include <espalier/matte.h>

/* The networks, best first: ESPALIER_MATTE_BIREFNET, ISNET, U2NET, U2NETP. */
#define ESI_MATTING_NETWORKS 4
extern const espalier_matte esi_matting_networks[ESI_MATTING_NETWORKS];

/* *path (in the arena) = the weights of `network` in the first of the directories (NULL-terminated; may be NULL) that has them, or NULL. */
espalier_status esi_matting_file_find(espalier_context *ctx, esi_arena *arena, const char **path, const char *const *directories,
                                      espalier_matte network);
/* "birefnet.gguf or BiRefNet/model.safetensors": what to add, for messages. */
const char *esi_matting_file_wanted(espalier_matte network);

#endif
