/* SPDX-License-Identifier: MIT
 *
 * glb.c: binary glTF 2.0 (Khronos glTF-2.0 specification, section 4 "GLB File Format Specification"), core only. One buffer: indices,
 * positions, colours. The file is streamed: besides the table from old to new vertex numbers nothing of its size is held in memory.
 */
#include "formats/glb.h"

#include "base/math64.h"
#include "formats/bytes.h"

#define GLB_MAGIC 0x46546c67u                    /* "glTF" */
#define CHUNK_JSON 0x4e4f534au
#define CHUNK_BINARY 0x004e4942u
#define HEADER_BYTES (12 + 8 + 8)                /* file header and two chunk headers */

#define TYPE_U16 5123
#define TYPE_U32 5125
#define BLOCK 65536                              /* vertices (or indices) converted at once */
#define TASK 4096                                /* of those, by one task */

typedef struct glb {
    const esi_asset *asset;
    int32_t *number;                             /* [n_vertices] in the file, or -1 */
    int64_t n_used;
    float min[3], max[3];                        /* of the rotated positions */
    double metallic, roughness;
    uint64_t index_bytes, position_bytes, color_bytes;       /* lengths of the views; index_bytes without padding */
    uint8_t *block;                              /* BLOCK * 12 bytes of output */
} glb;

/* 65535 is kept free: glTF reserves the largest index of a type. */
static bool short_indices(uint64_t vertices)
{
    return vertices <= 65535;
}

static uint64_t index_size(uint64_t vertices, uint64_t faces)
{
    return 3 * faces * (short_indices(vertices) ? 2 : 4);
}

static uint64_t pad4(uint64_t n)
{
    return (n + 3) & ~UINT64_C(3);
}

uint64_t esi_glb_binary_size(uint64_t vertices, uint64_t faces, bool with_colors)
{
    return pad4(index_size(vertices, faces)) + vertices * 12 + (with_colors ? vertices * 8 : 0);
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

/* sRGB decoding (IEC 61966-2-1) of a clamped value to 16 bits. */
static unsigned linear16(float v)
{
    const double c = (double)clamp01(v);
    const double linear = c <= 0.04045 ? c / 12.92 : esi_pow((c + 0.055) / 1.055, 2.4);

    return (unsigned)(linear * 65535.0 + 0.5);
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
    g->index_bytes = index_size((uint64_t)g->n_used, (uint64_t)a->n_faces);
    g->position_bytes = (uint64_t)g->n_used * 12;
    g->color_bytes = a->attrs ? (uint64_t)g->n_used * 8 : 0;
}

/* --------------------------------------------------------------------- JSON */

static void append_extras(espalier_context *ctx, esi_text *t, const esi_asset *a)
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
    esi_text_append(ctx, t, "}");
}

static void append_vector(espalier_context *ctx, esi_text *t, const float v[3])
{
    for (int i = 0; i < 3; i++) {
        esi_text_append(ctx, t, i ? "," : "[");
        esi_text_append_json_number(ctx, t, (double)v[i]);       /* exact: a float is a double, and reads back as the same float */
    }
    esi_text_append(ctx, t, "]");
}

static void append_views(espalier_context *ctx, esi_text *t, const glb *g)
{
    const uint64_t positions = pad4(g->index_bytes), colors = positions + g->position_bytes;

    esi_text_append(ctx, t, "\"buffers\":[{\"byteLength\":%llu}],\"bufferViews\":["
                    "{\"buffer\":0,\"byteOffset\":0,\"byteLength\":%llu,\"target\":34963},"
                    "{\"buffer\":0,\"byteOffset\":%llu,\"byteLength\":%llu,\"target\":34962}",
                    (unsigned long long)(colors + g->color_bytes), (unsigned long long)g->index_bytes, (unsigned long long)positions,
                    (unsigned long long)g->position_bytes);
    if (g->color_bytes > 0) {
        esi_text_append(ctx, t, ",{\"buffer\":0,\"byteOffset\":%llu,\"byteLength\":%llu,\"target\":34962}", (unsigned long long)colors,
                        (unsigned long long)g->color_bytes);
    }
    esi_text_append(ctx, t, "],\"accessors\":["
                    "{\"bufferView\":0,\"componentType\":%d,\"count\":%lld,\"type\":\"SCALAR\"},"
                    "{\"bufferView\":1,\"componentType\":5126,\"count\":%lld,\"type\":\"VEC3\",\"min\":",
                    short_indices((uint64_t)g->n_used) ? TYPE_U16 : TYPE_U32, (long long)(3 * g->asset->n_faces), (long long)g->n_used);
    append_vector(ctx, t, g->min);
    esi_text_append(ctx, t, ",\"max\":");
    append_vector(ctx, t, g->max);
    esi_text_append(ctx, t, "}");
    if (g->color_bytes > 0) {
        esi_text_append(ctx, t, ",{\"bufferView\":2,\"componentType\":%d,\"normalized\":true,\"count\":%lld,\"type\":\"VEC4\"}", TYPE_U16,
                        (long long)g->n_used);
    }
    esi_text_append(ctx, t, "]");
}

