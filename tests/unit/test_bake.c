/* SPDX-License-Identifier: MIT
 *
 * Baking: the reference's way against an independent program; what users saw go wrong elsewhere; gutters, specks, normals, occlusion.
 */
#include "bake_fixture.h"

#include "bake_expected.h"
#include "mesh/telea.h"

static void bake(espalier_context *ctx, esi_surface *out, scene *s, const esi_bake_options *options, esi_bake_stats *stats)
{
    if (esi_bake(ctx, out, scene_input(s), options, stats) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    assert_int_equal(esi_surface_check(ctx, out, "bake", ESPALIER_ERR_INTERNAL), ESPALIER_OK);
}

static const uint8_t *pixel(const esi_texture *t, uint32_t x, uint32_t y)
{
    return t->pixels + ((size_t)y * t->width + x) * t->channels;
}

/* ---------------------------------------------------------------- the reference */

static bool reference_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    (void)arg;
    for (int i = 0; i < REFERENCE_VOXELS; i++) {
        const int *c = reference_cells[i];

        if (c[0] != x || c[1] != y || c[2] != z) continue;
        memcpy(attrs, reference_attrs[i], 24);
        return true;
    }
    return false;
}

static void reference_scene(espalier_context *ctx, scene *s)
{
    memset(s, 0, sizeof *s);
    scene_mesh(ctx, s, reference_mesh, 4, REFERENCE_SIZE, REFERENCE_MARGIN);
    scene_original(ctx, s, reference_original, 4, 2, 0);
    scene_voxels(ctx, s, REFERENCE_RESOLUTION, reference_voxel, NULL);
}

