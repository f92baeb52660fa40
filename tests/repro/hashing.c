/* SPDX-License-Identifier: MIT
 *
 * hashing.c: the networks run as they are; what they return is hashed (FNV-1a, 64 bits) on its way through the stage table.
 */
#include "hashing.h"

#include "base/context.h"
#include "pipeline/post.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const item_names[REPRO_ITEM_COUNT] = {"condition",   "structure",    "occupancy", "cells", "shape",   "texture",
                                                         "subdivision", "intersection", "vertices",  "faces", "material",
                                                         "finished",    "reference"};

static void hash_bytes(repro_hashes *h, repro_item item, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t v = h->value[item];
    for (size_t i = 0; i < size; i++) v = (v ^ p[i]) * UINT64_C(0x100000001b3);
    h->value[item] = v;
}

/* Row count first, so that two short arrays are not one long one. */
static void hash_rows(repro_hashes *h, repro_item item, const void *rows, int64_t count, size_t row_bytes)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)count >> (8 * i));
    hash_bytes(h, item, length, sizeof length);
    hash_bytes(h, item, rows, (size_t)count * row_bytes);
}

/* ------------------------------------------------------------- overhearing */

typedef struct listener {
    repro_hashes *hashes;
    const esi_stage_table *real;
} listener;

static espalier_status overhear_condition(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                          int side, esi_condition_view *out)
{
    listener *l = user;
    espalier_status st = l->real->image_condition(l->real->user, ctx, model, picture, side, out);
    if (st == ESPALIER_OK) hash_rows(l->hashes, REPRO_CONDITION, out->tokens, out->rows, (size_t)out->channels * sizeof(float));
    return st;
}

static espalier_status overhear_sample(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call,
                                       float *x)
{
    listener *l = user;
    bool structure = strcmp(call->stage, "structure") == 0, shape = strcmp(call->stage, "shape") == 0;
    espalier_status st = l->real->sample(l->real->user, ctx, model, call, x);
    if (st != ESPALIER_OK) return st;
    hash_rows(l->hashes,
              structure ? REPRO_STRUCTURE
              : shape   ? REPRO_SHAPE
                        : REPRO_TEXTURE,
              x, call->rows, (size_t)call->channels * sizeof(float));
    if (call->coords) hash_rows(l->hashes, REPRO_CELLS, call->coords, call->rows, 4 * sizeof(int32_t));
    return ESPALIER_OK;
}

static espalier_status overhear_structure(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                          float **logits, int64_t *side)
{
    listener *l = user;
    espalier_status st = l->real->decode_structure(l->real->user, ctx, model, latent, R, logits, side);
    if (st == ESPALIER_OK) hash_rows(l->hashes, REPRO_OCCUPANCY, *logits, *side * *side * *side, sizeof(float));
    return st;
}

static espalier_status overhear_upsample(void *user, espalier_context *ctx, const espalier_model *model, const float *features,
                                         const esi_coords *coords, esi_lineage *lineage)
{
    listener *l = user;
    espalier_status st = l->real->upsample(l->real->user, ctx, model, features, coords, lineage);
    if (st != ESPALIER_OK) return st;
    const esi_coords *fine = &lineage->level[lineage->levels - 1].coords;
    hash_rows(l->hashes, REPRO_CELLS, fine->rows, fine->count, 4 * sizeof(int32_t));
    return ESPALIER_OK;
}

static espalier_status overhear_decode(void *user, espalier_context *ctx, const espalier_model *model, bool texture, const float *features,
                                       const esi_coords *coords, esi_lineage *lineage, float **head, int64_t *rows)
{
    listener *l = user;
    if (!texture) l->hashes->tokens = coords->count;
    return l->real->decode_latent(l->real->user, ctx, model, texture, features, coords, lineage, head, rows);
}

/* ------------------------------------------------------------- a run */

static void hash_asset(repro_hashes *h, const espalier_asset *asset)
{
    espalier_asset_view v = espalier_asset_get(asset);
    for (int i = 0; i < asset->data.n_levels; i++) {
        const esi_asset_level *level = &asset->data.levels[i];
        hash_rows(h, REPRO_SUBDIVISION, level->coords, level->count, 4 * sizeof(int32_t));
        hash_rows(h, REPRO_SUBDIVISION, level->logits, level->count, 8 * sizeof(float));
    }
    hash_rows(h, REPRO_CELLS, v.voxels, v.vertex_count, 4 * sizeof(int32_t));
    hash_rows(h, REPRO_INTERSECTION, asset->data.intersect_logits, v.vertex_count, 3 * sizeof(float));
    hash_rows(h, REPRO_VERTICES, v.vertices, v.vertex_count, 3 * sizeof(float));
    hash_rows(h, REPRO_FACES, v.faces, v.face_count, 3 * sizeof(int32_t));
    hash_rows(h, REPRO_MATERIAL, v.attributes, v.vertex_count, 6 * sizeof(float));
    h->voxels = v.vertex_count;
    h->faces = v.face_count;
    h->resolution = v.resolution;
}

