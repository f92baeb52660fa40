/* SPDX-License-Identifier: MIT
 *
 * Pictures around the matting networks: values from the recipes' formulas, flat maps and black pictures, alpha that must not bleed,
 * refusals, failing allocations; and the gather tables behind the networks, by hand. Byte-exact comparisons with the reference are golden
 * cases.
 */
#include "weights_fixture.h"

#include "formats/image_codecs.h"
#include "formats/image_sample.h"
#include "formats/matte.h"
#include "models/image_tables.h"

#include <math.h>

static espalier_image picture(fixture *f, uint32_t w, uint32_t h, uint32_t channels, uint8_t value)
{
    espalier_image image;
    assert_int_equal(esi_image_new(f->ctx, &image, w, h, channels), ESPALIER_OK);
    memset(image.pixels, value, esi_image_size(&image));
    return image;
}

/* ------------------------------------------------------------------- before */

/* A flat picture stays flat through every filter, so each recipe's normalisation shows alone. */
static void test_normalisation(void **state)
{
    fixture *f = *state;
    const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
    for (int recipe = 0; recipe < ESI_MATTE_RECIPE_COUNT; recipe++) {
        espalier_image image = picture(f, 9, 5, 3, 51), resized;
        float *values;
        assert_int_equal(esi_matte_prepare(f->ctx, &values, &image, (esi_matte_recipe)recipe, 8, &resized), ESPALIER_OK);
        assert_int_equal(resized.width, 8);
        assert_int_equal(resized.height, 8);
        for (int i = 0; i < 3 * 64; i++) {
            const double v = recipe == ESI_MATTE_U2NET ? 1.0 : 51.0 / 255.0; /* divided by the largest */
            const double want = recipe == ESI_MATTE_ISNET ? v - 0.5 : (v - mean[i / 64]) / deviation[i / 64];
            assert_int_equal(resized.pixels[i], 51);
            assert_true(fabs((double)values[i] - want) < 1e-6);
        }
        esi_free(f->ctx, values);
        espalier_image_free(&resized);
        espalier_image_free(&image);
    }
}

static void test_black_picture(void **state)
{
    fixture *f = *state;
    espalier_image image = picture(f, 4, 4, 3, 0);
    float *values;
    assert_int_equal(esi_matte_prepare(f->ctx, &values, &image, ESI_MATTE_U2NET, 4, NULL), ESPALIER_OK);
    for (int i = 0; i < 16; i++) assert_true(fabs((double)values[i] + 0.485 / 0.229) < 1e-6);
    esi_free(f->ctx, values);
    espalier_image_free(&image);
}

/* Colours under a transparent pixel count as they are: same values as without the alpha channel. */
static void test_alpha_is_dropped(void **state)
{
    fixture *f = *state;
    for (int recipe = 0; recipe < ESI_MATTE_RECIPE_COUNT; recipe++) {
        espalier_image rgb = picture(f, 7, 6, 3, 0), rgba = picture(f, 7, 6, 4, 0);
        float *a, *b;
        for (uint32_t i = 0; i < 42; i++) {
            for (uint32_t c = 0; c < 3; c++) rgb.pixels[3 * i + c] = rgba.pixels[4 * i + c] = (uint8_t)(i * 29 + c * 71);
            rgba.pixels[4 * i + 3] = (uint8_t)(i % 3 * 127);
        }
        assert_int_equal(esi_matte_prepare(f->ctx, &a, &rgb, (esi_matte_recipe)recipe, 10, NULL), ESPALIER_OK);
        assert_int_equal(esi_matte_prepare(f->ctx, &b, &rgba, (esi_matte_recipe)recipe, 10, NULL), ESPALIER_OK);
        assert_memory_equal(a, b, 300 * sizeof *a);
        esi_free(f->ctx, a);
        esi_free(f->ctx, b);
        espalier_image_free(&rgb);
        espalier_image_free(&rgba);
    }
}

/* -------------------------------------------------------------------- after */

static void test_bytes(void **state)
{
    fixture *f = *state;
    const float map[4] = {0.25f, 0.999f, 1.0f, NAN}, stretched[4] = {0.2f, 0.3f, 0.4f, 0.6f};
    espalier_image mask, small;
    assert_int_equal(esi_matte_finish(f->ctx, &mask, map, 2, ESI_MATTE_BIREFNET, 2, 2, &small), ESPALIER_OK);
    assert_memory_equal(mask.pixels, ((const uint8_t[]){63, 254, 255, 0}), 4); /* cut off, not rounded; no number is clear */
    assert_memory_equal(small.pixels, mask.pixels, 4);
    espalier_image_free(&mask);
    espalier_image_free(&small);
    for (int recipe = ESI_MATTE_U2NET; recipe <= ESI_MATTE_ISNET; recipe++) {
        assert_int_equal(esi_matte_finish(f->ctx, &mask, stretched, 2, (esi_matte_recipe)recipe, 2, 2, NULL), ESPALIER_OK);
        assert_memory_equal(mask.pixels, ((const uint8_t[]){0, 63, 127, 255}), 4);
        espalier_image_free(&mask);
    }
}