static void reference_bytes(void **state)
{
    enum { S = REFERENCE_SIZE };
    const esi_bake_options options = esi_bake_options_reference(S);
    uint8_t rgb[S][S][3] = {{{0}}}, one[3][S][S] = {{{0}}}, mask[S][S];
    esi_surface out;
    esi_bake_stats stats;
    scene s;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    reference_scene(t.ctx, &s);
    bake(t.ctx, &out, &s, &options, &stats);
    memset(mask, 1, sizeof mask);
    for (int i = 0; i < REFERENCE_TEXELS; i++) {
        const int *e = reference_texels[i];

        mask[e[1]][e[0]] = 0;
        for (int k = 0; k < 3; k++) rgb[e[1]][e[0]][k] = (uint8_t)e[2 + k];
        for (int k = 0; k < 3; k++) one[k][e[1]][e[0]] = (uint8_t)e[5 + k];
    }
    assert_int_equal(stats.texels_covered, REFERENCE_TEXELS);
    assert_int_equal(stats.texels_without_voxel, 17);
    assert_int_equal(stats.texels_refused_facing, 0);
    /* Inpainting is checked by its own goldens; here: which channels, which radius, on what. */
    assert_int_equal(esi_telea_inpaint(t.ctx, rgb[0][0], mask[0], S, S, 3, 3.0), ESPALIER_OK);
    for (int k = 0; k < 3; k++) assert_int_equal(esi_telea_inpaint(t.ctx, one[k][0], mask[0], S, S, 1, 1.0), ESPALIER_OK);
    for (uint32_t y = 0; y < S; y++) {
        for (uint32_t x = 0; x < S; x++) {
            const uint8_t *base = pixel(&out.textures[0], x, y), *material = pixel(&out.textures[1], x, y);

            for (int k = 0; k < 3; k++) assert_int_equal(base[k], rgb[y][x][k]);
            assert_int_equal(base[3], one[2][y][x]);
            assert_int_equal(material[0], 0);
            assert_int_equal(material[1], one[1][y][x]);
            assert_int_equal(material[2], one[0][y][x]);
        }
    }
    assert_int_equal(out.n_materials, 1);
    assert_int_equal(out.materials[0].alpha_mode, ESI_ALPHA_OPAQUE);
    assert_false(out.materials[0].double_sided);
    assert_int_equal(out.materials[0].base_color_texture, 0);
    assert_int_equal(out.materials[0].metallic_roughness_texture, 1);
    assert_int_equal(out.materials[0].normal_texture, -1);
    assert_null(out.tangents);
    esi_surface_free(t.ctx, &out);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* The same scene: where the reference leaves black, the closest voxel or the nearest texel; bytes to nearest. */
static void clean_leaves_nothing_black(void **state)
{
    esi_bake_options options = esi_bake_options_clean(REFERENCE_SIZE);
    esi_surface out;
    esi_bake_stats stats;
    scene s;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    reference_scene(t.ctx, &s);
    for (int64_t i = 0; i < 6 * s.n_voxels; i++) s.attrs[i] = 0.2f + 0.8f * fabsf(s.attrs[i]);
    bake(t.ctx, &out, &s, &options, &stats);
    assert_int_equal(stats.texels_without_voxel, 0);
    assert_true(stats.texels_nearest_voxel > 0);
    for (size_t i = 0; i < (size_t)REFERENCE_SIZE * REFERENCE_SIZE * 4; i++) assert_true(out.textures[0].pixels[i] >= 51);
    esi_surface_free(t.ctx, &out);
    options.nearest_cells = 1e-3;              /* nothing is so near: those texels are filled as the gutter is */
    bake(t.ctx, &out, &s, &options, &stats);
    assert_int_equal(stats.texels_without_voxel, 17);
    for (size_t i = 0; i < (size_t)REFERENCE_SIZE * REFERENCE_SIZE * 4; i++) assert_true(out.textures[0].pixels[i] >= 51);
    esi_surface_free(t.ctx, &out);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* ------------------------------------------------------- a constant volume (row 22) */

typedef struct shell { int resolution; double radius; float attrs[6]; } shell;

static bool shell_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    const shell *s = arg;
    const double m = 0.5 * s->resolution, dx = x + 0.5 - m, dy = y + 0.5 - m, dz = z + 0.5 - m;
    const double d = sqrt(dx * dx + dy * dy + dz * dz);

    memcpy(attrs, s->attrs, 24);
    return fabs(d - s->radius) <= 0.5;
}

/* A box around a thin spherical shell, so that much of it has no or few voxels near. */
static void shell_scene(espalier_context *ctx, scene *s, uint32_t size, const shell *volume)
{
    scene_quad quads[6];

    memset(s, 0, sizeof *s);
    scene_box(quads, (double[]){-0.3, -0.3, -0.3}, (double[]){0.3, 0.3, 0.3});
    scene_mesh(ctx, s, quads, 6, size, size < 32 ? 1.0 : 2.0);
    scene_box(quads, (double[]){-0.28, -0.29, -0.27}, (double[]){0.28, 0.27, 0.29});
    scene_original(ctx, s, quads, 6, 9, 0);
    scene_voxels(ctx, s, volume->resolution, shell_voxel, volume);
}

static void constant_volume(void **state)
{
    static const uint32_t sizes[] = {16, 17, 64, 131};
    const float colours[3][6] = {{0.3f, 0.6f, 0.9f, 0.2f, 0.7f, 1.0f}, {0.1f, 0.0f, 1.0f, 1.0f, 0.05f, 0.95f},
                                 {1 / 3.0f, 2 / 3.0f, 0.7f, 0.11f, 0.13f, 0.999f}};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(sizes) * 3; i++) {
        shell volume = {.resolution = 32, .radius = 11.0};
        esi_bake_options options = esi_bake_options_clean(sizes[i / 3]);
        esi_surface out;
        esi_bake_stats stats;
        scene s;
        uint8_t e[6];

        memcpy(volume.attrs, colours[i % 3], 24);
        for (int k = 0; k < 6; k++) e[k] = (uint8_t)floor((double)volume.attrs[k] * 255.0 + 0.5);
        shell_scene(t.ctx, &s, sizes[i / 3], &volume);
        options.occlusion_rays = 0;
        options.keep_alpha = i % 2;
        bake(t.ctx, &out, &s, &options, &stats);
        assert_int_equal(out.textures[0].width, sizes[i / 3]);
        assert_int_equal(out.textures[1].height, sizes[i / 3]);
        assert_true(stats.texels_covered > 0);
        for (uint32_t y = 0; y < sizes[i / 3]; y++) {
            for (uint32_t x = 0; x < sizes[i / 3]; x++) {
                assert_memory_equal(pixel(&out.textures[0], x, y), ((uint8_t[]){e[0], e[1], e[2], options.keep_alpha ? e[5] : 255}), 4);
                assert_memory_equal(pixel(&out.textures[1], x, y), ((uint8_t[]){255, e[4], e[3]}), 3);
            }
        }
        esi_surface_free(t.ctx, &out);
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

/* -------------------------------------------------- plates a voxel apart (row 23) */

#define PLATE_CELLS 32
#define PLATE_SIZE 128

/* In cells: red up to low[1], blue from high[0] on; x and y within half of the middle. */
typedef struct plates { int low[2], high[2]; } plates;

static bool plate_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    const plates *p = arg;
    const bool red = z >= p->low[0] && z <= p->low[1], blue = z >= p->high[0] && z <= p->high[1];

    memcpy(attrs, (float[]){red, 0, blue, 0, 1, 1}, 24);
    return (red || blue) && abs(2 * x - 31) <= 21 && abs(2 * y - 31) <= 21;
}

typedef struct plate_case {
    bool boxes;                    /* 0.6 cells thick; else single sheets, both sides of which are in the mesh */
    int cut;                       /* faces per side of the original */
    uint64_t seed;                 /* turns faces over */
    double stray;                  /* cells by which the facing sides of the mesh lie towards each other */
} plate_case;

/* Largest wrong colour of any texel of the plates. */
static int plate_leak(espalier_context *ctx, const plate_case *c, double place, bool facing)
{
    const double cell = 1.0 / PLATE_CELLS, thick = c->boxes ? 0.6 : 0.0, low = 16 + place, high = low + 1, half = 10.4 * cell;
    const plates volume = {{(int)(low - thick), (int)low}, {(int)high, (int)(high + thick)}};
    const double a = low * cell - 0.5, b = high * cell - 0.5, far = half + cell;
    esi_bake_options options = esi_bake_options_clean(PLATE_SIZE);
    scene_quad quads[SCENE_QUADS], original[20];
    esi_bake_stats stats;
    esi_surface out;
    scene s = {0};
    int n = 4, m = 0, leak = 0;

    scene_square(quads[0], 2, a + c->stray * cell, 0, 0, half, true);
    scene_square(quads[1], 2, a - thick * cell, 0, 0, half, false);
    scene_square(quads[2], 2, b - c->stray * cell, 0, 0, half, false);
    scene_square(quads[3], 2, b + thick * cell, 0, 0, half, true);
    if (c->boxes) {
        m += scene_box(original, (double[]){-far, -far, a - thick * cell}, (double[]){far, far, a});
        m += scene_box(original + m, (double[]){-far, -far, b}, (double[]){far, far, b + thick * cell});
        /* So much else that the facing sides, all of which stray, do not decide about the winding. */
        for (int i = 0; i < 36; i++) n += scene_box(quads + n, (double[]){-0.5, -0.5, -0.5}, (double[]){0.5, 0.5, -0.4});
        m += scene_box(original + m, (double[]){-0.5, -0.5, -0.5}, (double[]){0.5, 0.5, -0.4});
    } else {
        scene_square(original[m++], 2, a, 0, 0, far, true);
        scene_square(original[m++], 2, b, 0, 0, far, false);
    }
    scene_mesh(ctx, &s, quads, n, PLATE_SIZE, 1.0);
    scene_original(ctx, &s, original, m, c->cut, c->seed);
    scene_voxels(ctx, &s, PLATE_CELLS, plate_voxel, &volume);
    options.facing = facing;
    bake(ctx, &out, &s, &options, &stats);
    assert_int_equal(stats.original_oriented, facing && c->boxes && c->seed == 0);
    for (uint32_t y = 0; y < PLATE_SIZE; y++) {
        for (uint32_t x = 0; x < PLATE_SIZE; x++) {
            const int chart = scene_chart_at(&s, PLATE_SIZE, 1.0, x, y);
            const uint8_t *p = pixel(&out.textures[0], x, y);

            if (chart < 0 || chart > 3) continue;
            leak = ESI_MAX(leak, chart < 2 ? ESI_MAX(p[2], 255 - p[0]) : ESI_MAX(p[0], 255 - p[2]));
        }
    }
    esi_surface_free(ctx, &out);
    scene_free(ctx, &s);
    return leak;
}

static void plates_keep_their_colours(void **state)
{
    static const plate_case cases[] = {
        {false, 1, 0, 0.0},  {false, 1, 0, 0.4},   {false, 30, 0, -0.4}, {false, 30, 5, 0.0},  {false, 30, 5, 0.45},
        {false, 30, 5, 0.6}, {false, 30, 0, 0.65}, {true, 1, 0, 0.0},    {true, 30, 0, 0.45}, {true, 30, 0, 0.9},
    };
    test_base t;
    int plain = 0;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        for (double place = 0.1; place < 1.0; place += 0.2) {
            const int leak = plate_leak(t.ctx, &cases[i], place, true);

            plain = ESI_MAX(plain, plate_leak(t.ctx, &cases[i], place, false));
            /* A box has two surfaces in one voxel, and the voxel one place only. */
            if (leak > (cases[i].boxes ? 2 : 0)) fail_msg("case %d at %g: %d of 255", (int)i, place, leak);
        }
    }
    assert_int_equal(plain, 255);
    test_base_close(&t);
}

