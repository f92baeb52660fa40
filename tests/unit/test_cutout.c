/* SPDX-License-Identifier: MIT
 *
 * test_cutout.c: pictures with known mattes through every way of cutting out that needs no network, and every warning with its number.
 */
#include "matte_pictures.h"

#include "formats/cutout.h"

#define NEAR 1e-12

static const rgba white = {255, 255, 255, 255}, gray = {128, 128, 128, 255}, red = {200, 40, 40, 255}, clear = {90, 80, 70, 0};

/* Cuts the picture out, which it releases, and compares the alpha with `truth` (0 or 255) where there is one. */
static espalier_matte_stats cut(fixture *f, espalier_image picture, espalier_matte matte, int keep_largest, paint_fn truth)
{
    espalier_matting_options options = espalier_matting_options_default();
    espalier_matte_stats stats = espalier_matte_stats_default();
    espalier_matting *matting = NULL;
    espalier_image out, mask;

    options.matte = matte;
    options.keep_largest = keep_largest;
    forget_lines(f);
    assert_int_equal(espalier_matting_create(f->ctx, &matting, &options), ESPALIER_OK);
    if (espalier_matting_cut(f->ctx, matting, &out, &mask, &stats, &picture, "p") != ESPALIER_OK)
        fail_msg("%s", espalier_error_message(f->ctx));
    assert_int_equal(out.width, picture.width);
    assert_int_equal(out.height, picture.height);
    assert_int_equal(out.channels, 4);
    assert_int_equal(mask.channels, 1);
    for (uint32_t i = 0; i < picture.width * picture.height; i++) {
        assert_memory_equal(out.pixels + 4 * i, picture.pixels + picture.channels * i, 3);
        assert_int_equal(out.pixels[4 * i + 3], mask.pixels[i]);
        if (truth && mask.pixels[i] != truth((int)(i % picture.width), (int)(i / picture.width)).a)
            fail_msg("pixel %u, %u: alpha %d", i % picture.width, i / picture.width, mask.pixels[i]);
    }
    espalier_image_free(&picture);
    espalier_image_free(&out);
    espalier_image_free(&mask);
    espalier_matting_free(matting);
    return stats;
}

static void refuse(fixture *f, espalier_image picture, espalier_matte matte, const char *text)
{
    espalier_matting_options options = espalier_matting_options_default();
    espalier_matting *matting = NULL;
    espalier_image out;

    options.matte = matte;
    forget_lines(f);
    assert_int_equal(espalier_matting_create(f->ctx, &matting, &options), ESPALIER_OK);
    assert_int_equal(espalier_matting_cut(f->ctx, matting, &out, NULL, NULL, &picture, "p"), ESPALIER_ERR_INPUT);
    if (!strstr(espalier_error_message(f->ctx), text)) fail_msg("%s", espalier_error_message(f->ctx));
    assert_null(out.pixels);
    assert_int_equal(f->warnings, 0);
    espalier_image_free(&picture);
    espalier_matting_free(matting);
}

/* ------------------------------------------------------------- no alpha */

static rgba quarter(int x, int y)
{
    return in_box(x, y, 16, 16, 48, 48) ? red : gray;
}

/* A subject covering a quarter of a gray frame: every way but "none" says that it cannot. */
static void subject_on_gray(void **state)
{
    fixture *f = *state;

    refuse(f, draw(f, 64, 64, 3, quarter), ESPALIER_MATTE_ALPHA, "p: the picture has no transparency");
    refuse(f, draw(f, 64, 64, 4, quarter), ESPALIER_MATTE_ALPHA, "p: the picture has no transparency");
    refuse(f, draw(f, 64, 64, 3, quarter), ESPALIER_MATTE_THRESHOLD, "p: no white backdrop: no pixel of the border has 232");
    refuse(f, draw(f, 64, 64, 3, quarter), ESPALIER_MATTE_AUTO, "p: the picture has no transparency, and there is no network");
    assert_int_equal(f->notices, 0);
    const espalier_matte_stats s = cut(f, draw(f, 64, 64, 3, quarter), ESPALIER_MATTE_NONE, 0, NULL);
    assert_int_equal(s.used, ESPALIER_MATTE_NONE);
    assert_true(s.coverage == 1 && s.border == 1 && s.centre == 1 && s.soft == 0 && s.parts == 1);
    assert_int_equal(s.warnings, 0);
    assert_int_equal(f->warnings, 0);
    SAID("p: matte by none: as asked for");
}

