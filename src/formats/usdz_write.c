/* SPDX-License-Identifier: MIT
 *
 * usdz_write.c: surface -> USDZ: a zip of stored entries at multiples of 64 bytes, first the stage as text (usda), then its PNG pictures.
 * Equal positions are one point; texture coordinates and normals belong to corners of faces. Materials are UsdPreviewSurface.
 */
#include "base/srgb.h"
#include "formats/surface_export.h"
#include "formats/zip.h"

#define ALIGN 64

typedef struct usdz {
    esi_export *e;
    const esi_surface *s;
    int32_t *map, *first, *order;
    int64_t n_positions, *starts;
    esi_text t;
    uint8_t *used;                 /* [textures] */
} usdz;

static void literal(usdz *w, const char *text)
{
    esi_text_append_bytes(w->e->ctx, &w->t, text, strlen(text));
}

static void integer(usdz *w, int64_t value)
{
    char digits[20];
    size_t n = sizeof digits;

    do digits[--n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    esi_text_append_bytes(w->e->ctx, &w->t, digits + n, sizeof digits - n);
}

static void vector(usdz *w, const float *v, int n)
{
    literal(w, "(");
    esi_export_floats(w->e->ctx, &w->t, v, n, ", ");
    literal(w, ")");
}

static espalier_status poll(usdz *w, int64_t i)
{
    return i % 65536 == 0 ? esi_check_cancel(w->e->ctx) : ESPALIER_OK;
}

/* "<declaration> = [a, b, ...]<ending>" of the corners of all faces, through `map` if there is one. */
static espalier_status append_corners(usdz *w, const char *declaration, const int32_t *map)
{
    const int64_t n = 3 * w->s->mesh.n_faces;
    espalier_status st = ESPALIER_OK;

    literal(w, declaration);
    for (int64_t i = 0; st == ESPALIER_OK && i < n; i++) {
        if (i > 0) literal(w, ", ");
        integer(w, map ? map[w->s->mesh.faces[i]] : w->s->mesh.faces[i]);
        st = poll(w, i);
    }
    literal(w, "]\n");
    return st;
}

static espalier_status append_points(usdz *w)
{
    float low[3] = {0}, high[3] = {0};
    espalier_status st = ESPALIER_OK;

    literal(w, "        point3f[] points = [");
    for (int64_t i = 0; st == ESPALIER_OK && i < w->n_positions; i++) {
        float p[3];

        esi_export_position(w->e, w->first[i], p);
        for (int k = 0; k < 3; k++) {
            low[k] = i == 0 || p[k] < low[k] ? p[k] : low[k];
            high[k] = i == 0 || p[k] > high[k] ? p[k] : high[k];
        }
        if (i > 0) literal(w, ", ");
        vector(w, p, 3);
        st = poll(w, i);
    }
    literal(w, "]\n        float3[] extent = [");
    vector(w, low, 3);
    literal(w, ", ");
    vector(w, high, 3);
    literal(w, "]\n");
    return st;
}

static espalier_status append_normals(usdz *w)
{
    espalier_status st = ESPALIER_OK;

    literal(w, "        normal3f[] primvars:normals = [");
    for (int64_t v = 0; st == ESPALIER_OK && v < w->s->mesh.n_vertices; v++) {
        float n[3];

        esi_export_direction(w->e, w->s->normals + 3 * v, n);
        if (v > 0) literal(w, ", ");
        vector(w, n, 3);
        st = poll(w, v);
    }
    literal(w, "] (\n            interpolation = \"faceVarying\"\n        )\n");
    return st == ESPALIER_OK ? append_corners(w, "        int[] primvars:normals:indices = [", NULL) : st;
}

static espalier_status append_uvs(usdz *w)
{
    espalier_status st = ESPALIER_OK;

    literal(w, "        texCoord2f[] primvars:st = [");
    for (int64_t v = 0; st == ESPALIER_OK && v < w->s->mesh.n_vertices; v++) {
        const float uv[2] = {w->s->uvs[2 * v], 1.0f - w->s->uvs[2 * v + 1]};

        if (v > 0) literal(w, ", ");
        vector(w, uv, 2);
        st = poll(w, v);
    }
    literal(w, "] (\n            interpolation = \"faceVarying\"\n        )\n");
    return st == ESPALIER_OK ? append_corners(w, "        int[] primvars:st:indices = [", NULL) : st;
}

/* Colours of points are light. */
static espalier_status append_colors(usdz *w)
{
    espalier_status st = ESPALIER_OK;

    literal(w, "        color3f[] primvars:displayColor = [");
    for (int64_t i = 0; st == ESPALIER_OK && i < w->n_positions; i++) {
        const uint8_t *c = w->s->colors + 4 * (int64_t)w->first[i];
        float light[3];

        for (int k = 0; k < 3; k++) light[k] = (float)esi_srgb_decode(c[k] / 255.0);
        if (i > 0) literal(w, ", ");
        vector(w, light, 3);
        st = poll(w, i);
    }
    literal(w, "] (\n            interpolation = \"vertex\"\n        )\n");
    return st;
}

/* --------------------------------------------------------------- materials */

static const char *const wraps[3] = {"repeat", "clamp", "mirror"};

/* A texture of material i as the shader `name`, with its scale (and bias, for normals). */
static void append_texture(usdz *w, int32_t i, const esi_material *m, const char *name, int32_t texture, const float scale[4], bool color,
                           bool normal)
{
    espalier_context *ctx = w->e->ctx;
    const float bias[4] = {-1.0f, -1.0f, -1.0f, 0.0f};

    w->used[texture] = 1;
    esi_text_append(ctx, &w->t, "            def Shader \"%s\"\n            {\n"
                    "                uniform token info:id = \"UsdUVTexture\"\n"
                    "                asset inputs:file = @textures/%d.png@\n"
                    "                float2 inputs:st.connect = </Root/Materials/Material_%d/Coordinates.outputs:result>\n"
                    "                token inputs:wrapS = \"%s\"\n                token inputs:wrapT = \"%s\"\n"
                    "                token inputs:sourceColorSpace = \"%s\"\n                float4 inputs:scale = ",
                    name, (int)texture, (int)i, wraps[m->wrap], wraps[m->wrap], color ? "sRGB" : "raw");
    vector(w, scale, 4);
    if (normal) {
        literal(w, "\n                float4 inputs:bias = ");
        vector(w, bias, 4);
    }
    literal(w, "\n                float outputs:r\n                float outputs:g\n                float outputs:b\n"
               "                float outputs:a\n                float3 outputs:rgb\n            }\n");
}

static void connect(usdz *w, const char *input, int32_t i, const char *output)
{
    esi_text_append(w->e->ctx, &w->t, "                %s.connect = </Root/Materials/Material_%d/%s>\n", input, (int)i, output);
}

static void number(usdz *w, const char *input, float value)
{
    esi_text_append(w->e->ctx, &w->t, "                float inputs:%s = ", input);
    esi_export_float(w->e->ctx, &w->t, value);
    literal(w, "\n");
}

static void append_surface(usdz *w, int32_t i, const esi_material *m)
{
    const bool textures = w->s->uvs != NULL;

    literal(w, "            def Shader \"Surface\"\n            {\n                uniform token info:id = \"UsdPreviewSurface\"\n");
    if (textures && m->base_color_texture >= 0) {
        connect(w, "color3f inputs:diffuseColor", i, "BaseColor.outputs:rgb");
    } else if (w->s->colors) {
        connect(w, "color3f inputs:diffuseColor", i, "VertexColor.outputs:result");
    } else {
        literal(w, "                color3f inputs:diffuseColor = ");
        vector(w, m->base_color, 3);
        literal(w, "\n");
    }
    if (m->alpha_mode != ESI_ALPHA_OPAQUE) {
        if (textures && m->base_color_texture >= 0)
            connect(w, "float inputs:opacity", i, "BaseColor.outputs:a");
        else
            number(w, "opacity", m->base_color[3]);
        if (m->alpha_mode == ESI_ALPHA_MASK) number(w, "opacityThreshold", m->alpha_cutoff);
    }
    if (textures && m->metallic_roughness_texture >= 0) {
        connect(w, "float inputs:roughness", i, "MetallicRoughness.outputs:g");
        connect(w, "float inputs:metallic", i, "MetallicRoughness.outputs:b");
        if (m->occlusion) connect(w, "float inputs:occlusion", i, "MetallicRoughness.outputs:r");
    } else {
        number(w, "roughness", m->roughness);
        number(w, "metallic", m->metallic);
    }
    if (textures && m->normal_texture >= 0) connect(w, "normal3f inputs:normal", i, "Normal.outputs:rgb");
    if (textures && m->emissive_texture >= 0) {
        connect(w, "color3f inputs:emissiveColor", i, "Emissive.outputs:rgb");
    } else {
        literal(w, "                color3f inputs:emissiveColor = ");
        vector(w, m->emissive, 3);
        literal(w, "\n");
    }
    literal(w, "                int inputs:useSpecularWorkflow = 0\n                token outputs:surface\n            }\n");
}

static void append_material(usdz *w, int32_t i)
{
    const esi_material m = esi_export_material(w->s, i);
    const float *c = m.base_color, *light = m.emissive;
    const bool textures = w->s->uvs != NULL;

    esi_text_append(w->e->ctx, &w->t, "        def Material \"Material_%d\"\n        {\n", (int)i);
    esi_text_append(w->e->ctx, &w->t, "            token outputs:surface.connect = </Root/Materials/Material_%d/Surface.outputs:surface>\n",
                    (int)i);
    append_surface(w, i, &m);
    if (textures && (m.base_color_texture >= 0 || m.metallic_roughness_texture >= 0 || m.normal_texture >= 0 || m.emissive_texture >= 0))
        literal(w, "            def Shader \"Coordinates\"\n            {\n"
                   "                uniform token info:id = \"UsdPrimvarReader_float2\"\n"
                   "                string inputs:varname = \"st\"\n                float2 outputs:result\n            }\n");
    if (textures && m.base_color_texture >= 0)
        append_texture(w, i, &m, "BaseColor", m.base_color_texture, (const float[4]){c[0], c[1], c[2], c[3]}, true, false);
    else if (w->s->colors)
        literal(w, "            def Shader \"VertexColor\"\n            {\n"
                   "                uniform token info:id = \"UsdPrimvarReader_float3\"\n"
                   "                string inputs:varname = \"displayColor\"\n                float3 outputs:result\n            }\n");
    if (textures && m.metallic_roughness_texture >= 0)
        append_texture(w, i, &m, "MetallicRoughness", m.metallic_roughness_texture, (const float[4]){1.0f, m.roughness, m.metallic, 1.0f},
                       false, false);
    if (textures && m.normal_texture >= 0)
        append_texture(w, i, &m, "Normal", m.normal_texture, (const float[4]){2.0f, 2.0f, 2.0f, 1.0f}, false, true);
    if (textures && m.emissive_texture >= 0)
        append_texture(w, i, &m, "Emissive", m.emissive_texture, (const float[4]){light[0], light[1], light[2], 1.0f}, true, false);
    literal(w, "        }\n");
}

/* Faces of each material, where there are several. */
static espalier_status append_subsets(usdz *w)
{
    espalier_status st = ESPALIER_OK;

    for (int32_t m = 0; st == ESPALIER_OK && m < esi_export_material_count(w->s); m++) {
        if (w->starts[m] == w->starts[m + 1]) continue;
        esi_text_append(w->e->ctx, &w->t, "        def GeomSubset \"Part_%d\" (\n"
                        "            prepend apiSchemas = [\"MaterialBindingAPI\"]\n"
                        "        )\n        {\n            uniform token elementType = \"face\"\n"
                        "            uniform token familyName = \"materialBind\"\n"
                        "            rel material:binding = </Root/Materials/Material_%d>\n            int[] indices = [", (int)m, (int)m);
        for (int64_t i = w->starts[m]; st == ESPALIER_OK && i < w->starts[m + 1]; i++) {
            if (i > w->starts[m]) literal(w, ", ");
            integer(w, w->order[i]);
            st = poll(w, i);
        }
        literal(w, "]\n        }\n");
    }
    return st;
}

/* ------------------------------------------------------------------- stage */

static void append_head(usdz *w)
{
    const char *const *extras = w->e->options->extras;
    espalier_context *ctx = w->e->ctx;

    literal(w, "#usda 1.0\n(\n    customLayerData = {\n        string creator = ");
    esi_text_append_json_string(ctx, &w->t, esi_export_generator());
    literal(w, "\n");
    if (extras && extras[0]) literal(w, "        dictionary settings = {\n");
    for (size_t i = 0; extras && extras[i] && extras[i + 1]; i += 2) {
        literal(w, "            string ");
        esi_text_append_json_string(ctx, &w->t, extras[i]);
        literal(w, " = ");
        esi_text_append_json_string(ctx, &w->t, extras[i + 1]);
        literal(w, "\n");
    }
    if (extras && extras[0]) literal(w, "        }\n");
    literal(w, "    }\n    defaultPrim = \"Root\"\n    metersPerUnit = 1\n    upAxis = \"Y\"\n)\n\n"
               "def Xform \"Root\" (\n    kind = \"component\"\n)\n{\n"
               "    def Mesh \"Mesh\" (\n        prepend apiSchemas = [\"MaterialBindingAPI\"]\n    )\n    {\n"
               "        uniform token subdivisionScheme = \"none\"\n        uniform token orientation = \"rightHanded\"\n");
}

static espalier_status append_mesh(usdz *w)
{
    const bool several = esi_export_material_count(w->s) > 1;
    const esi_material first = esi_export_material(w->s, 0);
    espalier_status st;

    esi_text_append(w->e->ctx, &w->t, "        uniform bool doubleSided = %d\n        int[] faceVertexCounts = [", first.double_sided);
    for (int64_t f = 0; f < w->s->mesh.n_faces; f++) literal(w, f > 0 ? ", 3" : "3");
    literal(w, "]\n");
    st = append_corners(w, "        int[] faceVertexIndices = [", w->map);
    if (st == ESPALIER_OK) st = append_points(w);
    if (st == ESPALIER_OK && w->s->normals) st = append_normals(w);
    if (st == ESPALIER_OK && w->s->uvs) st = append_uvs(w);
    if (st == ESPALIER_OK && w->s->colors) st = append_colors(w);
    if (st == ESPALIER_OK && several) st = append_subsets(w);
    if (!several) literal(w, "        rel material:binding = </Root/Materials/Material_0>\n");
    return st;
}

static espalier_status build_stage(usdz *w)
{
    espalier_status st;

    append_head(w);
    st = append_mesh(w);
    literal(w, "    }\n    def Scope \"Materials\"\n    {\n");
    for (int32_t i = 0; i < esi_export_material_count(w->s); i++) {
        if (w->starts[i] < w->starts[i + 1]) append_material(w, i);
    }
    literal(w, "    }\n}\n");
    return st == ESPALIER_OK && w->t.failed ? ESPALIER_ERR_RESOURCE : st;
}

static espalier_status write_package(usdz *w)
{
    espalier_context *ctx = w->e->ctx;
    esi_zip_writer zip = {.ctx = ctx, .name = w->e->path};
    espalier_status st = esi_file_set_open(&w->e->files, &zip.out, w->e->path);

    if (st == ESPALIER_OK) st = esi_zip_add(&zip, "model.usda", w->t.data, w->t.len, 0, ALIGN);
    esi_text_free(ctx, &w->t);
    for (int32_t i = 0; st == ESPALIER_OK && i < w->s->n_textures; i++) {
        char *name;
        uint8_t *bytes = NULL;
        size_t size = 0;

        if (!w->used[i]) continue;
        name = esi_format(ctx, "textures/%d.png", (int)i);
        st = name ? esi_export_encode(w->e, &bytes, &size, &w->s->textures[i], ESI_TEXTURE_PNG) : ESPALIER_ERR_RESOURCE;
        if (st == ESPALIER_OK) st = esi_zip_add(&zip, name, bytes, size, 0, ALIGN);
        esi_free(ctx, bytes);
        esi_free(ctx, name);
    }
    if (st == ESPALIER_OK) st = esi_zip_finish(&zip);
    if (st == ESPALIER_OK) st = esi_file_set_commit(&w->e->files);
    esi_zip_writer_free(&zip);
    return st;
}

espalier_status esi_surface_write_usdz(esi_export *e)
{
    usdz w = {.e = e, .s = e->surface};
    espalier_status st = esi_export_weld(e, &w.map, &w.first, &w.n_positions);

    if (st == ESPALIER_OK) st = esi_export_group(e, &w.order, &w.starts);
    w.used = esi_calloc(e->ctx, (size_t)e->surface->n_textures, 1, "textures");
    if (st == ESPALIER_OK && !w.used) st = ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = build_stage(&w);
    if (st == ESPALIER_OK) st = write_package(&w);
    esi_text_free(e->ctx, &w.t);
    esi_free(e->ctx, w.map);
    esi_free(e->ctx, w.first);
    esi_free(e->ctx, w.order);
    esi_free(e->ctx, w.starts);
    esi_free(e->ctx, w.used);
    return st;
}
