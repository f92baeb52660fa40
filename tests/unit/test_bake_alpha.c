/* SPDX-License-Identifier: MIT
 *
 * OPAQUE or BLEND: coherent translucent walls against stray texels (demand: opaque toys that looked holed, glass that came out opaque).
 */
#include "bake_fixture.h"

#define CELLS 64
#define SIZE 240
#define MARGIN 2.0

typedef enum pattern { SOLID, WALL, STRAY, MANY_STRAY, SMALL_HOLE, BLOCK, SCATTERED } pattern;

/* In the plane z = 32. */
static bool plane_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    const pattern p = *(const pattern *)arg;
    uint64_t seed = (uint64_t)(x * 64 + y + 1) * 2654435761u;
    const uint32_t chance = (test_random(&seed), test_random(&seed) % 1000);
    bool clear = false;

    if (p == WALL) clear = x < 32;
    if (p == STRAY) clear = chance < 1;
    if (p == MANY_STRAY) clear = chance < 40;
    if (p == SMALL_HOLE) clear = x >= 30 && x < 34 && y >= 30 && y < 34;       /* 16 of 4096 cells */
    memcpy(attrs, (float[]){0.5f, 0.5f, 0.5f, 0, 1, clear ? 0.3f : 1.0f}, 24);
    return z == 32;
}

static void plane_scene(espalier_context *ctx, scene *s, const pattern *p)
{
    scene_quad quads[1];

    memset(s, 0, sizeof *s);
    scene_square(quads[0], 2, 0.5 / CELLS, 0, 0, 0.5, true);
    scene_mesh(ctx, s, quads, 1, SIZE, MARGIN);
    scene_original(ctx, s, quads, 1, 64, 0);
    scene_voxels(ctx, s, CELLS, plane_voxel, p);
}

