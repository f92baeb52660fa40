/* SPDX-License-Identifier: MIT
 *
 * Resizing, against values from Pillow and against an independent calculation in long double.
 */
#include "weights_fixture.h"

#include "formats/image_codecs.h"
#include "formats/image_resize.h"

#include <math.h>

static void fill(espalier_image *image, uint32_t seed, int kind)
{
    uint32_t v = seed * 2654435761u + 12345u;
    for (size_t i = 0; i < esi_image_size(image); i++) {
        v = v * 1664525u + 1013904223u;
        image->pixels[i] = (uint8_t)(kind == 0 ? v >> 24 : (v >> 31) * 255);
        if (image->channels == 4 && i % 4 == 3 && kind == 2) image->pixels[i] = (const uint8_t[]){0, 1, 2, 128, 254, 255}[(v >> 24) % 6];
    }
}

/* ---------------------------------------------------- values from Pillow */

/* esi_image_hash of what Pillow 9.4 makes of fill(seed, kind) at `from`. */
static const struct { uint32_t w, h, channels, to_w, to_h, seed; int kind; uint64_t bilinear, bicubic, lanczos; } cases[] = {
    {1, 1, 1, 3, 2, 1, 1, UINT64_C(0x5da987368d0f3c2d), UINT64_C(0x5da987368d0f3c2d), UINT64_C(0x5da987368d0f3c2d)},
    {5, 7, 1, 16, 16, 2, 2, UINT64_C(0x6537d589f8b37c7a), UINT64_C(0x6f6750dacacbdd7f), UINT64_C(0x08ef5746a55225aa)},
    {64, 48, 1, 9, 11, 3, 0, UINT64_C(0x5cf266dc0c3825be), UINT64_C(0x91e4fa590a0cc544), UINT64_C(0x6f44bb6475d173ad)},
    {33, 40, 1, 33, 17, 4, 1, UINT64_C(0xe5bbfe631f680a61), UINT64_C(0x7a6dbf6e65aeb448), UINT64_C(0x26810535d26fb195)},
    {33, 40, 1, 12, 40, 5, 2, UINT64_C(0x374ace6ff17c844b), UINT64_C(0xd24801e91238e290), UINT64_C(0x9f80fc692971237e)},
    {100, 3, 1, 37, 9, 6, 0, UINT64_C(0x219be78d2fc3e738), UINT64_C(0xa72191241b6c71b2), UINT64_C(0xbe15602162b6193c)},
    {50, 50, 1, 49, 51, 7, 1, UINT64_C(0x13feb02895edf305), UINT64_C(0x61112ffd7d3fade3), UINT64_C(0xaeb40976530111fc)},
    {31, 29, 1, 64, 64, 8, 2, UINT64_C(0xe9731461709a7a1d), UINT64_C(0x8c75a4ec40101885), UINT64_C(0x8d85156f2f7aefd7)},
    {120, 80, 1, 40, 40, 9, 0, UINT64_C(0x600a940faa0732ab), UINT64_C(0xc3a1cf75e83ed1ce), UINT64_C(0x61e9f04034dc0213)},
    {1, 1, 3, 3, 2, 10, 1, UINT64_C(0x599b5abe4033cc0f), UINT64_C(0x599b5abe4033cc0f), UINT64_C(0x599b5abe4033cc0f)},
    {5, 7, 3, 16, 16, 11, 2, UINT64_C(0xaffeebac248ea718), UINT64_C(0x1f6690876a850efa), UINT64_C(0x4692fb283c9f96d3)},
    {64, 48, 3, 9, 11, 12, 0, UINT64_C(0xf73c2d674209ef41), UINT64_C(0x2c679cf641f6d2a4), UINT64_C(0x99686a2f87e74abe)},
    {33, 40, 3, 33, 17, 13, 1, UINT64_C(0xe8712606a58056e2), UINT64_C(0x11d26360f672a394), UINT64_C(0xf5b05e5d0ce59fde)},
    {33, 40, 3, 12, 40, 14, 2, UINT64_C(0x9bb8dbdc39525679), UINT64_C(0xcf0a4fd00706c8a9), UINT64_C(0x01b6b7a390238e61)},
    {100, 3, 3, 37, 9, 15, 0, UINT64_C(0x050f6a79c91068e5), UINT64_C(0x40cbb2914d1b6540), UINT64_C(0x744ef2f20474a785)},
    {50, 50, 3, 49, 51, 16, 1, UINT64_C(0x36ed4e559e650cc2), UINT64_C(0xd996fad24387ff30), UINT64_C(0x571d323ee8b9360a)},
    {31, 29, 3, 64, 64, 17, 2, UINT64_C(0x2392099e1315b7ed), UINT64_C(0xa5709f40c0e6ede9), UINT64_C(0x78d688d8d4d4e148)},
    {120, 80, 3, 40, 40, 18, 0, UINT64_C(0x66954beae8843b49), UINT64_C(0x1d5665089b212bd5), UINT64_C(0x99d6c05617c054f9)},
    {1, 1, 4, 3, 2, 19, 1, UINT64_C(0x85a755301c1d1ec0), UINT64_C(0x85a755301c1d1ec0), UINT64_C(0x85a755301c1d1ec0)},
    {5, 7, 4, 16, 16, 20, 2, UINT64_C(0xb36c9774bc9cc503), UINT64_C(0x00a958769285c479), UINT64_C(0xa3e90703ecd17c09)},
    {64, 48, 4, 9, 11, 21, 0, UINT64_C(0x107371b91fefa904), UINT64_C(0x9f3d9390881fca67), UINT64_C(0x4ba0a7740fd58ab5)},
    {33, 40, 4, 33, 17, 22, 1, UINT64_C(0x9c05440f9a15a115), UINT64_C(0x5468e1fa31b0f112), UINT64_C(0xa7751fcd33457a81)},
    {33, 40, 4, 12, 40, 23, 2, UINT64_C(0xf7c0b0515c9e45df), UINT64_C(0x5785ae032463f012), UINT64_C(0x24e0e8aab2c2d3a3)},
    {100, 3, 4, 37, 9, 24, 0, UINT64_C(0x718cea0a2ae6480f), UINT64_C(0x7bf85d7127e95b86), UINT64_C(0xe4bd054d858f232c)},
    {50, 50, 4, 49, 51, 25, 1, UINT64_C(0x5c0f03049ec555ac), UINT64_C(0x71abba7f795555b0), UINT64_C(0xfe58b7bd2ebf3097)},
    {31, 29, 4, 64, 64, 26, 2, UINT64_C(0x6cbd5d3f0515630e), UINT64_C(0x77518c56aef9376e), UINT64_C(0x68b6c9bf4a16d2d7)},
    {120, 80, 4, 40, 40, 27, 0, UINT64_C(0x72a969b0645f40b5), UINT64_C(0x8780d7927435bce4), UINT64_C(0xafc9a7594df8803e)},
};