/* --------------------------------------------------------------------- the gutter */

static bool noise_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    uint64_t seed = (uint64_t)(x * 64 * 64 + y * 64 + z + 1) * 7919;

    (void)arg;
    for (int k = 0; k < 6; k++) attrs[k] = (float)(test_random(&seed) % 1000) / 999.0f;
    return true;
}

/* Every texel of the gutter has the colour of a nearest covered one. */
static void gutter_is_nearest(void **state)
{
    static const uint32_t sizes[] = {16, 45, 96};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(sizes); i++) {
        const uint32_t size = sizes[i];
        const double margin = size / 9.0;
        const esi_bake_options options = esi_bake_options_clean(size);
        scene_quad quads[6];
        esi_surface out;
        scene s = {0};

        scene_box(quads, (double[]){-0.3, -0.2, -0.1}, (double[]){0.3, 0.2, 0.1});
        scene_mesh(t.ctx, &s, quads, 5, size, margin);
        scene_original(t.ctx, &s, quads, 6, 3, 0);
        scene_voxels(t.ctx, &s, 16, noise_voxel, NULL);
        bake(t.ctx, &out, &s, &options, NULL);
        for (uint32_t y = 0; y < size; y++) {
            for (uint32_t x = 0; x < size; x++) {
                int64_t best = INT64_MAX;
                bool found = false;

                for (int pass = 0; pass < 2; pass++) {
                    for (uint32_t v = 0; v < size; v++) {
                        for (uint32_t u = 0; u < size; u++) {
                            const int64_t dx = (int64_t)u - x, dy = (int64_t)v - y, d = dx * dx + dy * dy;

                            if (scene_chart_at(&s, size, margin, u, v) < 0) continue;
                            if (pass == 0) best = ESI_MIN(best, d);
                            if (pass == 1 && d == best) {
                                found |= memcmp(pixel(&out.textures[0], u, v), pixel(&out.textures[0], x, y), 4) == 0 &&
                                         memcmp(pixel(&out.textures[1], u, v), pixel(&out.textures[1], x, y), 3) == 0;
                            }
                        }
                    }
                }
                assert_true(found);
            }
        }
        esi_surface_free(t.ctx, &out);
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

/* ---------------------------------------------------------- specks (row 28) */

typedef struct marks { int mode; } marks;          /* 0 specks, 1 a line, 2 a half plane */

static bool mark_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    const marks *m = arg;
    bool metal = false;

    if (m->mode == 0) metal = x % 9 == 4 && y % 9 == 4;
    if (m->mode == 1) metal = x == 30;
    if (m->mode == 2) metal = x > 30;
    memcpy(attrs, (float[]){0.9f, 0.9f, 0.9f, metal, metal ? 0.1f : 0.8f, 1}, 24);
    return z == 32;
}

