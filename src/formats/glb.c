/* SPDX-License-Identifier: MIT
 *
 * glb.c: raw assets as binary glTF: the mesh with one colour per vertex, through gltf_write.c.
 */
#include "formats/glb.h"

#include "base/srgb.h"
#include "formats/bytes.h"
#include "formats/gltf_write.h"

typedef struct glb {
    const esi_asset *asset;
    int32_t *number;                             /* [n_vertices] in the file, or -1; later the vertex of each number, see turn_around() */
    int64_t n_used;
    float min[3], max[3];                        /* of the rotated positions */
    double metallic, roughness;
} glb;

/* 65535 is kept free: glTF reserves the largest index of a type. */
static bool short_indices(uint64_t vertices)
{
    return vertices <= 65535;
}

uint64_t esi_glb_binary_size(uint64_t vertices, uint64_t faces, bool with_colors)
{
    const uint64_t indices = 3 * faces * (short_indices(vertices) ? 2 : 4);

    return ((indices + 3) & ~UINT64_C(3)) + vertices * 12 + (with_colors ? vertices * 8 : 0);
}

/* TRELLIS is z up, glTF y up. 0 - y instead of -y: no negative zeros. */
static void rotate(float out[3], const float *v)
{
    out[0] = v[0] + 0.0f;
    out[1] = v[2] + 0.0f;
    out[2] = 0.0f - v[1];
}

static float clamp01(float v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}

static unsigned linear16(float v)
{
    return (unsigned)(esi_srgb_decode((double)clamp01(v)) * 65535.0 + 0.5);
}

/* ---------------------------------------------------------------- measuring */

static espalier_status number_vertices(espalier_context *ctx, glb *g)
{
    const esi_asset *a = g->asset;

    g->number = esi_alloc(ctx, (size_t)a->n_vertices, sizeof *g->number, "GLB vertex numbers");
    if (!g->number) return ESPALIER_ERR_RESOURCE;
    for (int64_t v = 0; v < a->n_vertices; v++) g->number[v] = -1;
    for (int64_t i = 0; i < 3 * a->n_faces; i++) g->number[a->faces[i]] = 0;
    for (int64_t v = 0; v < a->n_vertices; v++) {
        if (g->number[v] == 0) g->number[v] = (int32_t)g->n_used++;
    }
    return ESPALIER_OK;
}

static void measure(glb *g)
{
    const esi_asset *a = g->asset;
    double metallic = 0.0, roughness = 0.0;

    for (int64_t v = 0; v < a->n_vertices; v++) {
        float p[3];

        if (g->number[v] < 0) continue;
        rotate(p, a->vertices + 3 * v);
        for (int i = 0; i < 3; i++) {
            if (g->number[v] == 0 || p[i] < g->min[i]) g->min[i] = p[i];
            if (g->number[v] == 0 || p[i] > g->max[i]) g->max[i] = p[i];
        }
        if (!a->attrs) continue;
        metallic += (double)clamp01(a->attrs[6 * v + 3]);
        roughness += (double)clamp01(a->attrs[6 * v + 4]);
    }
    /* Without attributes: plain matte. Six digits are plenty for a factor and keep the JSON readable. */
    g->metallic = a->attrs ? esi_floor(metallic / (double)g->n_used * 1e6 + 0.5) / 1e6 : 0.0;
    g->roughness = a->attrs ? esi_floor(roughness / (double)g->n_used * 1e6 + 0.5) / 1e6 : 1.0;
}

/* ------------------------------------------------------------------- arrays */

static void fill_indices(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const glb *g = source;

    for (int64_t i = first; i < first + count; i++, out += array->size) {
        const uint32_t index = (uint32_t)g->number[g->asset->faces[i]];

        for (uint32_t b = 0; b < array->size; b++) out[b] = (uint8_t)(index >> (8 * b));
    }
}

/* Once the indices are written, `number` becomes its inverse in place: numbers ascend with vertices, so number k comes from a vertex
 * >= k. */
static void turn_around(void *source)
{
    glb *g = source;

    for (int64_t v = 0; v < g->asset->n_vertices; v++) {
        if (g->number[v] >= 0) g->number[g->number[v]] = (int32_t)v;
    }
}

static void fill_positions(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const glb *g = source;

    (void)array;
    for (int64_t i = first; i < first + count; i++) {
        float p[3];

        rotate(p, g->asset->vertices + 3 * (int64_t)g->number[i]);
        for (int k = 0; k < 3; k++, out += 4) esi_store_f32le(out, p[k]);
    }
}

