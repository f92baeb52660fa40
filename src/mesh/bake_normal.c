/* SPDX-License-Identifier: MIT
 *
 * bake_normal.c: what simplification took away, as pictures: the original's smooth normals in the tangent frame of the simplified surface,
 * and ambient occlusion by rays against the original.
 *
 * Normals are expressed in the basis that viewers build from the interpolated normal and tangent of a texel (unit length each, bitangent =
 * w * cross(normal, tangent)), which is not orthogonal inside a face: the exact inverse is taken, so that a viewer gets the original's
 * normal back. Occlusion rays are distributed by the cosine (Malley's method) over Roberts' R2 sequence; each texel of an 8 x 8 tile takes
 * another stretch of the sequence.
 */
#include "mesh/bake_internal.h"

#include "base/math64.h"
#include "mesh/clean.h"

#define TWO_PI 6.283185307179586
#define OCCLUSION_REACH 0.1        /* world units: what is farther away does not darken */
#define OCCLUSION_LIFT 0.5         /* cells above the surface where rays begin */
#define TILE 8                     /* TILE * TILE = ESI_BAKE_PATTERNS */

/* ------------------------------------------------------------ original normals */

/* Where the winding says nothing, each face counts in the direction of what its vertex has so far. */
static espalier_status unoriented_normals(esi_bake_job *job)
{
    const esi_mesh *mesh = job->input->original;
    float *out = esi_calloc(job->ctx, (size_t)mesh->n_vertices, 3 * sizeof *out, "original normals");
    espalier_status st = out ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    for (int64_t f = 0; st == ESPALIER_OK && f < mesh->n_faces; f++) {
        const int32_t *corner = mesh->faces + 3 * f;
        double p[3][3], cross[3], sum[3];

        for (int k = 0; k < 3; k++) esi_vec_load(p[k], mesh->vertices, corner[k]);
        esi_vec_face_cross(cross, p[0], p[1], p[2]);
        for (int k = 0; k < 3; k++) {
            float *vertex = out + 3 * (int64_t)corner[k];
            double sign;

            esi_vec_load(sum, vertex, 0);
            sign = esi_vec_dot(sum, cross) < 0.0 ? -1.0 : 1.0;
            for (int i = 0; i < 3; i++) vertex[i] = (float)(sum[i] + sign * cross[i]);
        }
        if ((f & 0x3ffff) == 0) st = esi_check_cancel(job->ctx);
    }
    for (int64_t v = 0; st == ESPALIER_OK && v < mesh->n_vertices; v++) {
        double n[3];

        esi_vec_load(n, out, v);
        if (!esi_vec_normalize(n)) memcpy(n, (double[]){0.0, 0.0, 1.0}, sizeof n);
        for (int k = 0; k < 3; k++) out[3 * v + k] = (float)n[k];
    }
    job->original_normals = out;
    return st;
}

espalier_status esi_bake_original_normals(esi_bake_job *job)
{
    if (!job->oriented) return unoriented_normals(job);
    return esi_mesh_vertex_normals(job->ctx, &job->original_normals, job->input->original);
}

/* ------------------------------------------------------------------ normal map */

/* Mean of the corners' vectors of `width` floats each, unit length. */
static bool interpolate(double out[3], const float *array, int64_t width, const int32_t corner[3], const double bary[3])
{
    out[0] = out[1] = out[2] = 0.0;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++) out[i] += bary[k] * (double)array[width * corner[k] + i];
    }
    return esi_vec_normalize(out);
}

/* Without a winding the sign of each vertex' normal is chance: all are turned to the texel's side. */
static bool original_normal(const esi_bake_job *job, const esi_bake_texel *t, const double normal[3], double out[3])
{
    const int32_t *corner = job->input->original->faces + 3 * (int64_t)t->hit.face;
    const double side = esi_vec_dot(t->hit_normal, normal);

    if (!t->has_hit || t->opposing) return false;
    out[0] = out[1] = out[2] = 0.0;
    for (int k = 0; k < 3; k++) {
        double n[3], weight = (double)t->hit.bary[k];

        esi_vec_load(n, job->original_normals, corner[k]);
        if (!job->oriented && esi_vec_dot(n, t->hit_normal) * side < 0.0) weight = -weight;
        for (int i = 0; i < 3; i++) out[i] += weight * n[i];
    }
    return esi_vec_normalize(out);
}