static void as_pillow(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        const uint64_t want[3] = {cases[i].bilinear, cases[i].bicubic, cases[i].lanczos};
        espalier_image in, out;
        assert_int_equal(esi_image_new(f->ctx, &in, cases[i].w, cases[i].h, cases[i].channels), ESPALIER_OK);
        fill(&in, cases[i].seed, cases[i].kind);
        for (int filter = 0; filter < 3; filter++) {
            assert_int_equal(esi_image_resize(f->ctx, &out, &in, cases[i].to_w, cases[i].to_h, (esi_resize_filter)filter), ESPALIER_OK);
            assert_int_equal(out.width, cases[i].to_w);
            assert_int_equal(out.height, cases[i].to_h);
            assert_int_equal(out.channels, cases[i].channels);
            if (esi_image_hash(&out) != want[filter]) fail_msg("case %zu filter %d", i, filter);
            espalier_image_free(&out);
        }
        espalier_image_free(&in);
    }
}

/* ------------------------------------------------ independent calculation */

static long double kernel(esi_resize_filter filter, long double x)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    x = fabsl(x);
    if (filter == ESI_RESIZE_BILINEAR) return x < 1 ? 1 - x : 0;
    if (filter == ESI_RESIZE_LANCZOS) {
        if (x == 0) return 1;
        return x < 3 ? 3 * sinl(pi * x) * sinl(pi * x / 3) / (pi * pi * x * x) : 0;
    }
    if (x < 1) return 1.5L * x * x * x - 2.5L * x * x + 1;
    return x < 2 ? -0.5L * x * x * x + 2.5L * x * x - 4 * x + 2 : 0;
}

