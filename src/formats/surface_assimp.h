/* SPDX-License-Identifier: MIT
 *
 * surface_assimp.h: shared by the two files that look into an assimp scene.
 */
#ifndef ESI_SURFACE_ASSIMP_H
#define ESI_SURFACE_ASSIMP_H

#include "formats/mesh_files.h"

#include <assimp/scene.h>

/* All materials of the scene, in its order, with their pictures. */
espalier_status esi_assimp_materials(espalier_context *ctx, esi_surface *out, const struct aiScene *scene, const esi_mesh_file *file);

#endif
