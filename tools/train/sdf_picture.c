/* SPDX-License-Identifier: MIT
 *
 * sdf_picture.c: a picture of a solid: sphere tracing, one key light with a soft shadow, ambient light from above with occlusion, a
 * highlight and a simple environment for metals. Pretty enough to learn from, fast enough to make thousands.
 */
#include "sdf.h"

#include <math.h>
#include <string.h>

#define STEPS        96
#define SHADOW_STEPS 14
#define BOUND        0.67f /* squared radius of a ball around the unit cube's content */
#define GAMMA        2.2f

typedef struct scene {
    const solid *object;
    const float *camera, *light;
} scene;

static float clamp01(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static float dot(const float a[3], const float b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void along(float out[3], const float from[3], float t, const float direction[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = from[i] + t * direction[i];
}

static int trace(const scene *s, const float direction[3], float hit[3])
{
    const float b = dot(s->camera, direction), c = dot(s->camera, s->camera) - BOUND;
    if (b * b - c < 0)
        return 0;
    const float root = sqrtf(b * b - c);
    float t = -b - root > 0 ? -b - root : 0;
    for (int step = 0; step < STEPS && t < -b + root; step++) {
        along(hit, s->camera, t, direction);
        float distance = solid_distance(s->object, hit);
        if (distance < 5e-4f)
            return 1;
        t += distance * 0.92f;
    }
    return 0;
}

static float lit_share(const scene *s, const float hit[3], const float normal[3])
{
    float share = 1, t = 0.02f, start[3], at[3];
    along(start, hit, 0.004f, normal);
    for (int step = 0; step < SHADOW_STEPS && t < 0.8f; step++) {
        along(at, start, t, s->light);
        float distance = solid_distance(s->object, at);
        share = fminf(share, 10 * distance / t);
        if (share < 0.01f)
            return 0;
        t += fmaxf(distance, 0.012f);
    }
    return fmaxf(share, 0);
}

static float open_share(const scene *s, const float hit[3], const float normal[3])
{
    float share = 1, at[3];
    for (int step = 1; step <= 3; step++) {
        float distance = 0.03f * (float)step;
        along(at, hit, distance, normal);
        share -= fmaxf(0, distance - solid_distance(s->object, at)) * (2.6f / (float)step) * 1.4f;
    }
    return fmaxf(0.3f, fminf(1, share));
}

/* Blinn-Phong, capped. */
static float highlight(const scene *s, const float normal[3], const float view[3], float roughness)
{
    float half[3], length = 1e-9f;
    for (int i = 0; i < 3; i++) {
        half[i] = view[i] + s->light[i];
        length += half[i] * half[i];
    }
    float cosine = fmaxf(0, dot(normal, half) / sqrtf(length));
    float exponent = fminf(2 / (roughness * roughness * roughness * roughness) + 1, 400);
    return fminf(powf(cosine, exponent) * (exponent + 2) / 25, 6);
}

static void shade(const scene *s, const float hit[3], const float direction[3], float color[3])
{
    float normal[3], material[5];
    solid_normal(s->object, hit, normal);
    solid_material(s->object, hit, material);
    const float view[3] = {-direction[0], -direction[1], -direction[2]};
    const float metallic = material[3], roughness = fmaxf(material[4], 0.12f);
    const float towards_light = fmaxf(0, dot(normal, s->light)), towards_view = fmaxf(0, dot(normal, view));
    const float key = towards_light > 0 ? s->light[3] * towards_light * lit_share(s, hit, normal) : 0;
    const float open = open_share(s, hit, normal), ambient = s->light[4] * (0.7f + 0.3f * normal[2]) * open;
    const float shine = key * s->light[5] * highlight(s, normal, view, roughness);
    const float mirrored_up = 2 * towards_view * normal[2] + direction[2];
    const float environment = 0.25f + 0.65f * clamp01(mirrored_up * 0.8f + 0.5f), edge = powf(1 - fminf(towards_view, 1), 5);
    const float reflected = environment * open * (1.1f - 0.6f * roughness) * (0.35f + 0.65f * metallic) * 1.1f;
    for (int i = 0; i < 3; i++) {
        float linear = powf(material[i], GAMMA), facing = 0.04f * (1 - metallic) + linear * metallic;
        float fresnel = facing + (1 - facing) * edge * (1 - roughness) * 0.6f;
        color[i] = powf(clamp01(linear * (1 - metallic) * (ambient + key) + fresnel * (shine + reflected)), 1 / GAMMA);
    }
}

/* Direction of the ray through a point of the picture, in pixels. */
static void ray(const scene *s, int side, float x, float y, float direction[3])
{
    const float *camera = s->camera;
    float u = (2 * x / (float)side - 1) * camera[12], v = (1 - 2 * y / (float)side) * camera[12];
    for (int i = 0; i < 3; i++)
        direction[i] = camera[9 + i] + u * camera[3 + i] + v * camera[6 + i];
    float length = sqrtf(dot(direction, direction));
    for (int i = 0; i < 3; i++)
        direction[i] /= length;
}

/* The colour's mean over the rays that hit, and the share of those. */
static void draw_pixel(const scene *s, int side, int samples, int column, int line, uint8_t rgba[4])
{
    float sum[3] = {0, 0, 0}, hits = 0;
    for (int k = 0; k < samples * samples; k++) {
        float x = (float)column + ((float)(k % samples) + 0.5f) / (float)samples;
        float y = (float)line + ((float)(k / samples) + 0.5f) / (float)samples;
        float direction[3], hit[3], color[3];
        ray(s, side, x, y, direction);
        if (!trace(s, direction, hit))
            continue;
        shade(s, hit, direction, color);
        hits += 1;
        for (int i = 0; i < 3; i++)
            sum[i] += color[i];
    }
    memset(rgba, 0, 4);
    if (hits > 0) {
        for (int i = 0; i < 3; i++)
            rgba[i] = (uint8_t)(255 * sum[i] / hits + 0.5f);
        rgba[3] = (uint8_t)(255 * hits / (float)(samples * samples) + 0.5f);
    }
}

void train_render(const float *parts, int count, float scale, const float *center, int side, int samples, const float *camera,
                  const float *light, uint8_t *rgba)
{
    const solid object = {(const object_part *)(const void *)parts, count, scale, {center[0], center[1], center[2]}};
    const scene s = {&object, camera, light};
    for (int line = 0; line < side; line++)
        for (int column = 0; column < side; column++)
            draw_pixel(&s, side, samples, column, line, rgba + 4 * ((size_t)line * (size_t)side + (size_t)column));
}

void train_surface(const float *parts, int count, float scale, const float *center, int side, const float *camera, float *surface)
{
    const solid object = {(const object_part *)(const void *)parts, count, scale, {center[0], center[1], center[2]}};
    const scene s = {&object, camera, NULL};
    for (int pixel = 0; pixel < side * side; pixel++, surface += 7) {
        float direction[3], hit[3], material[5];
        memset(surface, 0, 7 * sizeof *surface);
        ray(&s, side, (float)(pixel % side) + 0.5f, (float)(pixel / side) + 0.5f, direction);
        if (!trace(&s, direction, hit))
            continue;
        solid_material(&object, hit, material);
        surface[0] = 1;
        memcpy(surface + 1, hit, sizeof hit);
        memcpy(surface + 4, material, 3 * sizeof *material);
    }
}