static void mark_texels(espalier_context *ctx, int mode, int despeckle, int64_t *metal, int64_t *changed, esi_bake_stats *stats)
{
    enum { SIZE = 96 };
    const marks volume = {mode};
    esi_bake_options options = esi_bake_options_clean(SIZE);
    scene_quad quads[1];
    esi_surface out[2];
    scene s = {0};

    scene_square(quads[0], 2, 0.5 / 64, 0, 0, 0.4, true);
    scene_mesh(ctx, &s, quads, 1, SIZE, 4.0);
    scene_original(ctx, &s, quads, 1, 50, 0);
    scene_voxels(ctx, &s, 64, mark_voxel, &volume);
    options.despeckle = despeckle;
    bake(ctx, &out[1], &s, &options, stats);
    options.despeckle = 0;
    bake(ctx, &out[0], &s, &options, NULL);
    *metal = *changed = 0;
    for (size_t i = 0; i < SIZE * SIZE; i++) {
        *metal += out[1].textures[1].pixels[3 * i + 2] > 24;
        *changed += memcmp(out[0].textures[1].pixels + 3 * i, out[1].textures[1].pixels + 3 * i, 3) != 0;
    }
    assert_memory_equal(out[0].textures[0].pixels, out[1].textures[0].pixels, SIZE * SIZE * 4);
    esi_surface_free(ctx, &out[0]);
    esi_surface_free(ctx, &out[1]);
    scene_free(ctx, &s);
}

static void specks_go(void **state)
{
    esi_bake_stats stats;
    int64_t metal, changed;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    mark_texels(t.ctx, 0, 0, &metal, &changed, &stats);
    assert_true(metal >= 200);
    assert_int_equal(changed, 0);
    mark_texels(t.ctx, 0, 32, &metal, &changed, &stats);
    assert_int_equal(metal, 0);
    assert_true(stats.despeckled >= changed);
    mark_texels(t.ctx, 0, 2, &metal, &changed, &stats);        /* larger than that */
    assert_true(metal >= 200);
    for (int mode = 1; mode <= 2; mode++) {
        mark_texels(t.ctx, mode, 32, &metal, &changed, &stats);
        assert_int_equal(changed, 0);
        assert_int_equal(stats.despeckled, 0);
    }
    test_base_close(&t);
}

/* --------------------------------------------------------- normals and occlusion */

static bool any_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    (void)arg;
    (void)x;
    (void)y;
    (void)z;
    memcpy(attrs, (float[]){0.5f, 0.5f, 0.5f, 0, 1, 1}, 24);
    return true;
}