/* Double-sided, because the winding of a raw dual-grid mesh is not consistent. */
static espalier_status build_json(espalier_context *ctx, esi_text *t, const glb *g)
{
    esi_text_append(ctx, t, "{\"asset\":{\"version\":\"2.0\",\"generator\":");
    esi_text_append_json_string(ctx, t, esi_asset_generator(g->asset));
    esi_text_append(ctx, t, ",\"extras\":");
    append_extras(ctx, t, g->asset);
    esi_text_append(ctx, t, "},\"scene\":0,\"scenes\":[{\"nodes\":[0]}],\"nodes\":[{\"mesh\":0}],"
                    "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":1%s},\"indices\":0,\"material\":0}]}],"
                    "\"materials\":[{\"pbrMetallicRoughness\":{\"metallicFactor\":", g->color_bytes > 0 ? ",\"COLOR_0\":2" : "");
    esi_text_append_json_number(ctx, t, g->metallic);
    esi_text_append(ctx, t, ",\"roughnessFactor\":");
    esi_text_append_json_number(ctx, t, g->roughness);
    esi_text_append(ctx, t, "},\"alphaMode\":\"OPAQUE\",\"doubleSided\":true}],");
    append_views(ctx, t, g);
    esi_text_append(ctx, t, "}");
    while (!t->failed && t->len % 4 != 0) esi_text_append(ctx, t, " ");
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

/* ------------------------------------------------------------------- binary */

static espalier_status write_indices(esi_writer *w, const glb *g)
{
    const int64_t count = 3 * g->asset->n_faces;
    const int size = short_indices((uint64_t)g->n_used) ? 2 : 4;
    espalier_status st = ESPALIER_OK;

    for (int64_t begin = 0; st == ESPALIER_OK && begin < count; begin += BLOCK) {
        const int64_t end = ESI_MIN(begin + BLOCK, count);
        uint8_t *out = g->block;

        for (int64_t i = begin; i < end; i++, out += size) {
            const uint32_t index = (uint32_t)g->number[g->asset->faces[i]];

            if (size == 4) {
                esi_store_u32le(out, index);
            } else {
                out[0] = (uint8_t)index;
                out[1] = (uint8_t)(index >> 8);
            }
        }
        st = esi_writer_write(w, g->block, (size_t)(out - g->block));
    }
    if (st == ESPALIER_OK) st = esi_writer_zeros(w, (size_t)(pad4(g->index_bytes) - g->index_bytes));
    return st;
}

static void store_position(const glb *g, int64_t v, uint8_t *out)
{
    float p[3];

    rotate(p, g->asset->vertices + 3 * v);
    for (int i = 0; i < 3; i++) esi_store_f32le(out + 4 * i, p[i]);
}

static void store_color(const glb *g, int64_t v, uint8_t *out)
{
    const float *a = g->asset->attrs + 6 * v;
    unsigned c[4];

    for (int i = 0; i < 3; i++) c[i] = linear16(a[i]);
    c[3] = (unsigned)((double)clamp01(a[5]) * 65535.0 + 0.5);           /* coverage, not light: no decoding */
    for (int i = 0; i < 4; i++) {
        out[2 * i] = (uint8_t)c[i];
        out[2 * i + 1] = (uint8_t)(c[i] >> 8);
    }
}

/* Number of the first used vertex at or after v; numbers ascend with vertices, so that is where a run of them begins in the file. */
static int64_t number_from(const glb *g, int64_t v, int64_t end)
{
    for (; v < end; v++) {
        if (g->number[v] >= 0) return g->number[v];
    }
    return -1;
}