void esi_bake_normal_texel(const esi_bake_job *job, const esi_bake_texel *t, uint8_t out[3])
{
    const esi_surface *s = job->surface;
    const int32_t *corner = s->mesh.faces + 3 * (int64_t)t->face;
    const double w = (double)s->tangents[4 * (int64_t)corner[0] + 3];
    double normal[3], tangent[3], bitangent[3], target[3], nb[3], bt[3], local[3] = {0.0, 0.0, 1.0}, volume;

    out[0] = out[1] = 128;
    out[2] = 255;
    if (!interpolate(normal, s->normals, 3, corner, t->bary) || !interpolate(tangent, s->tangents, 4, corner, t->bary)) return;
    if (!original_normal(job, t, normal, target)) return;
    esi_vec_cross(bitangent, normal, tangent);
    for (int i = 0; i < 3; i++) bitangent[i] *= w;
    if (!esi_vec_normalize(bitangent)) return;
    /* Cramer's rule for target = local[0] * tangent + local[1] * bitangent + local[2] * normal. */
    esi_vec_cross(bt, bitangent, normal);
    volume = esi_vec_dot(tangent, bt);
    if (!(fabs(volume) > 1e-3)) return;
    esi_vec_cross(nb, normal, tangent);
    local[0] = esi_vec_dot(target, bt) / volume;
    local[1] = esi_vec_dot(target, nb) / volume;
    esi_vec_cross(nb, tangent, bitangent);
    local[2] = esi_vec_dot(target, nb) / volume;
    if (local[2] < 0.0) local[2] = 0.0;            /* seen from behind: as steep as a normal map can say */
    if (!esi_vec_normalize(local)) return;
    for (int i = 0; i < 3; i++) out[i] = (uint8_t)((local[i] * 0.5 + 0.5) * 255.0 + 0.5);
}

/* ------------------------------------------------------------------- occlusion */

espalier_status esi_bake_occlusion_open(esi_bake_job *job)
{
    const int64_t rays = job->options->occlusion_rays;
    float *out = esi_alloc(job->ctx, (size_t)(ESI_BAKE_PATTERNS * rays), 3 * sizeof *out, "occlusion rays");

    if (!out) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < ESI_BAKE_PATTERNS * rays; i++) {
        const double a = 0.5 + 0.7548776662466927 * (double)(i + 1), b = 0.5 + 0.5698402909980532 * (double)(i + 1);
        const double u = a - esi_floor(a), angle = TWO_PI * (b - esi_floor(b)), radius = sqrt(u);

        out[3 * i] = (float)(radius * esi_cos(angle));
        out[3 * i + 1] = (float)(radius * esi_sin(angle));
        out[3 * i + 2] = (float)sqrt(1.0 - u);
    }
    job->occlusion_directions = out;
    return ESPALIER_OK;
}

uint8_t esi_bake_occlusion_texel(const esi_bake_job *job, const esi_bake_texel *t, int32_t x, int32_t y)
{
    const int32_t rays = job->options->occlusion_rays;
    const int32_t *corner = job->surface->mesh.faces + 3 * (int64_t)t->face;
    const float *local = job->occlusion_directions + 3 * (int64_t)rays * ((y % TILE) * TILE + x % TILE);
    double normal[3], side[3], up[3];
    float origin[3];
    int32_t blocked = 0;

    if (!interpolate(normal, job->surface->normals, 3, corner, t->bary)) return 255;
    side[0] = fabs(normal[0]) < 0.6 ? 1.0 : 0.0;
    side[1] = side[0] > 0.0 ? 0.0 : 1.0;
    side[2] = 0.0;
    esi_vec_flatten(side, normal);
    if (!esi_vec_normalize(side)) return 255;
    esi_vec_cross(up, normal, side);
    for (int i = 0; i < 3; i++) {
        const double p = t->has_hit && !t->opposing ? (double)t->hit.point[i] : (double)t->position[i];

        origin[i] = (float)(p + OCCLUSION_LIFT * job->cell * normal[i]);
    }
    for (int32_t k = 0; k < rays; k++) {
        float direction[3];

        for (int i = 0; i < 3; i++) {
            direction[i] = (float)((double)local[3 * k] * side[i] + (double)local[3 * k + 1] * up[i] +
                                   (double)local[3 * k + 2] * normal[i]);
        }
        blocked += esi_bvh_ray_any(job->input->original_bvh, origin, direction, 0.0f, (float)OCCLUSION_REACH);
    }
    return (uint8_t)(255.0 * (1.0 - (double)blocked / (double)rays) + 0.5);
}