static void test_flat_map_is_empty(void **state)
{
    fixture *f = *state;
    float map[16];
    espalier_image mask;
    for (int i = 0; i < 16; i++) map[i] = 0.7f;
    for (int recipe = ESI_MATTE_U2NET; recipe <= ESI_MATTE_ISNET; recipe++) {
        assert_int_equal(esi_matte_finish(f->ctx, &mask, map, 4, (esi_matte_recipe)recipe, 5, 3, NULL), ESPALIER_OK);
        for (int i = 0; i < 15; i++) assert_int_equal(mask.pixels[i], 0);
        espalier_image_free(&mask);
    }
}

static void test_apply(void **state)
{
    fixture *f = *state;
    espalier_image rgb = picture(f, 3, 2, 3, 9), mask = picture(f, 3, 2, 1, 0), wrong = picture(f, 2, 3, 1, 0), out;
    for (uint8_t i = 0; i < 6; i++) mask.pixels[i] = (uint8_t)(40 * i);
    assert_int_equal(esi_matte_apply(f->ctx, &out, &rgb, &mask), ESPALIER_OK);
    for (uint8_t i = 0; i < 6; i++) assert_memory_equal(out.pixels + 4 * i, ((const uint8_t[]){9, 9, 9, (uint8_t)(40 * i)}), 4);
    espalier_image_free(&out);
    assert_int_equal(esi_matte_apply(f->ctx, &out, &rgb, &wrong), ESPALIER_ERR_ARG);
    assert_null(out.pixels);
    esi_clear_error(f->ctx);
    float *values;
    assert_int_equal(esi_matte_prepare(f->ctx, &values, &mask, ESI_MATTE_BIREFNET, 8, NULL), ESPALIER_ERR_ARG);
    esi_clear_error(f->ctx);
    espalier_image_free(&rgb);
    espalier_image_free(&mask);
    espalier_image_free(&wrong);
}

static void test_failing_allocations(void **state)
{
    fixture *f = *state;
    float map[16];
    for (int i = 0; i < 16; i++) map[i] = (float)i / 16.0f;
    for (int recipe = 0; recipe < ESI_MATTE_RECIPE_COUNT; recipe++) {
        espalier_image rgba = picture(f, 9, 7, 4, 90), resized = {0}, mask = {0}, small = {0};
        espalier_status st = ESPALIER_ERR_RESOURCE;
        for (long at = 0; st != ESPALIER_OK; at++) {
            float *values = NULL;
            f->fail_in = at;
            st = esi_matte_prepare(f->ctx, &values, &rgba, (esi_matte_recipe)recipe, 6, &resized);
            if (st == ESPALIER_OK) st = esi_matte_finish(f->ctx, &mask, map, 4, (esi_matte_recipe)recipe, 9, 7, &small);
            f->fail_in = -1;
            assert_true(st == ESPALIER_OK || st == ESPALIER_ERR_RESOURCE);
            esi_clear_error(f->ctx);
            esi_free(f->ctx, values);
            espalier_image_free(&resized);
            espalier_image_free(&mask);
            espalier_image_free(&small);
            assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        }
        espalier_image_free(&rgba);
    }
}

/* ------------------------------------------------------------------- tables */

static void expect_table(fixture *f, esi_tensor t, const int32_t *want)
{
    int32_t got[256];
    assert_true(t.rows * t.cols <= 256);
    assert_int_equal(esi_tensor_read(f->ctx, t, got), ESPALIER_OK);
    assert_memory_equal(got, want, (size_t)(t.rows * t.cols) * sizeof *got);
}

static void test_tables(void **state)
{
    fixture *f = *state;
    esi_scope scope = esi_scope_begin(f->ctx);
    esi_tensor t, u;

    /* 3 x 3 pixels, pooled with ceil mode: windows over the border are cut. */
    assert_int_equal(esi_pool_table(f->ctx, &t, (esi_grid){3, 3}), ESPALIER_OK);
    expect_table(f, t, (const int32_t[]){0, 1, 3, 4, 2, -1, 5, -1, 6, 7, -1, -1, 8, -1, -1, -1});
    /* Second output row of a strided convolution over 3 x 4. */
    const esi_conv_geometry g = {.kernel = 3, .stride = 2, .padding = 1, .dilation = 1};
    assert_int_equal(esi_conv_table(f->ctx, &t, (esi_grid){3, 4}, &g, 2, 1), ESPALIER_OK);
    expect_table(f, t, (const int32_t[]){-1, 4, 5, -1, 8, 9, -1, -1, -1});
    /* Merging: down before across. */
    assert_int_equal(esi_merge_index(f->ctx, &t, (esi_grid){2, 3}), ESPALIER_OK);
    expect_table(f, t, (const int32_t[]){0, 3, 1, 4, 2, 5, -1, -1});
    /* A 2 x 4 picture as two tiles of 2 x 2. */
    assert_int_equal(esi_tile_index(f->ctx, &t, (esi_grid){2, 4}, (esi_grid){2, 2}), ESPALIER_OK);
    expect_table(f, t, (const int32_t[]){0, 2, 1, 3, 4, 6, 5, 7});
    /* One row of three tokens, padded to two windows of 2 x 2, rolled by one. */
    assert_int_equal(esi_window_tables(f->ctx, &t, &u, (esi_grid){1, 3}, 2, 1), ESPALIER_OK);
    expect_table(f, t, (const int32_t[]){-1, -1, 1, 2, -1, -1, -1, 0});
    expect_table(f, u, (const int32_t[]){3, 3, 6, 6, 4, 5, 7, 8});
    assert_int_equal(esi_window_tables(f->ctx, &t, &u, (esi_grid){1, 3}, 2, 0), ESPALIER_OK);
    assert_true(esi_tensor_is_null(u));
    esi_scope_end(f->ctx, scope);
}