static rgba ball(int x, int y)
{
    if (!in_disc(x, y, 64, 64, 48)) return white;
    if (in_disc(x, y, 52, 50, 12)) return white;                          /* a highlight */
    if (in_box(x, y, 38, 30, 42, 36)) return (rgba){240, 232, 235, 255}; /* a fainter one */
    return (rgba){30, 24, 26, 255};
}

static rgba ball_truth(int x, int y)
{
    return in_disc(x, y, 64, 64, 48) ? white : clear;
}

static void glossy_ball_on_white(void **state)
{
    fixture *f = *state;
    uint64_t solid = 0;
    const espalier_matte_stats s = cut(f, draw(f, 64, 64, 3, ball), ESPALIER_MATTE_THRESHOLD, 0, ball_truth);

    for (int i = 0; i < 64 * 64; i++) solid += in_disc(i % 64, i / 64, 64, 64, 48);
    assert_int_equal(solid, 1804); /* pi * 24^2 = 1810 */
    assert_float_equal(s.coverage, 1804.0 / 4096, NEAR);
    assert_true(s.border == 0 && s.soft == 0 && s.parts == 1 && s.large_parts == 1 && s.largest_part == 1 && s.warnings == 0);
    assert_int_equal(f->warnings, 0);
}

/* An object with a shadow that fades out below it: gray 150 under the object, one lighter for each pixel away. */
static rgba shadow(int x, int y)
{
    if (in_box(x, y, 16, 10, 48, 30)) return red;
    if (!in_box(x, y, 16, 30, 48, 128)) return white;
    const uint8_t level = (uint8_t)ESI_MIN(150 + y - 30, 255);
    return (rgba){level, level, level, 255};
}

static rgba shadow_truth(int x, int y)
{
    return in_box(x, y, 16, 10, 48, 30 + (232 - 150)) ? white : clear;
}

/* A threshold cannot tell a shadow: what is darker than the backdrop stays, and that is exactly what is darker than 232. */
static void soft_shadow(void **state)
{
    fixture *f = *state;
    espalier_matte_stats s = cut(f, draw(f, 64, 144, 3, shadow), ESPALIER_MATTE_THRESHOLD, 0, shadow_truth);

    assert_float_equal(s.coverage, 32.0 * (20 + 82) / (64 * 144), NEAR);
    assert_int_equal(s.parts, 1);
}

static rgba rods(int x, int y)
{
    const bool upright = x == 8 && in_box(x, y, 8, 4, 9, 60), slanted = x == y && in_box(x, y, 14, 14, 40, 40);
    const int dx = x < 50 ? 50 - x : x - 50, dy = y < 20 ? 20 - y : y - 20;
    const bool frame = dx + dy == 8; /* a closed line of pixels that touch by their corners */
    return upright || slanted || frame ? red : white;
}

static rgba rods_truth(int x, int y)
{
    const int dx = x < 50 ? 50 - x : x - 50, dy = y < 20 ? 20 - y : y - 20;
    return rods(x, y).g == 40 || dx + dy < 8 ? white : clear; /* inside the frame is not connected to the border */
}

