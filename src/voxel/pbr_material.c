/* SPDX-License-Identifier: MIT
 *
 * pbr_material.c: the attributes of a surface at a point of a face (o-voxel/src/convert/volumetic_attr.cpp; glTF 2.0 for what the factors
 * mean: the reference multiplies encoded colours by linear factors, we decode them first).
 */
#include "voxel/pbr_scene.h"

#include "base/math64.h"
#include "base/srgb.h"

#include <math.h>

#define LN_2 0.693147180559945309417232121458

static espalier_status make_material(espalier_context *ctx, esi_pbr_material *m, const esi_pbr_source *s, const esi_pbr_options *o)
{
    const struct {
        esi_mip_chain *chain;
        const esi_pbr_image *image;
    } pictures[] = {{&m->base_color, &s->base_color}, {&m->metallic, &s->metallic}, {&m->roughness, &s->roughness},
                    {&m->alpha, &s->alpha},           {&m->emissive, &s->emissive}, {&m->normal, &s->normal}};
    espalier_status st = ESPALIER_OK;

    m->source = s;
    for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(pictures); i++) {
        const double width = (double)pictures[i].image->width, height = (double)pictures[i].image->height;

        st = esi_mip_chain_make(ctx, pictures[i].chain, pictures[i].image, o->mipmaps && !s->nearest, o->reference);
        pictures[i].chain->log2_size = (o->reference ? esi_ln(height) : 0.5 * esi_ln(width * height)) / LN_2;
    }
    return st;
}

espalier_status esi_pbr_materials_make(espalier_context *ctx, esi_pbr_material **out, const esi_pbr_scene *scene,
                                       const esi_pbr_options *options)
{
    espalier_status st = ESPALIER_OK;

    *out = esi_calloc(ctx, (size_t)scene->n_materials, sizeof **out, "materials");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    for (int32_t i = 0; st == ESPALIER_OK && i < scene->n_materials; i++) st = make_material(ctx, *out + i, &scene->materials[i], options);
    if (st != ESPALIER_OK) {
        esi_pbr_materials_free(ctx, *out, scene->n_materials);
        *out = NULL;
    }
    return st;
}

void esi_pbr_materials_free(espalier_context *ctx, esi_pbr_material *materials, int32_t n)
{
    for (int32_t i = 0; materials && i < n; i++) {
        esi_mip_chain_free(ctx, &materials[i].base_color);
        esi_mip_chain_free(ctx, &materials[i].metallic);
        esi_mip_chain_free(ctx, &materials[i].roughness);
        esi_mip_chain_free(ctx, &materials[i].alpha);
        esi_mip_chain_free(ctx, &materials[i].emissive);
        esi_mip_chain_free(ctx, &materials[i].normal);
    }
    esi_free(ctx, materials);
}

/* -------------------------------------------------------------- a point on it */

typedef struct point {
    double uv[2], normal[3];
    double tangent[3], bitangent[3];         /* unit; along growing u, and up in the picture */
    double log2_cells;                       /* log2 of pictures per cell */
} point;