/* Small enough for an emulator, large enough for every step to have work. */
static espalier_status hash_finished(espalier_context *ctx, repro_hashes *h, const espalier_asset *asset)
{
    static const repro_item items[] = {REPRO_FINISHED, REPRO_REFERENCE};
    espalier_status st = ESPALIER_OK;

    for (int mode = 0; st == ESPALIER_OK && mode < 2; mode++) {
        espalier_post_options o = espalier_post_options_default();
        espalier_mesh *mesh = NULL;

        o.mode = (espalier_post_mode)mode;
        o.faces = 2000;
        o.texture_size = 128;
        o.force = 1;
        st = espalier_post(ctx, &mesh, asset, &o);
        if (st != ESPALIER_OK) break;
        const esi_surface *s = &mesh->surface;
        hash_rows(h, items[mode], s->mesh.vertices, s->mesh.n_vertices, 3 * sizeof(float));
        hash_rows(h, items[mode], s->mesh.faces, s->mesh.n_faces, 3 * sizeof(int32_t));
        hash_rows(h, items[mode], s->normals, s->mesh.n_vertices, 3 * sizeof(float));
        hash_rows(h, items[mode], s->uvs, s->mesh.n_vertices, 2 * sizeof(float));
        for (int32_t i = 0; i < s->n_textures; i++) {
            const esi_texture *t = &s->textures[i];
            hash_rows(h, items[mode], t->pixels, (int64_t)t->width * t->height, t->channels);
        }
        espalier_mesh_free(mesh);
    }
    return st;
}

espalier_status repro_run(espalier_context *ctx, repro_hashes *out, const espalier_model *model, const espalier_image *picture,
                          espalier_pipeline_type type, int steps)
{
    espalier_generate_params p = espalier_generate_params_default(model);
    listener l = {out, esi_stages(ctx)};
    esi_stage_table table = *l.real;
    espalier_asset *asset = NULL;

    memset(out, 0, sizeof *out);
    for (int i = 0; i < REPRO_ITEM_COUNT; i++) out->value[i] = UINT64_C(0xcbf29ce484222325);
    p.pipeline = type;
    p.force = 1;
    if (steps > 0) p.structure.steps = p.shape.steps = p.texture.steps = steps;
    table.user = &l;
    table.image_condition = overhear_condition;
    table.sample = overhear_sample;
    table.decode_structure = overhear_structure;
    table.upsample = overhear_upsample;
    table.decode_latent = overhear_decode;

    ctx->stages = &table;
    espalier_status st = espalier_generate(ctx, &asset, model, picture, NULL, "picture", &p);
    ctx->stages = NULL;
    if (st != ESPALIER_OK) return st;
    hash_asset(out, asset);
    if (out->faces > 0) st = hash_finished(ctx, out, asset);
    espalier_asset_free(asset);
    if (st != ESPALIER_OK) return st;
    return out->faces > 0 ? ESPALIER_OK : esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "no faces: this run compares nothing");
}

bool repro_equal(const repro_hashes *a, const repro_hashes *b)
{
    return memcmp(a->value, b->value, sizeof a->value) == 0 && a->tokens == b->tokens && a->voxels == b->voxels && a->faces == b->faces &&
           a->resolution == b->resolution;
}

void repro_print(const repro_hashes *h, espalier_pipeline_type type)
{
    printf("%s resolution=%" PRId64 " tokens=%" PRId64 " voxels=%" PRId64 " faces=%" PRId64, espalier_pipeline_name(type), h->resolution,
           h->tokens, h->voxels, h->faces);
    for (int i = 0; i < REPRO_ITEM_COUNT; i++) printf(" %s=%016" PRIx64, item_names[i], h->value[i]);
}

/* ------------------------------------------------------------- picture */

espalier_status repro_picture(espalier_context *ctx, espalier_image *out)
{
    const int width = 120, height = 90, cx = 58, cy = 47, a = 44, b = 33;
    espalier_status st = espalier_image_create(ctx, out, (uint32_t)width, (uint32_t)height, 4);
    if (st != ESPALIER_OK) return st;

    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            uint8_t *p = out->pixels + 4 * (y * width + x);
            int inside = a * a * b * b - ((x - cx) * (x - cx) * b * b + (y - cy) * (y - cy) * a * a);
            p[0] = (uint8_t)(x * 2);
            p[1] = (uint8_t)((x + y) % 12 < 6 ? 200 : 40);
            p[2] = (uint8_t)(255 - y * 2);
            p[3] = (uint8_t)(inside <= 0 ? 0 : inside < 300000 ? inside / 1200 : 255);
        }
    }
    return ESPALIER_OK;
}