static void thin_rods(void **state)
{
    fixture *f = *state;
    espalier_matte_stats s = cut(f, draw(f, 64, 64, 3, rods), ESPALIER_MATTE_THRESHOLD, 0, rods_truth);

    assert_float_equal(s.coverage, (56.0 + 26 + 145) / 4096, NEAR);
    assert_int_equal(s.parts, 3); /* the slanted one is whole */
    assert_int_equal(s.large_parts, 3);
    assert_float_equal(s.largest_part, 145.0 / 227, NEAR);
    assert_int_equal(s.warnings, ESPALIER_MATTE_SEVERAL_PARTS);
    s = cut(f, draw(f, 64, 64, 3, rods), ESPALIER_MATTE_THRESHOLD, 1, NULL);
    assert_float_equal(s.coverage, 145.0 / 4096, NEAR);
    assert_int_equal(s.dropped_parts, 2);
    assert_float_equal(s.dropped, 82.0 / 227, NEAR);
}

static rgba page(int x, int y)
{
    (void)x, (void)y;
    return white;
}

static rgba nearly_white(int x, int y)
{
    return in_box(x, y, 4, 4, 8, 8) ? (rgba){231, 255, 255, 255} : (rgba){232, 232, 232, 255};
}

static rgba nearly_white_truth(int x, int y)
{
    return in_box(x, y, 4, 4, 8, 8) ? white : clear;
}

static rgba half_white(int x, int y)
{
    (void)y;
    return x < 16 ? white : gray;
}

static void edge_of_white(void **state)
{
    fixture *f = *state;
    double share = -1;
    espalier_image picture = draw(f, 32, 16, 3, half_white), mask;

    refuse(f, draw(f, 20, 20, 3, page), ESPALIER_MATTE_THRESHOLD, "p: no foreground");
    cut(f, draw(f, 20, 20, 3, nearly_white), ESPALIER_MATTE_THRESHOLD, 0, nearly_white_truth);
    assert_int_equal(esi_cutout_threshold(f->ctx, &mask, &picture, &share), ESPALIER_OK);
    assert_float_equal(share, 0.5, NEAR);
    espalier_image_free(&mask);
    espalier_image_free(&picture);
}

/* ------------------------------------------------------------- warnings */

/* The warnings that a picture with alpha gives, and no others. */
static espalier_matte_stats expect(fixture *f, uint32_t width, uint32_t height, paint_fn paint, uint32_t warnings, int count)
{
    const espalier_matte_stats s = cut(f, draw(f, width, height, 4, paint), ESPALIER_MATTE_AUTO, 0, paint);
    assert_int_equal(s.used, ESPALIER_MATTE_ALPHA);
    assert_null(s.network_file);
    SAID("p: matte by alpha: the picture has transparency");
    assert_int_equal(s.warnings, warnings);
    assert_int_equal(f->warnings, count);
    return s;
}

/* Rows 0..89 of 100, and in row 90 what `extra` says: coverage to the pixel. */
static int extra;
static rgba most(int x, int y)
{
    return y < 90 || (y == 90 && x < extra) ? red : clear;
}

static void covers_most(void **state)
{
    fixture *f = *state;

    extra = 0; /* not more than 90 % */
    espalier_matte_stats s = expect(f, 100, 100, most, ESPALIER_MATTE_TOUCHES_BORDER, 1);
    assert_float_equal(s.coverage, 0.9, NEAR);
    assert_float_equal(s.border, (100 + 2 * 89) / 396.0, NEAR);
    SAID("p: the matte touches 70.2 % of the border (more than 25 %)");
    extra = 1;
    s = expect(f, 100, 100, most, ESPALIER_MATTE_TOUCHES_BORDER | ESPALIER_MATTE_COVERS_MOST, 2);
    assert_float_equal(s.coverage, 0.9001, NEAR);
    SAID("p: the matte covers 90.0 % of the frame (more than 90 %): the background is probably still there; --matte-over-alpha sets");
}

static rgba little(int x, int y)
{
    return in_box(x, y, 50, 50, 60, 60) && !(extra && x == 50 && y == 50) ? red : clear;
}

static void covers_little(void **state)
{
    fixture *f = *state;

    extra = 0; /* 100 of 10000 */
    assert_float_equal(expect(f, 100, 100, little, 0, 0).coverage, 0.01, NEAR);
    extra = 1;
    assert_float_equal(expect(f, 100, 100, little, ESPALIER_MATTE_COVERS_LITTLE, 1).coverage, 0.0099, NEAR);
    SAID("p: the matte covers 0.99 % of the frame (less than 1 %)");
}

