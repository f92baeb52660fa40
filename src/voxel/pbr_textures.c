/* SPDX-License-Identifier: MIT
 *
 * pbr_textures.c: pictures with mip maps, sampled with wrapping and between levels (o-voxel/src/convert/volumetic_attr.cpp). The reference
 * halves square powers of two and cuts its means off; our own chain takes pictures of any size, by area, and keeps fractions.
 */
#include "voxel/pbr_scene.h"

#include "base/math64.h"

typedef struct halving {
    const esi_mip_chain *chain;
    int to;                        /* level to fill */
    bool truncated;
} halving;

/* Value at level -1 (the picture itself) and up. */
static double texel(const esi_mip_chain *m, int level, int64_t x, int64_t y, uint32_t channel)
{
    if (level < 0) return (double)m->base.pixels[((size_t)y * m->base.width + (size_t)x) * m->base.stride + m->base.first + channel];
    return (double)m->level[level][((size_t)y * m->width[level] + (size_t)x) * m->base.channels + channel];
}

static uint32_t level_width(const esi_mip_chain *m, int level) { return level < 0 ? m->base.width : m->width[level]; }
static uint32_t level_height(const esi_mip_chain *m, int level) { return level < 0 ? m->base.height : m->height[level]; }

/* Source texels that target texel i of n covers: first, number (1..3), and the parts of the first and the last that it covers. */
static int cover(uint32_t source, uint32_t n, uint32_t i, uint32_t *first, double part[3])
{
    const uint64_t begin = (uint64_t)i * source, end = begin + source;       /* in units of 1/n source texel */
    int count = 0;

    *first = (uint32_t)(begin / n);
    for (uint64_t t = *first; t * n < end && count < 3; t++) {
        const uint64_t low = ESI_MAX(begin, t * n), high = ESI_MIN(end, (t + 1) * n);

        part[count++] = (double)(high - low) / (double)source;
    }
    return count;
}

static void fill_row(void *arg, size_t row, int slot)
{
    const halving *h = arg;
    const esi_mip_chain *m = h->chain;
    const int from = h->to - 1;
    const uint32_t width = m->width[h->to], y = (uint32_t)row, channels = m->base.channels;
    double part_x[3], part_y[3];
    uint32_t x0, y0;
    const int ny = cover(level_height(m, from), m->height[h->to], y, &y0, part_y);

    (void)slot;
    for (uint32_t x = 0; x < width; x++) {
        const int nx = cover(level_width(m, from), width, x, &x0, part_x);

        for (uint32_t c = 0; c < channels; c++) {
            double sum = 0.0;

            for (int j = 0; j < ny; j++) {
                for (int i = 0; i < nx; i++) sum += part_x[i] * part_y[j] * texel(m, from, x0 + i, y0 + j, c);
            }
            if (h->truncated) sum = (double)(int)sum;
            m->level[h->to][((size_t)y * width + x) * channels + c] = (float)sum;
        }
    }
}

espalier_status esi_mip_chain_make(espalier_context *ctx, esi_mip_chain *out, const esi_pbr_image *image, bool mipmaps, bool truncated)
{
    uint32_t width = image->width, height = image->height;
    espalier_status st = ESPALIER_OK;

    memset(out, 0, sizeof *out);
    out->base = *image;
    if (!image->pixels || !mipmaps) return ESPALIER_OK;
    if (truncated && (width != height || (width & (width - 1)) != 0)) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "PBR voxels: the reference's mip maps need square textures of a power of two, not %u x %u",
                        (unsigned)width, (unsigned)height);
    }
    while (st == ESPALIER_OK && (width > 1 || height > 1)) {
        const int level = out->levels;
        halving h = {.chain = out, .to = level, .truncated = truncated};
        size_t texels;

        width = ESI_MAX(width / 2, 1);
        height = ESI_MAX(height / 2, 1);
        out->width[level] = width;
        out->height[level] = height;
        if (esi_mul_size(&texels, width, height)) {
            out->level[level] = esi_alloc(ctx, texels, image->channels * sizeof(float), "mip map");
        }
        if (!out->level[level]) {
            st = ESPALIER_ERR_RESOURCE;
            break;
        }
        out->levels++;
        st = esi_parallel(ctx, height, fill_row, &h);
    }
    if (st != ESPALIER_OK) esi_mip_chain_free(ctx, out);
    return st;
}

void esi_mip_chain_free(espalier_context *ctx, esi_mip_chain *chain)
{
    for (int i = 0; i < ESI_PBR_LEVELS; i++) esi_free(ctx, chain->level[i]);
    memset(chain, 0, sizeof *chain);
}

/* ----------------------------------------------------------------- sampling */

static int64_t wrapped(int64_t i, int64_t n, esi_wrap wrap)
{
    int64_t period = n;

    if (wrap == ESI_WRAP_CLAMP) return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (wrap == ESI_WRAP_MIRROR) period = 2 * n;
    i %= period;
    if (i < 0) i += period;
    return i < n ? i : period - 1 - i;
}

/* Texel coordinates far beyond any picture repeat long before integers end; NaN reads the first texel. */
static double sane(double x)
{
    return x > -1e15 && x < 1e15 ? x : 0.0;
}

static void sample_level(double *out, const esi_mip_chain *m, int level, double u, double v, bool nearest, esi_wrap wrap)
{
    const int64_t width = level_width(m, level), height = level_height(m, level);
    const double x = sane(u * (double)width), y = sane(v * (double)height);

    if (nearest) {
        const int64_t ix = wrapped((int64_t)esi_floor(x), width, wrap), iy = wrapped((int64_t)esi_floor(y), height, wrap);

        for (uint32_t c = 0; c < m->base.channels; c++) out[c] = texel(m, level, ix, iy, c) / 255.0;
    } else {
        const double fx = esi_floor(x - 0.5), fy = esi_floor(y - 0.5), wx = x - 0.5 - fx, wy = y - 0.5 - fy;
        const int64_t x0 = wrapped((int64_t)fx, width, wrap), x1 = wrapped((int64_t)fx + 1, width, wrap);
        const int64_t y0 = wrapped((int64_t)fy, height, wrap), y1 = wrapped((int64_t)fy + 1, height, wrap);

        for (uint32_t c = 0; c < m->base.channels; c++) {
            const double top = texel(m, level, x0, y0, c) * (1.0 - wx) + texel(m, level, x1, y0, c) * wx;
            const double bottom = texel(m, level, x0, y1, c) * (1.0 - wx) + texel(m, level, x1, y1, c) * wx;

            out[c] = (top * (1.0 - wy) + bottom * wy) / 255.0;
        }
    }
}

void esi_mip_sample(double *out, const esi_mip_chain *m, double u, double v, double level, bool nearest, esi_wrap wrap)
{
    if (nearest || m->levels == 0 || !(level > 0.0)) {
        sample_level(out, m, -1, u, v, nearest, wrap);
    } else if (level >= (double)m->levels) {
        sample_level(out, m, m->levels - 1, u, v, false, wrap);
    } else {
        const int lower = (int)level;
        const double t = level - (double)lower;
        double next[3];

        sample_level(out, m, lower - 1, u, v, false, wrap);
        sample_level(next, m, lower, u, v, false, wrap);
        for (uint32_t c = 0; c < m->base.channels; c++) out[c] = out[c] * (1.0 - t) + next[c] * t;
    }
}