typedef void (*store_fn)(const glb *g, int64_t v, uint8_t *out);
typedef struct vertex_job {
    const glb *g;
    store_fn store;
    size_t size;                                 /* bytes of one vertex */
    int64_t begin, end, first;                   /* vertices of the block, number of its first used one */
} vertex_job;

static void convert_vertices(void *arg, size_t task, int slot)
{
    const vertex_job *job = arg;
    const glb *g = job->g;
    const int64_t begin = job->begin + (int64_t)task * TASK, end = ESI_MIN(begin + TASK, job->end);

    (void)slot;
    for (int64_t v = begin; v < end; v++) {
        if (g->number[v] >= 0) job->store(g, v, g->block + (size_t)(g->number[v] - job->first) * job->size);
    }
}

static espalier_status write_vertices(espalier_context *ctx, esi_writer *w, const glb *g, store_fn store, size_t size)
{
    const int64_t count = g->asset->n_vertices;
    espalier_status st = ESPALIER_OK;

    for (int64_t begin = 0; st == ESPALIER_OK && begin < count; begin += BLOCK) {
        const int64_t end = ESI_MIN(begin + BLOCK, count);
        vertex_job job = {.g = g, .store = store, .size = size, .begin = begin, .end = end, .first = number_from(g, begin, end)};
        int64_t next;

        if (job.first < 0) continue;
        next = number_from(g, end, count);
        if (next < 0) next = g->n_used;
        st = esi_parallel(ctx, (size_t)((end - begin + TASK - 1) / TASK), convert_vertices, &job);
        if (st == ESPALIER_OK) st = esi_writer_write(w, g->block, (size_t)(next - job.first) * size);
    }
    return st;
}

static espalier_status write_file(espalier_context *ctx, const glb *g, const esi_text *json, uint64_t binary, const char *path)
{
    const uint32_t head[] = {GLB_MAGIC, 2, (uint32_t)(HEADER_BYTES + json->len + binary), (uint32_t)json->len, CHUNK_JSON};
    const uint32_t chunk[] = {(uint32_t)binary, CHUNK_BINARY};
    esi_writer *w = NULL;
    uint8_t bytes[20];
    espalier_status st = esi_writer_open(ctx, &w, path);

    if (st != ESPALIER_OK) return st;
    for (size_t i = 0; i < ESI_COUNT(head); i++) esi_store_u32le(bytes + 4 * i, head[i]);
    st = esi_writer_write(w, bytes, sizeof bytes);
    if (st == ESPALIER_OK) st = esi_writer_write(w, json->data, json->len);
    for (size_t i = 0; i < ESI_COUNT(chunk); i++) esi_store_u32le(bytes + 4 * i, chunk[i]);
    if (st == ESPALIER_OK) st = esi_writer_write(w, bytes, 8);
    if (st == ESPALIER_OK) st = write_indices(w, g);
    if (st == ESPALIER_OK) st = write_vertices(ctx, w, g, store_position, 12);
    if (st == ESPALIER_OK && g->color_bytes > 0) st = write_vertices(ctx, w, g, store_color, 8);
    if (st != ESPALIER_OK) {
        esi_writer_abort(w);
        return st;
    }
    return esi_writer_commit(w);
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
    esi_text json = {0};
    uint64_t binary, total;
    espalier_status st;

    st = check_asset(ctx, asset, path);
    if (st != ESPALIER_OK) return st;
    st = number_vertices(ctx, &g);
    if (st != ESPALIER_OK) goto done;
    measure(&g);
    st = build_json(ctx, &json, &g);
    if (st != ESPALIER_OK) goto done;
    binary = esi_glb_binary_size((uint64_t)g.n_used, (uint64_t)asset->n_faces, asset->attrs != NULL);
    total = HEADER_BYTES + json.len + binary;
    if (total > UINT32_MAX) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: the mesh needs %llu bytes, a GLB holds 4 GiB; use a lower resolution or a dump",
                      path, (unsigned long long)total);
        goto done;
    }
    g.block = esi_alloc(ctx, BLOCK, 12, "GLB buffer");
    if (!g.block) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = write_file(ctx, &g, &json, binary, path);
done:
    esi_free(ctx, g.block);
    esi_free(ctx, g.number);
    esi_text_free(ctx, &json);
    return st;
}