/* An object on one side, with `extra` more pixels of it on the border: 99 of 396 are a quarter. */
static rgba at_border(int x, int y)
{
    return y < 20 && x < 99 - 19 + extra ? red : clear;
}

static void touches_border(void **state)
{
    fixture *f = *state;

    extra = 0; /* 80 above, 19 more on the left */
    assert_float_equal(expect(f, 100, 100, at_border, 0, 0).border, 0.25, NEAR);
    extra = 1;
    assert_float_equal(expect(f, 100, 100, at_border, ESPALIER_MATTE_TOUCHES_BORDER, 1).border, 100 / 396.0, NEAR);
    SAID("p: the matte touches 25.3 % of the border (more than 25 %): the object is cut off");
}

static rgba inverse(int x, int y)
{
    return in_box(x, y, 16, 16, 48, 48) ? clear : red;
}

static rgba wreath(int x, int y)
{
    return in_disc(x, y, 64, 64, 60) && !in_disc(x, y, 64, 64, 36) ? red : clear;
}

static void inverted(void **state)
{
    fixture *f = *state;
    espalier_matte_stats s = expect(f, 64, 64, inverse, ESPALIER_MATTE_TOUCHES_BORDER | ESPALIER_MATTE_INVERTED, 2);

    assert_true(s.border == 1 && s.centre == 0);
    assert_float_equal(s.coverage, 0.75, NEAR);
    SAID("p: the matte looks inverted: 100.0 % of the border and 0.0 % of the centre are opaque");
    s = expect(f, 64, 64, wreath, 0, 0); /* a clear centre alone is no sign of it */
    assert_true(s.centre < 0.5 && s.border == 0);
}

static rgba two(int x, int y)
{
    if (in_box(x, y, 4, 10, 34, 40)) return red;                                             /* 900 */
    if (in_box(x, y, 50, 10, 60, 10 + extra)) return red;                                    /* 10 * extra */
    if (in_box(x, y, 49, 9, 61, 11 + extra)) return (rgba){200, 40, 40, 20};                 /* and a halo */
    if (in_box(x, y, 3, 9, 35, 41)) return (rgba){200, 40, 40, 20};
    return in_box(x, y, 4, 50, 5, 51) || in_box(x, y, 40, 60, 42, 62) ? red : clear;         /* specks: 1 and 4 */
}

static rgba larger_of_two(int x, int y)
{
    return x < 40 && y < 45 ? two(x, y) : clear;
}

static void several_parts(void **state)
{
    fixture *f = *state;

    extra = 30;
    espalier_matte_stats s = expect(f, 64, 64, two, ESPALIER_MATTE_SEVERAL_PARTS, 1);
    assert_int_equal(s.parts, 4);
    assert_int_equal(s.large_parts, 2);
    assert_float_equal(s.largest_part, 900.0 / 1205, NEAR);
    SAID("p: the matte has 2 separate large parts, the largest 74.7 % of it; all are kept");
    s = cut(f, draw(f, 64, 64, 4, two), ESPALIER_MATTE_AUTO, 1, larger_of_two); /* the halo stays with its object, the other's goes */
    assert_int_equal(s.parts, 1);
    assert_int_equal(s.dropped_parts, 3);
    assert_float_equal(s.dropped, 305.0 / 1205, NEAR);
    assert_float_equal(s.coverage, 900.0 / 4096, NEAR);
    assert_int_equal(s.warnings, 0);
    SAID("p: 3 smaller parts dropped, 25.3 % of the matte");
    extra = 9; /* a tenth */
    assert_int_equal(expect(f, 64, 64, two, ESPALIER_MATTE_SEVERAL_PARTS, 1).large_parts, 2);
    extra = 8;
    assert_int_equal(expect(f, 64, 64, two, 0, 0).large_parts, 1);
}

static rgba twins(int x, int y)
{
    return in_box(x, y, 2, 20, 12, 30) || in_box(x, y, 20, 4, 30, 14) ? red : clear;
}

