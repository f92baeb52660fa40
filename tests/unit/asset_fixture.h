/* SPDX-License-Identifier: MIT
 *
 * asset_fixture.h: a small raw asset with everything an asset can have.
 */
#ifndef ASSET_FIXTURE_H
#define ASSET_FIXTURE_H

#include "support.h"

#include "formats/asset.h"

#define FIXTURE_VOXELS 6
#define FIXTURE_FACES 3

typedef struct asset_fixture {
    float vertices[FIXTURE_VOXELS][3];
    int32_t faces[FIXTURE_FACES][3];
    int32_t coords[FIXTURE_VOXELS][4];
    float attrs[FIXTURE_VOXELS][6];
    float local[FIXTURE_VOXELS][3], logits[FIXTURE_VOXELS][3], split[FIXTURE_VOXELS];
    int32_t parents[2][2][4];
    float decisions[2][2][8];
    const char *extras[5];
    esi_asset asset;
} asset_fixture;

/* Voxel 0 is not used by any face. */
static inline void asset_fixture_init(asset_fixture *f)
{
    static const float attrs[FIXTURE_VOXELS][6] = {{0.9f, 0.9f, 0.9f, 1.0f, 1.0f, 0.0f}, {0.0f, 1.0f, 0.5f, 0.25f, 0.75f, 1.0f},
                                                   {-0.5f, 1.5f, 0.04045f, 0.25f, 0.75f, 2.0f}, {0.2f, 0.4f, 0.6f, 0.5f, 0.5f, 0.5f},
                                                   {0.1f, 0.3f, 0.7f, -1.0f, 9.0f, 1.0f}, {1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 1.0f}};
    static const int32_t faces[FIXTURE_FACES][3] = {{1, 2, 3}, {3, 2, 5}, {5, 4, 1}};

    memset(f, 0, sizeof *f);
    memcpy(f->attrs, attrs, sizeof attrs);
    memcpy(f->faces, faces, sizeof faces);
    for (int i = 0; i < FIXTURE_VOXELS; i++) {
        f->coords[i][1] = i;
        f->coords[i][2] = 2 * i % 5;
        f->coords[i][3] = 7 - i;
        for (int a = 0; a < 3; a++) {
            f->local[i][a] = 0.125f * (float)(i + a) - 0.25f;
            f->logits[i][a] = (float)(a - 1) * 0.5f + (float)i * 1e-3f;
            f->vertices[i][a] = ((float)f->coords[i][1 + a] + f->local[i][a]) * 0.125f - 0.5f;
        }
        f->split[i] = 0.5f + (float)i;
    }
    for (int level = 0; level < 2; level++) {
        for (int n = 0; n < 2; n++) {
            f->parents[level][n][1] = n * (level + 1);
            f->parents[level][n][3] = 1;
            for (int k = 0; k < 8; k++) f->decisions[level][n][k] = (float)(k - 3) + 0.1f * (float)n;
        }
        f->asset.levels[level] = (esi_asset_level){f->parents[level][0], f->decisions[level][0], 2};
    }
    f->extras[0] = "matte";
    f->extras[1] = "alpha";
    f->extras[2] = "note \"x\"";
    f->extras[3] = "gr\xc3\xbc\xc3\x9f\x65";
    f->asset.n_vertices = FIXTURE_VOXELS;
    f->asset.n_voxels = FIXTURE_VOXELS;
    f->asset.n_faces = FIXTURE_FACES;
    f->asset.vertices = f->vertices[0];
    f->asset.faces = f->faces[0];
    f->asset.coords = f->coords[0];
    f->asset.attrs = f->attrs[0];
    f->asset.local = f->local[0];
    f->asset.intersect_logits = f->logits[0];
    f->asset.split_weight = f->split;
    f->asset.n_levels = 2;
    f->asset.resolution = 8;
    f->asset.seed = -42;
    f->asset.pipeline_type = "512";
    f->asset.extras = f->extras;
}

/* A whole file; free(). */
static inline uint8_t *test_read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long end;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    end = ftell(file);
    assert_true(end >= 0);
    rewind(file);
    bytes = malloc((size_t)end + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)end, file), end);
    fclose(file);
    *size = (size_t)end;
    return bytes;
}

#endif