static void expect_taps(esi_linear_taps t, int64_t a, int64_t b, double weight)
{
    assert_int_equal(t.index[0], a);
    assert_int_equal(t.index[1], b);
    assert_true(fabs((double)t.weight[1] - weight) < 1e-6);
    assert_true(fabs((double)t.weight[0] + (double)t.weight[1] - 1.0) < 1e-6);
}

static void test_linear_taps(void **state)
{
    (void)state;
    expect_taps(esi_linear_taps_at(0, 4, 8, false), 0, 1, 0.0);
    expect_taps(esi_linear_taps_at(1, 4, 8, false), 0, 1, 0.25);
    expect_taps(esi_linear_taps_at(7, 4, 8, false), 3, 3, 0.25);
    expect_taps(esi_linear_taps_at(3, 4, 7, true), 1, 2, 0.5);
    expect_taps(esi_linear_taps_at(6, 4, 7, true), 3, 3, 0.0);
    expect_taps(esi_linear_taps_at(0, 5, 1, true), 0, 1, 0.0);
    expect_taps(esi_linear_taps_at(2, 1, 3, true), 0, 0, 0.0);
}

static espalier_status deform_corners(fixture *f, const float offset[2], int32_t index[4], float weight[4])
{
    static const esi_conv_geometry g = {.kernel = 1, .stride = 1, .dilation = 1};
    const float mask = 0.5f;
    esi_scope scope = esi_scope_begin(f->ctx);
    esi_tensor t, w;
    espalier_status st = esi_deform_table(f->ctx, &t, &w, (esi_grid){3, 3}, &g, offset, &mask, 2.0f, 4, 1); /* the middle pixel */
    if (st == ESPALIER_OK) st = esi_tensor_read(f->ctx, t, index);
    if (st == ESPALIER_OK) st = esi_tensor_read(f->ctx, w, weight);
    esi_scope_end(f->ctx, scope);
    return st;
}

static void test_deform_table(void **state)
{
    static const struct {
        float offset[2];
        int32_t index[4];
        float weight[4];
    } rows[] = {
        {{0.0f, 0.0f}, {4, 5, 7, 8}, {1.0f, 0.0f, 0.0f, 0.0f}},
        {{0.5f, -0.25f}, {3, 4, 6, 7}, {0.125f, 0.375f, 0.125f, 0.375f}},
        {{-1.5f, 0.0f}, {-1, -1, 1, 2}, {0.0f, 0.0f, 0.5f, 0.0f}}, /* half outside */
        {{1.5f, 1.75f}, {8, -1, -1, -1}, {0.125f, 0.0f, 0.0f, 0.0f}},
        {{-2.0f, 0.0f}, {-1, -1, -1, -1}, {0.0f, 0.0f, 0.0f, 0.0f}}, /* a whole pixel outside */
        {{0.0f, 2.0f}, {-1, -1, -1, -1}, {0.0f, 0.0f, 0.0f, 0.0f}},
        {{NAN, 0.0f}, {-1, -1, -1, -1}, {0.0f, 0.0f, 0.0f, 0.0f}},
        {{0.0f, -INFINITY}, {-1, -1, -1, -1}, {0.0f, 0.0f, 0.0f, 0.0f}},
        {{3e30f, 3e30f}, {-1, -1, -1, -1}, {0.0f, 0.0f, 0.0f, 0.0f}},
    };
    fixture *f = *state;
    for (size_t i = 0; i < ESI_COUNT(rows); i++) {
        int32_t index[4];
        float weight[4];
        assert_int_equal(deform_corners(f, rows[i].offset, index, weight), ESPALIER_OK);
        assert_memory_equal(index, rows[i].index, sizeof index);
        for (int k = 0; k < 4; k++) assert_true(fabsf(weight[k] - rows[i].weight[k]) < 1e-6f);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_normalisation),     TEST(test_black_picture), TEST(test_alpha_is_dropped),    TEST(test_bytes),
        TEST(test_flat_map_is_empty), TEST(test_apply),         TEST(test_failing_allocations), TEST(test_tables),
        TEST(test_linear_taps),       TEST(test_deform_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