/* One row of bytes to another length: convolution with the stretched kernel, rounded once. */
static void resize_row(uint8_t *to, const uint8_t *from, int n, int n_out, esi_resize_filter filter)
{
    const long double scale = (long double)n / n_out, stretch = scale > 1 ? scale : 1;
    for (int i = 0; i < n_out; i++) {
        long double sum = 0, weights = 0;
        for (int j = 0; j < n; j++) {
            long double w = kernel(filter, (j + 0.5L - (i + 0.5L) * scale) / stretch);
            sum += w * from[j];
            weights += w;
        }
        long double v = floorl(sum / weights + 0.5L);
        to[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

/* One pass, so that the result is the rounded convolution to within a count (weights have 22 bits); horizontally and vertically alike. */
static void is_a_convolution(void **state)
{
    static const uint32_t lengths[][2] = {{1, 7}, {2, 3}, {3, 2}, {10, 64}, {64, 10}, {97, 31}, {200, 199}, {1000, 3}, {5, 1}};
    fixture *f = *state;
    for (size_t k = 0; k < ESI_COUNT(lengths); k++) {
        const uint32_t n = lengths[k][0], n_out = lengths[k][1];
        for (int filter = 0; filter < 3; filter++) {
            espalier_image in, out;
            uint8_t want[256];
            assert_int_equal(esi_image_new(f->ctx, &in, n, 1, 1), ESPALIER_OK);
            fill(&in, (uint32_t)k, (int)(k & 1));
            resize_row(want, in.pixels, (int)n, (int)n_out, (esi_resize_filter)filter);
            for (int down = 0; down < 2; down++) {
                in.width = down ? 1 : n;
                in.height = down ? n : 1;
                const uint32_t w = down ? 1 : n_out, h = down ? n_out : 1;
                assert_int_equal(esi_image_resize(f->ctx, &out, &in, w, h, (esi_resize_filter)filter), ESPALIER_OK);
                for (uint32_t i = 0; i < n_out; i++) {
                    if (abs(out.pixels[i] - want[i]) > 1) fail_msg("%u to %u, filter %d", (unsigned)n, (unsigned)n_out, filter);
                }
                espalier_image_free(&out);
            }
            espalier_image_free(&in);
        }
    }
}

/* ------------------------------------------------------------ properties */

/* A plain colour stays what it is, and sums of weights never overflow: white at every ratio, where all positive weights add up. */
static void plain_colours_stay(void **state)
{
    fixture *f = *state;
    for (uint32_t n = 1; n <= 24; n++) {
        for (uint32_t n_out = 1; n_out <= 24; n_out++) {
            for (uint8_t value = 255; value >= 127; value = (uint8_t)(value - 128)) {
                espalier_image in, out;
                assert_int_equal(esi_image_new(f->ctx, &in, n, n, 3), ESPALIER_OK);
                memset(in.pixels, value, esi_image_size(&in));
                assert_int_equal(esi_image_resize(f->ctx, &out, &in, n_out, n_out, ESI_RESIZE_LANCZOS), ESPALIER_OK);
                for (size_t i = 0; i < esi_image_size(&out); i++) assert_int_equal(out.pixels[i], value);
                espalier_image_free(&in);
                espalier_image_free(&out);
                if (value == 127) break;
            }
        }
    }
}

/* Alternating black and white at every ratio: the largest sums of one sign that the weights can make. UBSan watches the arithmetic. */
static void extreme_patterns(void **state)
{
    fixture *f = *state;
    for (uint32_t n = 1; n <= 20; n++) {
        for (uint32_t n_out = 1; n_out <= 60; n_out++) {
            for (uint32_t pattern = 0; pattern < 16; pattern++) {
                espalier_image in, out;
                assert_int_equal(esi_image_new(f->ctx, &in, n, 1, 1), ESPALIER_OK);
                for (uint32_t i = 0; i < n; i++) in.pixels[i] = (pattern >> (i % 4) & 1) != 0 ? 255 : 0;
                assert_int_equal(esi_image_resize(f->ctx, &out, &in, n_out, 1, ESI_RESIZE_LANCZOS), ESPALIER_OK);
                espalier_image_free(&in);
                espalier_image_free(&out);
            }
        }
    }
}

static void same_size_is_a_copy(void **state)
{
    fixture *f = *state;
    espalier_image in, out;
    assert_int_equal(esi_image_new(f->ctx, &in, 9, 5, 4), ESPALIER_OK);
    fill(&in, 4, 2);                                        /* colour under alpha 0 would not survive premultiplication */
    assert_int_equal(esi_image_resize(f->ctx, &out, &in, 9, 5, ESI_RESIZE_LANCZOS), ESPALIER_OK);
    assert_memory_equal(out.pixels, in.pixels, esi_image_size(&in));
    assert_ptr_not_equal(out.pixels, in.pixels);
    espalier_image_free(&in);
    espalier_image_free(&out);
}

/* The colour of invisible pixels does not bleed into visible ones. */
static void colour_is_premultiplied(void **state)
{
    fixture *f = *state;
    espalier_image in, out;
    assert_int_equal(esi_image_new(f->ctx, &in, 40, 40, 4), ESPALIER_OK);
    for (size_t i = 0; i < 40 * 40; i++) {
        const bool visible = (i / 7) % 2 == 0;
        const uint8_t pixel[4] = {visible ? 200 : 0, visible ? 100 : 255, 50, visible ? 255 : 0};
        memcpy(in.pixels + i * 4, pixel, 4);
    }
    for (int filter = 0; filter < 3; filter++) {
        assert_int_equal(esi_image_resize(f->ctx, &out, &in, 23, 40, (esi_resize_filter)filter), ESPALIER_OK);
        for (size_t i = 0; i < 23 * 40; i++) {
            if (out.pixels[i * 4 + 3] < 64) continue;
            const int tolerance = filter == ESI_RESIZE_BILINEAR ? 4 : 40;      /* colour and alpha overshoot and are clamped apart */
            assert_true(abs(out.pixels[i * 4] - 200) <= tolerance);
            assert_true(abs(out.pixels[i * 4 + 1] - 100) <= tolerance);
        }
        espalier_image_free(&out);
    }
    espalier_image_free(&in);
}

static uint64_t hash_with_threads(int threads)
{
    espalier_runtime *runtime;
    espalier_context *ctx;
    espalier_image in, out;
    espalier_runtime_options options = espalier_runtime_options_default();
    options.threads = threads;
    assert_int_equal(espalier_runtime_create(&runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&ctx, runtime), ESPALIER_OK);
    assert_int_equal(esi_image_new(ctx, &in, 301, 257, 4), ESPALIER_OK);
    fill(&in, 8, 0);
    assert_int_equal(esi_image_resize(ctx, &out, &in, 111, 333, ESI_RESIZE_LANCZOS), ESPALIER_OK);
    uint64_t hash = esi_image_hash(&out);
    espalier_image_free(&in);
    espalier_image_free(&out);
    assert_int_equal(espalier_context_memory_now(ctx), 0);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return hash;
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    uint64_t alone = hash_with_threads(1);
    assert_true(alone == hash_with_threads(2));
    assert_true(alone == hash_with_threads(5));
}

static void errors(void **state)
{
    fixture *f = *state;
    espalier_image in, out;
    const long live = f->live;
    assert_int_equal(esi_image_new(f->ctx, &in, 20, 10, 4), ESPALIER_OK);
    fill(&in, 1, 0);
    assert_int_equal(esi_image_resize(f->ctx, &out, &in, 0, 5, ESI_RESIZE_LANCZOS), ESPALIER_ERR_ARG);
    assert_null(out.pixels);
    static const uint32_t sizes[][2] = {{7, 5}, {20, 5}, {7, 10}};
    for (size_t s = 0; s < ESI_COUNT(sizes); s++) {
        for (long n = 0;; n++) {
            esi_clear_error(f->ctx);
            f->fail_in = n;
            espalier_status st = esi_image_resize(f->ctx, &out, &in, sizes[s][0], sizes[s][1], ESI_RESIZE_LANCZOS);
            f->fail_in = -1;
            if (st == ESPALIER_OK) break;
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_null(out.pixels);
            assert_int_equal(f->live, live + 1);
        }
        espalier_image_free(&out);
    }
    esi_clear_error(f->ctx);
    espalier_context_cancel(f->ctx);
    assert_int_equal(esi_image_resize(f->ctx, &out, &in, 7, 5, ESI_RESIZE_LANCZOS), ESPALIER_ERR_CANCELLED);
    assert_null(out.pixels);
    espalier_image_free(&in);
    assert_int_equal(f->live, live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_pillow, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(is_a_convolution, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(plain_colours_stay, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(extreme_patterns, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(same_size_is_a_copy, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(colour_is_premultiplied, fixture_setup, fixture_teardown),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test_setup_teardown(errors, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