static rgba upper_twin(int x, int y)
{
    return y < 14 ? twins(x, y) : clear;
}

static void equal_parts(void **state)
{
    cut(*state, draw(*state, 32, 32, 4, twins), ESPALIER_MATTE_ALPHA, 1, upper_twin); /* the first in reading order */
}

/* A head of radius 16 with hairs that thin out: every other column above it, alpha from 229 down to 26. */
static rgba hair(int x, int y)
{
    rgba p = red;
    if (in_disc(x, y, 64, 96, 32)) return red;
    if (x % 2 || !in_box(x, y, 16, 8, 48, 48)) return clear;
    p.a = (uint8_t)ESI_MIN(26 + 6 * (y - 8), 229);
    return p;
}

static void hair_like_fringe(void **state)
{
    fixture *f = *state;
    const espalier_matte_stats s = expect(f, 64, 64, hair, ESPALIER_MATTE_SOFT, 1);
    assert_float_equal(s.soft, 437.0 / 1249, NEAR);
    SAID("p: the matte is half transparent in 35.0 % of its area (more than 20 %)");
    assert_int_equal(s.large_parts, 1);
}

/* 20 of 100 visible pixels are soft; with `extra` 21. Alpha 25 and 230 are not. */
static rgba soft_edge(int x, int y)
{
    const int i = x - 10;
    rgba p = red;
    if (!in_box(x, y, 10, 10, 10 + 101, 20)) return clear;
    p.a = i < 20 + extra ? (uint8_t)(i % 2 ? 26 : 229) : i < 100 ? (uint8_t)(i % 2 ? 230 : 255) : 25;
    return p;
}

static void soft_area(void **state)
{
    fixture *f = *state;

    extra = 0;
    assert_float_equal(expect(f, 128, 40, soft_edge, 0, 0).soft, 0.2, NEAR);
    extra = 1;
    assert_float_equal(expect(f, 128, 40, soft_edge, ESPALIER_MATTE_SOFT, 1).soft, 0.21, NEAR);
    SAID("p: the matte is half transparent in 21.0 % of its area (more than 20 %)");
}

/* ------------------------------------------------------------- odd frames */

static rgba first_clear(int x, int y)
{
    return x == 0 && y == 0 ? clear : red;
}

static rgba faint(int x, int y)
{
    (void)x, (void)y;
    return (rgba){1, 2, 3, 204};
}

static void odd_frames(void **state)
{
    fixture *f = *state;
    const uint32_t all = ESPALIER_MATTE_COVERS_MOST | ESPALIER_MATTE_TOUCHES_BORDER;

    refuse(f, draw(f, 1, 1, 4, first_clear), ESPALIER_MATTE_AUTO, "p: no foreground: no pixel has alpha above 204");
    refuse(f, draw(f, 5, 4, 4, faint), ESPALIER_MATTE_AUTO, "p: no foreground");
    assert_float_equal(expect(f, 1, 40, first_clear, all, 2).border, 39.0 / 40, NEAR);
    assert_float_equal(expect(f, 40, 1, first_clear, all, 2).coverage, 39.0 / 40, NEAR);
    assert_float_equal(expect(f, 2, 2, first_clear, ESPALIER_MATTE_TOUCHES_BORDER, 1).coverage, 0.75, NEAR);
    assert_float_equal(expect(f, 2, 2, first_clear, ESPALIER_MATTE_TOUCHES_BORDER, 1).centre, 0.75, NEAR);
}

/* ------------------------------------------------------------- resources */

/* A checkerboard of many parts, so that the list of parts grows. */
static rgba confetti(int x, int y)
{
    return x % 3 == 1 && y % 3 == 1 ? red : x % 3 == 0 ? white : gray;
}

static rgba confetti_alpha(int x, int y)
{
    return x % 3 == 1 && y % 3 == 1 ? red : clear;
}

