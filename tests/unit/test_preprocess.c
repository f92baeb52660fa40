/* SPDX-License-Identifier: MIT
 *
 * Preprocessing: the golden cases of the reference, the rounding of the crop box, what is refused, and failing allocations.
 */
#include "weights_fixture.h"

#include "formats/image_codecs.h"
#include "formats/image_resize.h"
#include "formats/preprocess.h"

#include <math.h>

/* --------------------------------------------------------- golden cases */

typedef struct golden {
    fixture *f;
    const char *name;
    esi_weight_file *file;
} golden;

static void golden_open(golden *g, fixture *f, const char *name)
{
    char path[512];
    g->f = f;
    g->name = name;
    snprintf(path, sizeof path, "%s/golden/%s/case.safetensors", ESPALIER_TEST_DATA, name);
    if (esi_weight_file_open(f->ctx, &g->file, path) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
}

/* A picture of the case, [H, W, C] or [H, W]; false if it has none of that name. */
static bool golden_image(const golden *g, espalier_image *out, const char *name)
{
    const esi_file_tensor *t = esi_weight_file_find(g->file, name);
    memset(out, 0, sizeof *out);
    if (t == NULL) return false;
    assert_int_equal(t->dtype, ESI_FILE_U8);
    assert_int_equal(esi_image_new(g->f->ctx, out, (uint32_t)t->shape[1], (uint32_t)t->shape[0], t->rank == 3 ? (uint32_t)t->shape[2] : 1),
                     ESPALIER_OK);
    memcpy(out->pixels, esi_weight_file_data(g->file, t), esi_image_size(out));
    return true;
}

static void check_image(const golden *g, const char *name, const espalier_image *got)
{
    espalier_image want;
    if (!golden_image(g, &want, name)) {
        if (got->pixels != NULL) fail_msg("%s: %s was not expected", g->name, name);
        return;
    }
    if (got->pixels == NULL) fail_msg("%s: no %s", g->name, name);
    assert_int_equal(got->width, want.width);
    assert_int_equal(got->height, want.height);
    assert_int_equal(got->channels, want.channels);
    for (size_t i = 0; i < esi_image_size(&want); i++) {
        if (got->pixels[i] != want.pixels[i]) fail_msg("%s: %s, byte %zu: %d, not %d", g->name, name, i, got->pixels[i], want.pixels[i]);
    }
    espalier_image_free(&want);
}

/* At most one fp32 step apart. */
static void check_norm(const golden *g, const char *name, const float *got, size_t n)
{
    const esi_file_tensor *t = esi_weight_file_find(g->file, name);
    float *want = NULL;
    assert_non_null(t);
    assert_int_equal(esi_file_tensor_count(t), n);
    assert_int_equal(esi_file_tensor_read_f32(g->f->ctx, g->file, t, &want), ESPALIER_OK);
    for (size_t i = 0; i < n; i++) {
        if (got[i] != want[i] && got[i] != nextafterf(want[i], got[i])) {
            fail_msg("%s: %s differs at %zu: %.9g, %.9g", g->name, name, i, (double)got[i], (double)want[i]);
        }
    }
    esi_free(g->f->ctx, want);
}

static espalier_status give_mask(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    const golden *g = user;
    (void)ctx;
    (void)rgb;
    if (!golden_image(g, mask, "in.rembg_mask")) fail_msg("%s: the matting was called", g->name);
    return ESPALIER_OK;
}

static int check_case(fixture *f, const char *name)
{
    golden g;
    espalier_image in, out;
    esi_preprocess_steps steps;
    int n_sizes = 0;

    golden_open(&g, f, name);
    const esi_matte_source matte = {.fn = give_mask, .user = &g, .name = name};
    assert_true(golden_image(&g, &in, "in.image"));
    if (esi_preprocess(f->ctx, &out, &in, &matte, &steps) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    check_image(&g, "out.rembg_in", &steps.rembg_in);
    check_image(&g, "out.resized", &steps.resized);
    check_image(&g, "out.crop", &steps.crop);
    check_image(&g, "out.image", &out);
    for (uint32_t size = 64; size <= 128; size *= 2) {
        char resize_name[32], norm_name[32];
        espalier_image resized;
        float *values = NULL;
        snprintf(resize_name, sizeof resize_name, "out.resize_%u", (unsigned)size);
        snprintf(norm_name, sizeof norm_name, "out.norm_%u", (unsigned)size);
        if (esi_weight_file_find(g.file, resize_name) == NULL) continue;
        assert_int_equal(esi_image_condition_pixels(f->ctx, &values, &out, size, &resized), ESPALIER_OK);
        check_image(&g, resize_name, &resized);
        check_norm(&g, norm_name, values, (size_t)3 * size * size);
        esi_free(f->ctx, values);
        espalier_image_free(&resized);
        n_sizes++;
    }
    esi_preprocess_steps_free(&steps);
    espalier_image_free(&in);
    espalier_image_free(&out);
    esi_weight_file_free(g.file);
    return n_sizes;
}

static void golden_cases(void **state)
{
    static const char *const names[] = {"pre_rgb_rembg", "pre_rgba_almost_opaque", "pre_rgba_opaque", "pre_shift_edge",
                                        "pre_tall_1300", "pre_webp_odd",           "pre_webp_square", "pre_wide_1568"};
    int n = 0;
    for (size_t i = 0; i < ESI_COUNT(names); i++) n += check_case(*state, names[i]);
    assert_int_equal(n, 9);
}

/* The resizes of the matting wrapper: bilinear there, bicubic back. */
static void golden_matting_resizes(void **state)
{
    fixture *f = *state;
    golden g;
    espalier_image rgb, mask, rgba, out;
    golden_open(&g, f, "../unit/data/matte_pre_post");        /* its network is not here yet, so it is no golden case yet */
    assert_true(golden_image(&g, &rgb, "in.rgb"));
    assert_true(golden_image(&g, &mask, "out.birefnet.mask_small_u8"));
    assert_true(golden_image(&g, &rgba, "out.birefnet.rgba"));

    assert_int_equal(esi_image_resize(f->ctx, &out, &rgb, 64, 64, ESI_RESIZE_BILINEAR), ESPALIER_OK);
    check_image(&g, "out.birefnet.resized_u8", &out);
    espalier_image_free(&out);
    assert_int_equal(esi_image_resize(f->ctx, &out, &rgb, 64, 64, ESI_RESIZE_LANCZOS), ESPALIER_OK);
    check_image(&g, "out.u2net.resized_u8", &out);
    espalier_image_free(&out);
    assert_int_equal(esi_image_resize(f->ctx, &out, &mask, rgb.width, rgb.height, ESI_RESIZE_BICUBIC), ESPALIER_OK);
    for (size_t i = 0; i < esi_image_size(&out); i++) assert_int_equal(out.pixels[i], rgba.pixels[i * 4 + 3]);
    espalier_image_free(&out);
    espalier_image_free(&rgb);
    espalier_image_free(&mask);
    espalier_image_free(&rgba);
    esi_weight_file_free(g.file);
}

/* ------------------------------------------------------------------ box */

static void new_rgba(fixture *f, espalier_image *image, uint32_t w, uint32_t h)
{
    assert_int_equal(esi_image_new(f->ctx, image, w, h, 4), ESPALIER_OK);
    for (size_t i = 0; i < (size_t)w * h; i++) {
        const uint8_t pixel[4] = {(uint8_t)(1 + i % w), (uint8_t)(1 + i / w), 255, 0};
        memcpy(image->pixels + i * 4, pixel, 4);
    }
}

static void set_alpha(espalier_image *image, uint32_t x, uint32_t y, uint8_t alpha)
{
    image->pixels[((size_t)y * image->width + x) * 4 + 3] = alpha;
}

/* Every pair of opposite corners in a small picture, the box in doubles as the reference has it. Column and row are written into the
 * colours, so the crop tells where it was cut. */
static void box_rounds_half_to_even(void **state)
{
    enum { SIDE = 9 };
    fixture *f = *state;
    for (uint32_t corners = 0; corners < SIDE * SIDE * SIDE * SIDE; corners++) {
        const uint32_t x0 = corners % SIDE, y0 = corners / SIDE % SIDE;
        const uint32_t x1 = corners / (SIDE * SIDE) % SIDE, y1 = corners / (SIDE * SIDE * SIDE);
        espalier_image in, out;
        esi_preprocess_steps steps;
        if (x1 < x0 || y1 < y0) continue;
        new_rgba(f, &in, SIDE, SIDE);
        set_alpha(&in, x0, y0, 255);
        set_alpha(&in, x1, y1, 205);
        if (x0 != 0 || y0 != 0) set_alpha(&in, 0, 0, 204);          /* not above 204: does not count */

        const double cx = (x0 + x1) / 2.0, cy = (y0 + y1) / 2.0, r = floor(fmax(x1 - x0, y1 - y0) / 2);
        espalier_status st = esi_preprocess(f->ctx, &out, &in, NULL, &steps);
        if (r == 0) {
            assert_int_equal(st, ESPALIER_ERR_INPUT);
            assert_null(out.pixels);
            esi_clear_error(f->ctx);
            espalier_image_free(&in);
            continue;
        }
        assert_int_equal(st, ESPALIER_OK);
        const int left = (int)nearbyint(cx - r), top = (int)nearbyint(cy - r);
        const int right = (int)nearbyint(cx + r), bottom = (int)nearbyint(cy + r);
        assert_int_equal(out.width, right - left);
        assert_int_equal(out.height, bottom - top);
        for (int y = top; y < bottom; y++) {
            for (int x = left; x < right; x++) {
                const uint8_t *pixel = steps.crop.pixels + ((size_t)(y - top) * out.width + (size_t)(x - left)) * 4;
                const bool inside = x >= 0 && y >= 0 && x < SIDE && y < SIDE;
                assert_int_equal(pixel[0], inside ? 1 + x : 0);
                assert_int_equal(pixel[1], inside ? 1 + y : 0);
                assert_int_equal(pixel[2], inside ? 255 : 0);
            }
        }
        esi_preprocess_steps_free(&steps);
        espalier_image_free(&in);
        espalier_image_free(&out);
    }
}

/* All 256 x 256 pairs of colour and alpha, in fp32 as IEEE defines it, truncated. */
static void black_background_truncates(void **state)
{
    fixture *f = *state;
    espalier_image in, out;
    assert_int_equal(esi_image_new(f->ctx, &in, 257, 257, 4), ESPALIER_OK);
    for (size_t i = 0; i < 257 * 257; i++) {
        const uint8_t pixel[4] = {(uint8_t)(i / 257), 0, 0, (uint8_t)(i % 257)};
        memcpy(in.pixels + i * 4, pixel, 4);
    }
    set_alpha(&in, 0, 0, 255);                       /* the box is the whole picture without its last row and column */
    set_alpha(&in, 256, 256, 255);
    assert_int_equal(esi_preprocess(f->ctx, &out, &in, NULL, NULL), ESPALIER_OK);
    assert_int_equal(out.width, 256);
    for (uint32_t colour = 0; colour < 256; colour++) {
        for (uint32_t alpha = 1; alpha < 256; alpha++) {
            volatile float a = (float)alpha / 255.0f;
            volatile float c = (float)colour / 255.0f;
            volatile float p = c * a;
            volatile float v = p * 255.0f;
            assert_int_equal(out.pixels[(colour * 256 + alpha) * 3], (uint8_t)v);
        }
    }
    espalier_image_free(&in);
    espalier_image_free(&out);
}

/* -------------------------------------------------------------- refusals */

static void refuse(fixture *f, const espalier_image *in, const esi_matte_source *matte, espalier_status status, const char *text)
{
    espalier_image out;
    esi_preprocess_steps steps;
    esi_clear_error(f->ctx);
    assert_int_equal(esi_preprocess(f->ctx, &out, in, matte, &steps), status);
    assert_string_equal(espalier_error_message(f->ctx), text);
    assert_null(out.pixels);
    assert_null(steps.rembg_in.pixels);
    assert_null(steps.resized.pixels);
    assert_null(steps.crop.pixels);
}

static espalier_status wrong_mask(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    (void)user;
    return esi_image_new(ctx, mask, rgb->width + 1, rgb->height, 1);
}

static espalier_status failing_matte(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    (void)user;
    (void)rgb;
    (void)mask;
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "matte.bin: broken");
}

static void refusals(void **state)
{
    fixture *f = *state;
    const esi_matte_source named = {.name = "cat.png"}, opaque = {.opaque = true, .name = "cat.png"}, wrong = {.fn = wrong_mask},
                           failing = {.fn = failing_matte};
    espalier_image image;

    assert_int_equal(espalier_image_create(f->ctx, &image, 5, 5, 3), ESPALIER_OK);
    refuse(f, &image, &named, ESPALIER_ERR_INPUT,
           "cat.png: the picture has no transparency; cut the object out first, or take it whole with --matte none");
    refuse(f, &image, NULL, ESPALIER_ERR_INPUT,
           "picture: the picture has no transparency; cut the object out first, or take it whole with --matte none");
    refuse(f, &image, &wrong, ESPALIER_ERR_INTERNAL, "matting: the mask has not the size of the picture");
    refuse(f, &image, &failing, ESPALIER_ERR_MODEL, "matte.bin: broken");
    image.width = 1;
    image.height = 1;
    refuse(f, &image, &opaque, ESPALIER_ERR_INPUT, "cat.png: the foreground is less than three pixels across");
    image.width = 5;
    image.height = 5;
    espalier_image_free(&image);

    new_rgba(f, &image, 5, 5);
    refuse(f, &image, &named, ESPALIER_ERR_INPUT, "cat.png: no foreground: no pixel has alpha above 204");
    for (uint32_t i = 0; i < 25; i++) set_alpha(&image, i % 5, i / 5, 204);
    refuse(f, &image, &opaque, ESPALIER_ERR_INPUT, "cat.png: no foreground: no pixel has alpha above 204");
    for (uint32_t i = 0; i < 25; i++) set_alpha(&image, i % 5, i / 5, 255);
    refuse(f, &image, &named, ESPALIER_ERR_INPUT,
           "cat.png: the picture has no transparency; cut the object out first, or take it whole with --matte none");
    espalier_image_free(&image);

    assert_int_equal(espalier_image_create(f->ctx, &image, 16384, 1, 3), ESPALIER_OK);
    refuse(f, &image, &opaque, ESPALIER_ERR_INPUT, "cat.png: too thin: 16384 x 1 pixels would become 1024 x 0");
    espalier_image_free(&image);
    refuse(f, &image, &opaque, ESPALIER_ERR_ARG, "cat.png: not an RGB or RGBA picture");
    assert_int_equal(espalier_image_create(f->ctx, &image, 8, 8, 1), ESPALIER_OK);
    refuse(f, &image, &opaque, ESPALIER_ERR_ARG, "cat.png: not an RGB or RGBA picture");
    espalier_image_free(&image);
}

/* Taken whole: the box is all but the last column and row, by the reference's "size without + 1". */
static void opaque_pictures_are_taken_whole(void **state)
{
    fixture *f = *state;
    const esi_matte_source opaque = {.opaque = true};
    espalier_image in, out;
    assert_int_equal(espalier_image_create(f->ctx, &in, 9, 9, 3), ESPALIER_OK);
    for (size_t i = 0; i < esi_image_size(&in); i++) in.pixels[i] = (uint8_t)(i + 10);
    assert_int_equal(esi_preprocess(f->ctx, &out, &in, &opaque, NULL), ESPALIER_OK);
    assert_int_equal(out.width, 8);
    assert_int_equal(out.height, 8);
    for (uint32_t y = 0; y < 8; y++) {
        for (uint32_t x = 0; x < 24; x++) {
            volatile float p = (float)in.pixels[y * 27 + x] / 255.0f;
            volatile float v = p * 255.0f;
            assert_int_equal(out.pixels[y * 24 + x], (uint8_t)v);
        }
    }
    espalier_image_free(&in);
    espalier_image_free(&out);
}

/* ------------------------------------------------------ alpha set aside */

static espalier_status mask_of_green(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    int *calls = user;
    ++*calls;
    assert_int_equal(rgb->channels, 3);
    espalier_status st = esi_image_new(ctx, mask, rgb->width, rgb->height, 1);
    for (size_t i = 0; st == ESPALIER_OK && i < esi_image_size(mask); i++) mask->pixels[i] = rgb->pixels[3 * i + 1] > 150 ? 255 : 0;
    return st;
}

/* Sees the picture after its reduction, and clears its left half. */
static espalier_status clear_left(void *user, espalier_context *ctx, espalier_image *rgba)
{
    int *calls = user;
    (void)ctx;
    *calls += 100;
    assert_int_equal(rgba->channels, 4);
    for (size_t i = 0; i < (size_t)rgba->width * rgba->height; i++)
        if (i % rgba->width < rgba->width / 2) rgba->pixels[4 * i + 3] = 0;
    return ESPALIER_OK;
}

/* The colours under the alpha count: it goes before the reduction, which would premultiply, and the network decides anew. */
static void alpha_is_set_aside(void **state)
{
    fixture *f = *state;
    int calls = 0;
    const esi_matte_source source = {.fn = mask_of_green, .user = &calls, .over_alpha = true},
                           checked = {.fn = mask_of_green, .check = clear_left, .user = &calls, .over_alpha = true};
    espalier_image rgb, rgba, want, got, cut;

    assert_int_equal(espalier_image_create(f->ctx, &rgb, 1500, 300, 3), ESPALIER_OK);
    assert_int_equal(espalier_image_create(f->ctx, &rgba, 1500, 300, 4), ESPALIER_OK);
    for (uint32_t i = 0; i < 1500 * 300; i++) {
        const uint8_t color[3] = {(uint8_t)(i % 251), i % 1500 > 600 && i % 1500 < 900 ? 200 : 100, (uint8_t)(i / 1500)};
        memcpy(rgb.pixels + 3 * i, color, 3);
        memcpy(rgba.pixels + 4 * i, color, 3);
        rgba.pixels[4 * i + 3] = (uint8_t)(i % 7 == 0 ? 255 : 0);
    }
    assert_int_equal(esi_preprocess(f->ctx, &want, &rgb, &source, NULL), ESPALIER_OK);
    assert_int_equal(esi_preprocess(f->ctx, &got, &rgba, &source, NULL), ESPALIER_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(got.width, want.width);
    assert_in_range(got.width, 200, 206);
    assert_memory_equal(got.pixels, want.pixels, esi_image_size(&want));
    espalier_image_free(&got);
    assert_int_equal(esi_preprocess(f->ctx, &got, &rgba, &checked, NULL), ESPALIER_OK);
    assert_int_equal(calls, 103);
    assert_true(got.width < want.width || memcmp(got.pixels, want.pixels, esi_image_size(&want)) != 0);
    /* The first half alone, at the picture's own size. */
    assert_int_equal(esi_matte_picture(f->ctx, &cut, &rgba, &source), ESPALIER_OK);
    assert_int_equal(cut.width, 1500);
    for (uint32_t i = 0; i < 1500 * 300; i++) {
        assert_memory_equal(cut.pixels + 4 * i, rgb.pixels + 3 * i, 3);
        assert_int_equal(cut.pixels[4 * i + 3], i % 1500 > 600 && i % 1500 < 900 ? 255 : 0);
    }
    espalier_image_free(&cut);
    espalier_image_free(&got);
    espalier_image_free(&want);
    espalier_image_free(&rgba);
    espalier_image_free(&rgb);
}

/* ----------------------------------------------------------- conditioning */

static void condition_drops_alpha_after_resizing(void **state)
{
    fixture *f = *state;
    espalier_image in, resized;
    float *values = NULL;
    new_rgba(f, &in, 10, 12);
    for (uint32_t i = 0; i < 120; i++) set_alpha(&in, i % 10, i / 10, (uint8_t)(i * 2));
    assert_int_equal(esi_image_condition_pixels(f->ctx, &values, &in, 16, &resized), ESPALIER_OK);
    assert_int_equal(resized.channels, 4);
    for (size_t c = 0; c < 3; c++) {
        static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
        for (size_t i = 0; i < 256; i++) {
            volatile float v = (float)resized.pixels[i * 4 + c] / 255.0f;
            volatile float d = v - mean[c];
            volatile float want = d / deviation[c];
            assert_true(values[c * 256 + i] == want);
        }
    }
    esi_free(f->ctx, values);
    espalier_image_free(&resized);
    assert_int_equal(esi_image_condition_pixels(f->ctx, &values, &in, 0, NULL), ESPALIER_ERR_ARG);
    assert_null(values);
    espalier_image_free(&in);
}

static espalier_status plain_mask(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    espalier_status st = esi_image_new(ctx, mask, rgb->width, rgb->height, 1);
    (void)user;
    if (st == ESPALIER_OK) memset(mask->pixels, 250, esi_image_size(mask));
    return st;
}

static void failing_allocations(void **state)
{
    fixture *f = *state;
    const esi_matte_source matte = {.fn = plain_mask};
    espalier_image in;
    const long live = f->live;
    assert_int_equal(espalier_image_create(f->ctx, &in, 1100, 40, 3), ESPALIER_OK);
    long n = 0;
    for (bool done = false; !done; n++) {
        espalier_image out, resized;
        esi_preprocess_steps steps;
        float *values = NULL;
        esi_clear_error(f->ctx);
        f->fail_in = n;
        espalier_status st = esi_preprocess(f->ctx, &out, &in, &matte, &steps);
        if (st == ESPALIER_OK) {
            st = esi_image_condition_pixels(f->ctx, &values, &out, 32, &resized);
            espalier_image_free(&out);
            esi_preprocess_steps_free(&steps);
            if (st == ESPALIER_OK) {
                esi_free(f->ctx, values);
                espalier_image_free(&resized);
                done = true;
            }
        }
        f->fail_in = -1;
        if (!done) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_int_equal(f->live, live + 1);
    }
    assert_true(n > 15);
    espalier_image_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden_cases, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(golden_matting_resizes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(box_rounds_half_to_even, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(black_background_truncates, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(refusals, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(opaque_pictures_are_taken_whole, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(alpha_is_set_aside, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(condition_drops_alpha_after_resizing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(failing_allocations, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