static esi_alpha_mode bake_mode(espalier_context *ctx, scene *s, esi_bake_options options, esi_bake_stats *stats, uint8_t range[2])
{
    esi_surface out;
    esi_alpha_mode mode;

    if (esi_bake(ctx, &out, scene_input(s), &options, stats) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    mode = out.materials[0].alpha_mode;
    assert_int_equal(mode, stats->alpha_mode);
    range[0] = 255;
    range[1] = 0;
    for (size_t i = 0; i < (size_t)options.texture_size * options.texture_size; i++) {
        range[0] = ESI_MIN(range[0], out.textures[0].pixels[4 * i + 3]);
        range[1] = ESI_MAX(range[1], out.textures[0].pixels[4 * i + 3]);
    }
    esi_surface_free(ctx, &out);
    return mode;
}

static void walls_and_strays(void **state)
{
    static const struct {
        pattern p;
        esi_alpha_mode mode;
        double least, most;        /* translucent share */
    } cases[] = {
        {SOLID, ESI_ALPHA_OPAQUE, 0, 0},           {WALL, ESI_ALPHA_BLEND, 0.495, 0.515},      {STRAY, ESI_ALPHA_OPAQUE, 1e-4, 0.008},
        {MANY_STRAY, ESI_ALPHA_OPAQUE, 0.03, 0.2}, {SMALL_HOLE, ESI_ALPHA_OPAQUE, 3e-3, 9e-3},
    };
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        esi_bake_stats stats;
        uint8_t range[2];
        scene s;

        plane_scene(t.ctx, &s, &cases[i].p);
        assert_int_equal(bake_mode(t.ctx, &s, esi_bake_options_clean(SIZE), &stats, range), cases[i].mode);
        assert_true(stats.translucent_share >= cases[i].least && stats.translucent_share <= cases[i].most);
        assert_true(stats.largest_translucent_share <= stats.translucent_share * 1.000001);
        assert_int_equal(range[1], 255);
        assert_int_equal(range[0], cases[i].mode == ESI_ALPHA_BLEND ? 77 : 255);       /* 0.3 * 255 = 76.5 */
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

static void asked_for(void **state)
{
    const pattern solid = SOLID, wall = WALL;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int mode = ESI_ALPHA_OPAQUE; mode <= ESI_ALPHA_BLEND; mode++) {
        esi_bake_options options = esi_bake_options_clean(SIZE);
        esi_bake_stats stats;
        uint8_t range[2];
        scene s;

        options.alpha_auto = false;
        options.alpha_mode = (esi_alpha_mode)mode;
        plane_scene(t.ctx, &s, mode == ESI_ALPHA_OPAQUE ? &wall : &solid);
        assert_int_equal(bake_mode(t.ctx, &s, options, &stats, range), mode);
        assert_int_equal(range[0], 255);
        if (mode == ESI_ALPHA_OPAQUE) assert_true(stats.largest_translucent_share > 0.49);
        options.keep_alpha = true;
        bake_mode(t.ctx, &s, options, &stats, range);
        assert_int_equal(range[0], mode == ESI_ALPHA_OPAQUE ? 77 : 255);
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

/* 15 x 15 charts, each 0.44 % of a plane, of which four are translucent: side by side they are one patch across their seams. */
static bool chart_voxel(const void *arg, int x, int y, int z, float attrs[6])
{
    const pattern p = *(const pattern *)arg;
    const int i = x / 4, j = y / 4;            /* of 60 x 60 cells */
    bool clear;

    if (p == BLOCK) clear = (i == 6 || i == 7) && (j == 6 || j == 7);
    else clear = (i == 2 || i == 11) && (j == 3 || j == 9);
    memcpy(attrs, (float[]){0.5f, 0.5f, 0.5f, 0, 1, clear ? 0.3f : 1.0f}, 24);
    return z == 30;
}

static void patches_cross_seams(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (pattern p = BLOCK; p <= SCATTERED; p++) {
        esi_bake_options options = esi_bake_options_clean(SIZE);
        scene_quad quads[225], whole[1];
        esi_bake_stats stats;
        uint8_t range[2];
        scene s = {0};
        esi_alpha_mode mode;

        for (int i = 0; i < 225; i++) {
            for (int k = 0; k < 4; k++) {
                quads[i][k][0] = (float)((i % 15 + (k == 1 || k == 2)) / 15.0 - 0.5);
                quads[i][k][1] = (float)((i / 15 + (k >= 2)) / 15.0 - 0.5);
                quads[i][k][2] = (float)(0.5 / 60);
            }
        }
        scene_square(whole[0], 2, 0.5 / 60, 0, 0, 0.5, true);
        scene_mesh(t.ctx, &s, quads, 225, SIZE, 2.0);
        scene_original(t.ctx, &s, whole, 1, 60, 0);
        scene_voxels(t.ctx, &s, 60, chart_voxel, &p);
        mode = bake_mode(t.ctx, &s, options, &stats, range);
        assert_true(stats.translucent_share > 0.012 && stats.translucent_share < 0.03);
        assert_int_equal(mode, p == BLOCK ? ESI_ALPHA_BLEND : ESI_ALPHA_OPAQUE);
        /* What interpolation carries into the charts around is cut off from the patch by the seams. */
        if (p == BLOCK) assert_true(stats.largest_translucent_share > 4.0 / 225 - 1e-3);
        if (p == SCATTERED) assert_true(stats.largest_translucent_share < 0.005);
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

/* Two squares with as many texels each, one of 40 times the other's side: only area in space counts. */
static bool upper_clear(const void *arg, int x, int y, int z, float attrs[6])
{
    const bool clear = (z > 32) == *(const bool *)arg;

    (void)x;
    (void)y;
    memcpy(attrs, (float[]){0.5f, 0.5f, 0.5f, 0, 1, clear ? 0.3f : 1.0f}, 24);
    return z == 20 || z == 44;
}

static void area_in_space_counts(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int small_clear = 0; small_clear < 2; small_clear++) {
        const bool upper = small_clear == 1;
        scene_quad quads[2];
        esi_bake_stats stats;
        uint8_t range[2];
        scene s = {0};

        scene_square(quads[0], 2, 20.5 / CELLS - 0.5, 0, 0, 0.4, true);
        scene_square(quads[1], 2, 44.5 / CELLS - 0.5, 0, 0, 0.01, true);
        scene_mesh(t.ctx, &s, quads, 2, 64, 2.0);
        scene_original(t.ctx, &s, quads, 2, 20, 0);
        scene_voxels(t.ctx, &s, CELLS, upper_clear, &upper);
        assert_int_equal(bake_mode(t.ctx, &s, esi_bake_options_clean(64), &stats, range), upper ? ESI_ALPHA_OPAQUE : ESI_ALPHA_BLEND);
        assert_true(fabs(stats.translucent_share - (upper ? 1.0 : 1600.0) / 1601.0) < 1e-5);
        scene_free(t.ctx, &s);
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walls_and_strays),
        cmocka_unit_test(asked_for),
        cmocka_unit_test(patches_cross_seams),
        cmocka_unit_test(area_in_space_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