static double length_of(const double v[3])
{
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

static void normalize(double v[3])
{
    const double length = length_of(v);

    for (int a = 0; a < 3 && length > 0.0; a++) v[a] /= length;
}

/* Tangent frame of the face from its texture coordinates, v upwards as the reference has it. */
static void tangent_frame(point *p, double edge[2][3], double uv[3][2], double cell_size, bool reference)
{
    const double du1 = uv[1][0] - uv[0][0], dv1 = uv[0][1] - uv[1][1], du2 = uv[2][0] - uv[0][0], dv2 = uv[0][1] - uv[2][1];
    const double det = du1 * dv2 - dv1 * du2;
    /* The reference calls everything below 1e-6 degenerate, which is many a face of a fine mesh. */
    const double smallest = reference ? 1e-6 : 1e-30;
    double length[2] = {1e6, 1e6};

    if (fabs(det) < smallest || !isfinite(det)) {
        memcpy(p->tangent, (double[]){1.0, 0.0, 0.0}, sizeof p->tangent);
        memcpy(p->bitangent, (double[]){0.0, 1.0, 0.0}, sizeof p->bitangent);
    } else {
        const double sign = reference || det > 0.0 ? 1.0 : -1.0;   /* mirrored: the reference leaves the frame turned round */

        for (int a = 0; a < 3; a++) {
            p->tangent[a] = sign * (dv2 * edge[0][a] - dv1 * edge[1][a]);
            p->bitangent[a] = sign * (du1 * edge[1][a] - du2 * edge[0][a]);
        }
        length[0] = length_of(p->tangent) / det;
        length[1] = length_of(p->bitangent) / det;
        normalize(p->tangent);
        normalize(p->bitangent);
    }
    p->log2_cells = esi_ln(cell_size / sqrt(length[0] * length[1])) / LN_2;
}

static void find_point(point *p, const esi_pbr_scene *scene, int32_t face, const double bary[3], double cell_size, bool reference)
{
    const int32_t *corner = scene->faces + 3 * (int64_t)face;
    double edge[2][3], uv[3][2] = {{0.0}};

    for (int a = 0; a < 3; a++) {
        for (int e = 0; e < 2; e++) {
            edge[e][a] = (double)scene->positions[3 * (int64_t)corner[e + 1] + a] - (double)scene->positions[3 * (int64_t)corner[0] + a];
        }
    }
    for (int k = 0; k < 3 && scene->uvs; k++) {
        for (int i = 0; i < 2; i++) uv[k][i] = (double)scene->uvs[2 * (int64_t)corner[k] + i];
    }
    for (int i = 0; i < 2; i++) p->uv[i] = bary[0] * uv[0][i] + bary[1] * uv[1][i] + bary[2] * uv[2][i];
    if (scene->normals) {
        for (int a = 0; a < 3; a++) {
            p->normal[a] = 0.0;
            for (int k = 0; k < 3; k++) p->normal[a] += bary[k] * (double)scene->normals[3 * (int64_t)corner[k] + a];
        }
    } else {
        for (int a = 0; a < 3; a++) {
            const int b = (a + 1) % 3, c = (a + 2) % 3;

            p->normal[a] = edge[0][b] * edge[1][c] - edge[0][c] * edge[1][b];
        }
        normalize(p->normal);
    }
    if (!reference) normalize(p->normal);
    tangent_frame(p, edge, uv, cell_size, reference);
}

static bool sample(double *out, const esi_pbr_material *m, const esi_mip_chain *chain, const point *p, const esi_pbr_options *o)
{
    double level = p->log2_cells + chain->log2_size + o->mip_level_offset;

    if (!chain->base.pixels) return false;
    if (!isfinite(level)) level = 0.0;
    esi_mip_sample(out, chain, p->uv[0], p->uv[1], level, m->source->nearest, m->source->wrap);
    return true;
}

/* A colour, of which a grey picture has one channel. */
static void sample_color(double out[3], const esi_pbr_material *m, const esi_mip_chain *chain, const point *p, const esi_pbr_options *o)
{
    if (sample(out, m, chain, p, o) && chain->base.channels == 1) out[1] = out[2] = out[0];
}

static double clamp01(double v)
{
    return v > 0.0 ? ESI_MIN(v, 1.0) : 0.0;
}

/* An encoded colour times a linear factor. */
static double times_linear(double encoded, double factor)
{
    if (factor == 1.0) return encoded;
    return clamp01(esi_srgb_encode(clamp01(esi_srgb_decode(clamp01(encoded)) * factor)));
}

/* Vertex colour, linear RGB and alpha. */
static void vertex_color(double out[4], const esi_pbr_scene *scene, int32_t face, const double bary[3])
{
    const int32_t *corner = scene->faces + 3 * (int64_t)face;

    for (int c = 0; c < 4; c++) {
        out[c] = scene->colors ? 0.0 : 1.0;
        for (int k = 0; k < 3 && scene->colors; k++) {
            const double v = (double)scene->colors[4 * (int64_t)corner[k] + c] / 255.0;

            out[c] += bary[k] * (c < 3 ? esi_srgb_decode(v) : v);
        }
        if (out[c] > 1.0 - 1e-9) out[c] = 1.0;
    }
}

static void evaluate_normal(double out[3], const esi_pbr_material *m, const point *p, const esi_pbr_options *o)
{
    double t[3];

    memcpy(out, p->normal, 3 * sizeof *out);
    if (!sample(t, m, &m->normal, p, o)) return;
    for (int a = 0; a < 3; a++) {
        out[a] = (2.0 * t[0] - 1.0) * p->tangent[a] + (2.0 * t[1] - 1.0) * p->bitangent[a] + (2.0 * t[2] - 1.0) * p->normal[a];
    }
    normalize(out);
}

void esi_pbr_evaluate(double out[ESI_PBR_VALUES], const esi_pbr_scene *scene, const esi_pbr_material *materials,
                      const esi_pbr_options *options, int32_t face, const double bary[3], double cell_size)
{
    const esi_pbr_material *m = &materials[scene->face_material ? scene->face_material[face] : 0];
    const esi_pbr_source *s = m->source;
    const bool reference = options->reference;
    double color[3] = {1.0, 1.0, 1.0}, emissive[3] = {1.0, 1.0, 1.0}, metallic = 1.0, roughness = 1.0, alpha = 1.0, tint[4];
    point p;

    find_point(&p, scene, face, bary, cell_size, reference);
    vertex_color(tint, scene, face, bary);
    sample_color(color, m, &m->base_color, &p, options);
    sample(&metallic, m, &m->metallic, &p, options);
    sample(&roughness, m, &m->roughness, &p, options);
    sample_color(emissive, m, &m->emissive, &p, options);
    for (int a = 0; a < 3; a++) {
        const double factor = (double)s->base_color_factor[a] * tint[a], glow = (double)s->emissive_factor[a];

        out[ESI_PBR_BASE_COLOR + a] = reference ? color[a] * factor : times_linear(color[a], factor);
        out[ESI_PBR_EMISSIVE + a] = reference ? emissive[a] * glow : times_linear(emissive[a], glow);
    }
    out[ESI_PBR_METALLIC] = metallic * (double)s->metallic_factor;
    out[ESI_PBR_ROUGHNESS] = roughness * (double)s->roughness_factor;
    if (s->alpha_mode != ESI_ALPHA_OPAQUE) {
        sample(&alpha, m, &m->alpha, &p, options);
        alpha *= (double)s->alpha_factor * tint[3];
        if (s->alpha_mode == ESI_ALPHA_MASK) alpha = alpha < (double)s->alpha_cutoff ? 0.0 : 1.0;
    }
    out[ESI_PBR_ALPHA] = alpha;
    evaluate_normal(out + ESI_PBR_NORMAL, m, &p, options);
}