static void memory_that_runs_out(void **state)
{
    fixture *f = *state;
    const espalier_matte mattes[] = {ESPALIER_MATTE_ALPHA, ESPALIER_MATTE_THRESHOLD, ESPALIER_MATTE_NONE};

    for (size_t i = 0; i < ESI_COUNT(mattes); i++) {
        espalier_image picture = draw(f, 60, 60, i == 0 ? 4 : 3, i == 0 ? confetti_alpha : confetti);
        espalier_matting_options options = espalier_matting_options_default();
        const size_t blocks = atomic_load(&f->memory.live_blocks);
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n = 1;
        options.matte = mattes[i];
        options.keep_largest = 1;
        for (; st != ESPALIER_OK; n++) {
            espalier_image out = {0}, mask = {0};
            espalier_matting *matting = NULL;
            test_fail_at(&f->memory, n);
            st = espalier_matting_create(f->ctx, &matting, &options);
            if (st == ESPALIER_OK) st = espalier_matting_cut(f->ctx, matting, &out, &mask, NULL, &picture, "p");
            test_fail_at(&f->memory, 0);
            if (st != ESPALIER_OK) {
                assert_int_equal(st, ESPALIER_ERR_RESOURCE);
                assert_true(espalier_error_message(f->ctx)[0] != 0);
                assert_null(out.pixels);
                assert_null(mask.pixels);
            }
            espalier_image_free(&out);
            espalier_image_free(&mask);
            espalier_matting_free(matting);
            if (atomic_load(&f->memory.live_blocks) != blocks) fail_msg("allocation %ld of way %zu leaks", n, i);
        }
        assert_true(n > 8);
        espalier_image_free(&picture);
    }
    assert_int_equal(cut(f, draw(f, 60, 60, 4, confetti_alpha), ESPALIER_MATTE_ALPHA, 0, NULL).parts, 400);
}

static int cancel_at_once(void *user, const char *stage, uint64_t done, uint64_t total)
{
    int *calls = user;
    assert_string_equal(stage, "matte");
    assert_int_equal(total, 1);
    ++*calls;
    return done == 0;
}

static void budget_and_cancel(void **state)
{
    fixture *f = *state;
    espalier_image picture = draw(f, 64, 64, 3, ball), out;
    espalier_matting_options options = espalier_matting_options_default();
    espalier_matting *matting = NULL;
    int calls = 0;

    options.matte = ESPALIER_MATTE_THRESHOLD;
    assert_int_equal(espalier_matting_create(f->ctx, &matting, &options), ESPALIER_OK);
    espalier_context_set_memory_budget(f->ctx, 4096);
    assert_int_equal(espalier_matting_cut(f->ctx, matting, &out, NULL, NULL, &picture, "p"), ESPALIER_ERR_RESOURCE);
    espalier_context_set_memory_budget(f->ctx, 0);
    espalier_context_set_progress(f->ctx, cancel_at_once, &calls);
    assert_int_equal(espalier_matting_cut(f->ctx, matting, &out, NULL, NULL, &picture, "p"), ESPALIER_ERR_CANCELLED);
    assert_int_equal(calls, 1);
    assert_null(out.pixels);
    espalier_context_set_progress(f->ctx, NULL, NULL);
    espalier_context_cancel(f->ctx);
    assert_int_equal(espalier_matting_cut(f->ctx, matting, &out, NULL, NULL, &picture, "p"), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(f->ctx);
    assert_int_equal(espalier_matting_cut(f->ctx, matting, &out, NULL, NULL, &picture, "p"), ESPALIER_OK);
    espalier_image_free(&out);
    espalier_image_free(&picture);
    espalier_matting_free(matting);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(subject_on_gray),  TEST(glossy_ball_on_white), TEST(soft_shadow),      TEST(thin_rods),
        TEST(edge_of_white),    TEST(covers_most),          TEST(covers_little),    TEST(touches_border),
        TEST(inverted),         TEST(several_parts),        TEST(equal_parts),      TEST(hair_like_fringe),
        TEST(soft_area),        TEST(odd_frames),           TEST(memory_that_runs_out), TEST(budget_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