/* A flat square over an original that is tilted about the y axis: the same direction all over, towards -x. */
static void normal_map(void **state)
{
    enum { SIZE = 32 };
    esi_bake_options options = esi_bake_options_clean(SIZE);
    const double slope = 0.25, length = sqrt(1 + slope * slope);
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    options.normal_map = true;
    for (int i = 0; i < 4; i++) {
        const bool tilted = i % 2, turned = i / 2;
        const double x = tilted ? -slope / length : 0.0, z = tilted ? 1.0 / length : 1.0;
        /* u grows along x; seen upright or not, x is the first channel. */
        const uint8_t wanted[3] = {(uint8_t)floor((x * 0.5 + 0.5) * 255 + 0.5), 128, (uint8_t)floor((z * 0.5 + 0.5) * 255 + 0.5)};
        scene_quad quads[1], original[1];
        esi_surface out;
        scene s = {0};

        scene_square(quads[0], 2, 0, 0, 0, 0.2, true);
        scene_square(original[0], 2, 0, 0, 0, 0.4, true);
        for (int k = 0; k < 4 && tilted; k++) original[0][k][2] = (float)(slope * original[0][k][0]);
        scene_mesh(t.ctx, &s, quads, 1, SIZE, 4.0);
        scene_original(t.ctx, &s, original, 1, 8, turned ? 3 : 0);
        scene_voxels(t.ctx, &s, 16, any_voxel, NULL);
        bake(t.ctx, &out, &s, &options, NULL);
        assert_int_equal(out.n_textures, 3);
        assert_int_equal(out.materials[0].normal_texture, 2);
        assert_non_null(out.tangents);
        for (uint32_t y = 0; y < SIZE; y++) {
            for (uint32_t px = 0; px < SIZE; px++) assert_memory_equal(pixel(&out.textures[2], px, y), wanted, 3);
        }
        esi_surface_free(t.ctx, &out);
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

/* What a viewer computes from the map is the original's normal: a coarse box-like mesh over a sphere. */
static void normal_map_gives_the_original_back(void **state)
{
    enum { SIZE = 96, CUT = 24 };
    esi_bake_options options = esi_bake_options_clean(SIZE);
    scene_quad quads[6], around[6];
    esi_surface out;
    scene s = {0};
    test_base t;
    double worst = 0.0;

    (void)state;
    test_base_open(&t, 2);
    options.normal_map = true;
    scene_box(quads, (double[]){-0.2, -0.2, -0.2}, (double[]){0.2, 0.2, 0.2});
    scene_box(around, (double[]){-0.3, -0.3, -0.3}, (double[]){0.3, 0.3, 0.3});
    scene_mesh(t.ctx, &s, quads, 6, SIZE, 2.0);
    scene_original(t.ctx, &s, around, 6, CUT, 0);
    esi_bvh_free(t.ctx, s.bvh);
    for (int64_t v = 0; v < s.original.n_vertices; v++) {
        float *p = s.original.vertices + 3 * v;
        const float scale = 0.35f / sqrtf(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);

        for (int k = 0; k < 3; k++) p[k] *= scale;
    }
    assert_int_equal(esi_bvh_build(t.ctx, &s.bvh, &s.original), ESPALIER_OK);
    scene_voxels(t.ctx, &s, 16, any_voxel, NULL);
    bake(t.ctx, &out, &s, &options, NULL);
    for (uint32_t y = 0; y < SIZE; y++) {
        for (uint32_t x = 0; x < SIZE; x++) {
            const int chart = scene_chart_at(&s, SIZE, 2.0, x, y);
            const uint8_t *map = pixel(&out.textures[2], x, y);
            double n[3] = {0}, tan[3] = {0}, bit[3], p[3] = {0}, got[3], away[3], dot = 0, ln = 0, lt = 0, lp = 0, lg = 0, w[4], fx, fy;

            if (chart < 0) continue;
            /* Where in the two triangles (0, 1, 2), (0, 2, 3) of the chart? */
            fx = ((x + 0.5) / SIZE - out.uvs[8 * chart]) / ((double)out.uvs[8 * chart + 2] - out.uvs[8 * chart]);
            fy = ((y + 0.5) / SIZE - out.uvs[8 * chart + 1]) / ((double)out.uvs[8 * chart + 7] - out.uvs[8 * chart + 1]);
            memcpy(w, fx >= fy ? (double[]){1 - fx, fx - fy, fy, 0} : (double[]){1 - fy, 0, fx, fy - fx}, sizeof w);
            for (int k = 0; k < 4; k++) {
                for (int c = 0; c < 3; c++) {
                    n[c] += w[k] * out.normals[3 * (4 * chart + k) + c];
                    tan[c] += w[k] * out.tangents[4 * (4 * chart + k) + c];
                    p[c] += w[k] * out.mesh.vertices[3 * (4 * chart + k) + c];
                }
            }
            for (int c = 0; c < 3; c++) ln += n[c] * n[c], lt += tan[c] * tan[c], lp += p[c] * p[c];
            for (int c = 0; c < 3; c++) n[c] /= sqrt(ln), tan[c] /= sqrt(lt), away[c] = p[c] / sqrt(lp);
            for (int c = 0; c < 3; c++) {
                bit[c] = out.tangents[16 * chart + 3] * (n[(c + 1) % 3] * tan[(c + 2) % 3] - n[(c + 2) % 3] * tan[(c + 1) % 3]);
            }
            for (int c = 0; c < 3; c++) {
                got[c] = (map[0] / 127.5 - 1) * tan[c] + (map[1] / 127.5 - 1) * bit[c] + (map[2] / 127.5 - 1) * n[c];
                lg += got[c] * got[c];
            }
            for (int c = 0; c < 3; c++) dot += got[c] * away[c];
            dot /= sqrt(lg);
            worst = ESI_MAX(worst, 1.0 - dot);
        }
    }
    assert_true(worst < 4e-4);     /* 1.6 degrees: bytes, and the sphere's own facets */
    esi_surface_free(t.ctx, &out);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* The floor beside a wall: a texel that the wall covers from d = 0 on sees half of its sky; beyond the reach it sees all. */
static void occlusion(void **state)
{
    enum { SIZE = 64 };
    esi_bake_options options = esi_bake_options_clean(SIZE);
    scene_quad quads[1], original[2];
    esi_surface out;
    scene s = {0};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    options.occlusion_rays = 256;
    scene_square(quads[0], 2, 0, 0, 0, 0.4, true);             /* x from -0.4 to 0.4 */
    scene_square(original[0], 2, 0, 0, 0, 0.45, true);
    scene_square(original[1], 0, -0.4, 0, 0, 0.45, true);      /* wall at x = -0.4, facing +x */
    scene_mesh(t.ctx, &s, quads, 1, SIZE, 2.0);
    scene_original(t.ctx, &s, original, 2, 4, 0);
    scene_voxels(t.ctx, &s, 64, any_voxel, NULL);
    bake(t.ctx, &out, &s, &options, NULL);
    assert_true(out.materials[0].occlusion);
    for (uint32_t y = 8; y < SIZE - 8; y++) {
        double before = 0.0;

        for (uint32_t x = 2; x < SIZE - 2; x++) {
            const double value = pixel(&out.textures[1], x, y)[0] / 255.0, d = (x + 0.5 - 2) / (SIZE - 4) * 0.8;

            /* Share of the cosine-weighted sky within reach 0.1 of a wall at distance d: half of the disc's segment beyond d / 0.1 for
             * low walls, at most 1/2; the exact number is bounded by that of an endless wall without reach. */
            if (d > 0.11) assert_true(value == 1.0);
            if (d < 0.01) assert_true(value > 0.5 && value < 0.62);
            assert_true(value >= before - 0.02);
            before = value;
        }
    }
    esi_surface_free(t.ctx, &out);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* ------------------------------------------- a dark outermost layer (row 21) */

static bool layer_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    const float bright = z == 33 ? 0.05f : 0.8f;

    (void)arg;
    (void)x;
    (void)y;
    memcpy(attrs, (float[]){bright, bright, bright, 0, 1, 1}, 24);
    return z >= 31 && z <= 33;
}

/* The remeshed surface hovers over the original, here less, there more, so that its own places lie in this layer or that. */
static void no_salt_and_pepper(void **state)
{
    enum { SIZE = 128 };
    esi_bake_options options = esi_bake_options_clean(SIZE);
    scene_quad quads[36], whole[1];
    uint64_t seed = 4;
    esi_surface out;
    scene s = {0};
    int dark = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < 36; i++) {
        const double height = 32.5 + (test_random(&seed) % 120) / 100.0;

        scene_square(quads[i], 2, height / 64 - 0.5, -0.3 + i % 6 * 0.12, -0.3 + i / 6 * 0.12, 0.06, true);
    }
    scene_square(whole[0], 2, 32.5 / 64 - 0.5, 0, 0, 0.45, true);
    scene_mesh(t.ctx, &s, quads, 36, SIZE, 2.0);
    scene_original(t.ctx, &s, whole, 1, 58, 0);
    scene_voxels(t.ctx, &s, 64, layer_voxel, NULL);
    bake(t.ctx, &out, &s, &options, NULL);
    for (size_t i = 0; i < SIZE * SIZE; i++) assert_memory_equal(out.textures[0].pixels + 4 * i, ((uint8_t[]){204, 204, 204, 255}), 4);
    esi_surface_free(t.ctx, &out);
    options.snap = options.facing = false;
    bake(t.ctx, &out, &s, &options, NULL);
    for (size_t i = 0; i < SIZE * SIZE; i++) dark += out.textures[0].pixels[4 * i] < 150;
    assert_true(dark > SIZE * SIZE / 10);
    esi_surface_free(t.ctx, &out);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* ----------------------------------------------------------------- everything else */

static void everything_scene(espalier_context *ctx, scene *s, esi_bake_options *options)
{
    scene_quad quads[6];

    memset(s, 0, sizeof *s);
    scene_box(quads, (double[]){-0.3, -0.2, -0.1}, (double[]){0.3, 0.2, 0.1});
    scene_mesh(ctx, s, quads, 6, 77, 3.0);
    scene_box(quads, (double[]){-0.31, -0.19, -0.12}, (double[]){0.3, 0.21, 0.1});
    scene_original(ctx, s, quads, 6, 12, 0);
    scene_voxels(ctx, s, 32, noise_voxel, NULL);
    *options = esi_bake_options_clean(77);
    options->normal_map = true;
    options->occlusion_rays = 4;
}

static void threads_do_not_matter(void **state)
{
    static uint8_t first[2][3][77 * 77 * 4];
    esi_bake_stats stats, first_stats[2];

    (void)state;
    for (int i = 0; i < 6; i++) {
        const int threads[] = {1, 2, 5}, gutter = i / 3;
        esi_bake_options options;
        esi_surface out;
        scene s;
        test_base t;

        test_base_open(&t, threads[i % 3]);
        everything_scene(t.ctx, &s, &options);
        options.gutter = gutter ? ESI_GUTTER_TELEA : ESI_GUTTER_NEAREST;
        memset(&stats, 0, sizeof stats);
        bake(t.ctx, &out, &s, &options, &stats);
        for (int k = 0; k < 3; k++) {
            const size_t n = (size_t)77 * 77 * out.textures[k].channels;

            if (i % 3 == 0) memcpy(first[gutter][k], out.textures[k].pixels, n);
            assert_memory_equal(first[gutter][k], out.textures[k].pixels, n);
        }
        if (i % 3 == 0) first_stats[gutter] = stats;
        assert_true(first_stats[gutter].mean_snap_distance == stats.mean_snap_distance);
        assert_true(first_stats[gutter].translucent_share == stats.translucent_share);
        assert_true(first_stats[gutter].largest_translucent_share == stats.largest_translucent_share);
        assert_int_equal(first_stats[gutter].despeckled, stats.despeckled);
        esi_surface_free(t.ctx, &out);
        scene_free(t.ctx, &s);
        test_base_close(&t);
    }
}

static void failing_allocations(void **state)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    esi_bake_options options;
    esi_surface out;
    scene s;
    test_base t;
    size_t before;
    long n;

    (void)state;
    test_base_open(&t, 1);
    everything_scene(t.ctx, &s, &options);
    scene_input(&s);
    before = espalier_context_memory_now(t.ctx);
    for (n = 1; st != ESPALIER_OK && n < 500; n++) {
        test_fail_at(&t.memory, n);
        st = esi_bake(t.ctx, &out, &s.input, &options, NULL);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_int_equal(espalier_context_memory_now(t.ctx), before);
        assert_null(out.textures);
        esi_clear_error(t.ctx);
    }
    assert_int_equal(st, ESPALIER_OK);
    assert_true(n > 20);
    test_fail_at(&t.memory, 0);
    esi_surface_free(t.ctx, &out);
    espalier_context_set_memory_budget(t.ctx, before + 77 * 77 * 12);
    assert_int_equal(esi_bake(t.ctx, &out, &s.input, &options, NULL), ESPALIER_ERR_RESOURCE);
    assert_int_equal(espalier_context_memory_now(t.ctx), before);
    esi_clear_error(t.ctx);
    espalier_context_set_memory_budget(t.ctx, 0);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_bake(t.ctx, &out, &s.input, &options, NULL), ESPALIER_ERR_CANCELLED);
    esi_clear_error(t.ctx);
    assert_int_equal(espalier_context_memory_now(t.ctx), before);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* Asked to stop at the n-th allocation of a bake, whichever stage that belongs to. */
typedef struct stopping { test_base *t; long at, count; } stopping;

static void *allocate_and_stop(void *user, size_t size, size_t align)
{
    stopping *s = user;

    if (++s->count == s->at) espalier_context_cancel(s->t->ctx);
    return test_allocate(&s->t->memory, size, align);
}

static void release(void *user, void *ptr, size_t size)
{
    test_release(&((stopping *)user)->t->memory, ptr, size);
}

static void cancel_while_baking(void **state)
{
    esi_bake_options options;
    espalier_allocator before;
    stopping stop = {0};
    esi_surface out;
    int cancelled = 0;
    scene s;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    everything_scene(t.ctx, &s, &options);
    scene_input(&s);
    before = t.runtime.allocator;
    stop.t = &t;
    t.runtime.allocator = (espalier_allocator){&stop, allocate_and_stop, release};
    for (stop.at = 1; stop.at == 1 || stop.count >= stop.at - 1; stop.at++) {
        espalier_status st;

        stop.count = 0;
        st = esi_bake(t.ctx, &out, &s.input, &options, NULL);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_CANCELLED);
        cancelled += st != ESPALIER_OK;
        espalier_context_reset_cancel(t.ctx);
        esi_clear_error(t.ctx);
        esi_surface_free(t.ctx, &out);
    }
    assert_true(cancelled > 15);
    t.runtime.allocator = before;
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* Row 31: arrays of different lengths are found out before anything reads through them. */
static void arrays_that_do_not_go_together(void **state)
{
    esi_bake_options options;
    esi_bake_input input;
    esi_unwrapped unwrapped;
    esi_surface out;
    esi_volume volume;
    esi_mesh mesh;
    scene s;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    everything_scene(t.ctx, &s, &options);
    options.occlusion_rays = 0;
    for (int i = 0; i < 10; i++) {
        esi_bake_options o = options;
        espalier_status wanted = ESPALIER_ERR_INTERNAL;

        input = *scene_input(&s);
        unwrapped = s.unwrapped;
        volume = s.volume;
        mesh = s.mesh;
        input.unwrapped = &unwrapped;
        input.volume = &volume;
        input.mesh = &mesh;
        if (i == 0) mesh.n_vertices -= 1;                      /* hole filling came later */
        if (i == 1) unwrapped.n_vertices -= 1;
        if (i == 2) unwrapped.n_charts -= 1;
        if (i == 3) volume.channels = 5;
        if (i == 4) input.original_bvh = NULL;
        if (i == 5) input.original = NULL;
        if (i >= 6) wanted = ESPALIER_ERR_ARG;
        if (i == 6) o.texture_size = 15;
        if (i == 7) o.texture_size = 16385;
        if (i == 8) o.occlusion_rays = -1;
        if (i == 9) o.despeckle = ESI_BAKE_MAX_SPECK + 1;
        assert_int_equal(esi_bake(t.ctx, &out, &input, &o, NULL), wanted);
        assert_null(out.mesh.vertices);
        esi_clear_error(t.ctx);
    }
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* A mesh without faces: pictures of the size asked for, nothing in them. */
static void no_faces(void **state)
{
    esi_bake_options options;
    esi_bake_stats stats;
    esi_surface out;
    scene s;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    everything_scene(t.ctx, &s, &options);
    s.mesh.n_faces = 0;
    s.unwrapped.n_charts = 0;
    for (int i = 0; i < 2; i++) {
        options.gutter = i == 0 ? ESI_GUTTER_NEAREST : ESI_GUTTER_TELEA;
        bake(t.ctx, &out, &s, &options, &stats);
        assert_int_equal(stats.texels_covered, 0);
        assert_int_equal(out.textures[0].width, 77);
        assert_int_equal(out.mesh.n_faces, 0);
        esi_surface_free(t.ctx, &out);
    }
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

/* No voxel anywhere near: black, not a crash; and a bake that needs no original. */
static void nothing_near(void **state)
{
    shell volume = {.resolution = 256, .radius = 20.0, .attrs = {1, 1, 1, 1, 1, 1}};
    esi_bake_options options = esi_bake_options_clean(33);
    esi_bake_stats stats;
    esi_surface out;
    scene s;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    shell_scene(t.ctx, &s, 33, &volume);
    bake(t.ctx, &out, &s, &options, &stats);
    assert_int_equal(stats.texels_without_voxel, stats.texels_covered);
    assert_int_equal(stats.alpha_mode, ESI_ALPHA_OPAQUE);
    for (uint32_t i = 0; i < 33 * 33; i++) assert_memory_equal(out.textures[0].pixels + 4 * i, ((uint8_t[]){0, 0, 0, 255}), 4);
    esi_surface_free(t.ctx, &out);

    options.snap = options.facing = false;
    options.nearest_cells = 400.0;
    scene_input(&s);
    s.input.original = NULL;
    s.input.original_bvh = NULL;
    assert_int_equal(esi_bake(t.ctx, &out, &s.input, &options, &stats), ESPALIER_OK);
    assert_int_equal(stats.texels_nearest_voxel, stats.texels_covered);
    for (uint32_t i = 0; i < 33 * 33 * 4; i++) assert_int_equal(out.textures[0].pixels[i], 255);
    esi_surface_free(t.ctx, &out);
    scene_free(t.ctx, &s);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_bytes),
        cmocka_unit_test(clean_leaves_nothing_black),
        cmocka_unit_test(constant_volume),
        cmocka_unit_test(plates_keep_their_colours),
        cmocka_unit_test(gutter_is_nearest),
        cmocka_unit_test(specks_go),
        cmocka_unit_test(normal_map),
        cmocka_unit_test(normal_map_gives_the_original_back),
        cmocka_unit_test(occlusion),
        cmocka_unit_test(no_salt_and_pepper),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(cancel_while_baking),
        cmocka_unit_test(arrays_that_do_not_go_together),
        cmocka_unit_test(no_faces),
        cmocka_unit_test(nothing_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
