/* SPDX-License-Identifier: MIT
 *
 * assimp_child.h: between the process that wants a mesh (assimp_read.c) and the one in which assimp works (assimp_child.c). What comes back
 * is a stream of plain values in native order:
 *
 *   u32 ESI_ASSIMP_MAGIC, i32 axis that is up in the file (0..2, -1 unknown)
 *   u32 number of textures; each u32 width, height (0: compressed bytes), u64 size, u32 length of its name; name; bytes (BGRA or a file)
 *   u32 number of materials; each an esi_assimp_material
 *   u32 number of meshes; each an esi_assimp_mesh; float positions[n][3], normals[n][3], uvs[n][2], colors[n][4] as flagged;
 *     i32 faces[m][3]
 *   u32 number of instances; each u32 mesh, 4 bytes of padding, double matrix[12] (rows of the upper 3x4)
 *   u32 ESI_ASSIMP_MAGIC
 */
#ifndef ESI_ASSIMP_CHILD_H
#define ESI_ASSIMP_CHILD_H

#include "base/surface.h"

#define ESI_ASSIMP_MAGIC 0x45534d31u
#define ESI_ASSIMP_MAX_NODES 1000000
#define ESI_ASSIMP_REFERENCE 1024

enum { ESI_ASSIMP_NORMALS = 1, ESI_ASSIMP_UVS = 2, ESI_ASSIMP_COLORS = 4 };
enum { ESI_ASSIMP_BASE, ESI_ASSIMP_NORMAL, ESI_ASSIMP_EMISSIVE, ESI_ASSIMP_PICTURES };

typedef struct esi_assimp_mesh {
    uint32_t n_vertices, n_faces, material, flags;
} esi_assimp_mesh;

typedef struct esi_assimp_material {
    esi_material values;           /* without textures */
    char pictures[ESI_ASSIMP_PICTURES][ESI_ASSIMP_REFERENCE];      /* path, or "*3": an embedded one; "" = none */
} esi_assimp_material;

typedef struct esi_assimp_instance {
    uint32_t mesh, unused;
    double matrix[12];
} esi_assimp_instance;

/* In the child: read the model (`bytes`, known as `name`; others from `directory`, NULL = none) and write the stream to `fd`. Returns the
 * exit status: 0, or 1 with a line of text on `fd` instead. Uses no context. */
int esi_assimp_child(int fd, const uint8_t *bytes, uint64_t size, const char *name, const char *directory, uint64_t max_file_bytes);

#endif