static void fill_colors(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const glb *g = source;

    (void)array;
    for (int64_t i = first; i < first + count; i++) {
        const float *a = g->asset->attrs + 6 * (int64_t)g->number[i];
        /* alpha is coverage, not light: no decoding */
        const unsigned c[4] = {linear16(a[0]), linear16(a[1]), linear16(a[2]), (unsigned)((double)clamp01(a[5]) * 65535.0 + 0.5)};

        for (int k = 0; k < 4; k++, out += 2) {
            out[0] = (uint8_t)c[k];
            out[1] = (uint8_t)(c[k] >> 8);
        }
    }
}

/* ------------------------------------------------------------------ document */

static espalier_status build_extras(espalier_context *ctx, esi_text *t, const esi_asset *a)
{
    esi_text_append(ctx, t, "{\"seed\":%lld,\"resolution\":%lld,\"arithmetic\":%d", (long long)a->seed, (long long)a->resolution,
                    ESPALIER_ARITHMETIC_VERSION);
    if (a->pipeline_type) {
        esi_text_append(ctx, t, ",\"pipeline\":");
        esi_text_append_json_string(ctx, t, a->pipeline_type);
    }
    for (size_t i = 0; a->extras && a->extras[i] && a->extras[i + 1]; i += 2) {
        esi_text_append(ctx, t, ",");
        esi_text_append_json_string(ctx, t, a->extras[i]);
        esi_text_append(ctx, t, ":");
        esi_text_append_json_string(ctx, t, a->extras[i + 1]);
    }
    esi_text_append_bytes(ctx, t, "}", 2);       /* with its NUL */
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

/* Only what goes into the file is looked at. */
static espalier_status check_asset(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    const esi_asset mesh = {.n_vertices = asset->n_vertices, .n_faces = asset->n_faces, .n_voxels = asset->n_voxels,
                            .vertices = asset->vertices, .faces = asset->faces, .attrs = asset->attrs, .resolution = asset->resolution};

    if (asset->n_faces == 0) return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: the mesh has no faces", path);
    if (asset->attrs && asset->n_voxels != asset->n_vertices) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: %lld vertices, but attributes for %lld", path, (long long)asset->n_vertices,
                        (long long)asset->n_voxels);
    }
    return esi_asset_check(ctx, &mesh, path, ESPALIER_ERR_INTERNAL);
}

espalier_status esi_glb_write(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    glb g = {.asset = asset};
    esi_file_set files = {.ctx = ctx};
    esi_text extras = {0};
    esi_material material = esi_material_default();
    espalier_status st = check_asset(ctx, asset, path);

    if (st == ESPALIER_OK) st = number_vertices(ctx, &g);
    if (st != ESPALIER_OK) goto done;
    measure(&g);
    material.metallic = (float)g.metallic;
    material.roughness = (float)g.roughness;
    material.double_sided = true;                /* the winding of a raw dual-grid mesh is not consistent */
    const bool small = short_indices((uint64_t)g.n_used);
    const esi_gltf_array arrays[3] = {
        {.component = small ? ESI_GLTF_U16 : ESI_GLTF_U32, .type = "SCALAR", .size = small ? 2 : 4, .count = 3 * asset->n_faces,
         .fill = fill_indices},
        {.attribute = "POSITION", .component = ESI_GLTF_F32, .type = "VEC3", .size = 12, .count = g.n_used, .bounds = true,
         .min = {g.min[0], g.min[1], g.min[2]}, .max = {g.max[0], g.max[1], g.max[2]}, .fill = fill_positions, .begin = turn_around},
        {.attribute = "COLOR_0", .component = ESI_GLTF_U16, .type = "VEC4", .normalized = true, .size = 8, .count = g.n_used,
         .fill = fill_colors},
    };
    st = build_extras(ctx, &extras, asset);
    if (st != ESPALIER_OK) goto done;
    const esi_gltf document = {.ctx = ctx, .path = path, .generator = esi_asset_generator(asset), .extras = extras.data, .arrays = arrays,
                               .n_arrays = asset->attrs ? 3 : 2, .n_primitives = 1, .source = &g, .materials = &material, .n_materials = 1};
    st = esi_gltf_write(&document, &files, true);
done:
    esi_file_set_free(&files);
    esi_free(ctx, g.number);
    esi_text_free(ctx, &extras);
    return st;
}
