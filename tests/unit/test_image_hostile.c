/* SPDX-License-Identifier: MIT
 *
 * Pictures that want to do harm: cut off at every byte, flipped bits, announced sizes, scan bombs; and failing allocations.
 */
#include "image_fixture.h"

static void expect(fixture *f, const bytes *b, espalier_status status, const char *part)
{
    espalier_image image;
    espalier_status st = decode_copy(f, &image, b->data, b->len);
    if (st != status) fail_msg("status %d instead of %d: %s", (int)st, (int)status, espalier_error_message(f->ctx));
    if (strstr(espalier_error_message(f->ctx), part) == NULL) fail_msg("'%s' lacks '%s'", espalier_error_message(f->ctx), part);
    if (st != ESPALIER_OK) assert_null(image.pixels);
    espalier_image_free(&image);
}

static const char *const whole_files[] = {
    "rgb.png", "rgba.png", "gray-alpha.png", "palette-trns.png", "gray-16.png", "exif-5.png", "animated.png",
    "gray.jpg", "color-420.jpg", "progressive.jpg", "exif-6.jpg", "cmyk.jpg", "ycck.jpg",
    "lossy.webp", "lossy-alpha.webp", "lossless.webp", "lossless-alpha.webp", "exif-8.webp", "animated.webp",
};

static void cut_at_every_byte(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < ESI_COUNT(whole_files); i++) {
        bytes b = corpus_file(whole_files[i]);
        size_t whole = b.len;
        for (b.len = 0; b.len < whole; b.len++) {
            espalier_image image;
            espalier_status st = decode_copy(f, &image, b.data, b.len);
            if (st != ESPALIER_ERR_INPUT) fail_msg("%s cut to %zu of %zu bytes: status %d", whole_files[i], b.len, whole, (int)st);
            assert_null(image.pixels);
        }
    }
}

/* Whatever a flipped bit does, it is a picture within the limits or a clean error. */
static void flipped_bits(void **state)
{
    fixture *f = *state;
    espalier_limits limits = espalier_limits_default();
    limits.max_image_side = 512;
    espalier_context_set_limits(f->ctx, &limits);
    for (size_t i = 0; i < ESI_COUNT(whole_files); i++) {
        const bytes whole = corpus_file(whole_files[i]);
        for (size_t bit = 0; bit < whole.len * 8; bit += bit < 64 * 8 ? 1 : 5) {
            espalier_image image;
            bytes b = whole;
            b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            espalier_status st = decode_copy(f, &image, b.data, b.len);
            assert_true(st == ESPALIER_OK || st == ESPALIER_ERR_INPUT || st == ESPALIER_ERR_RESOURCE);
            assert_true((st == ESPALIER_OK) == (image.pixels != NULL));
            if (st == ESPALIER_OK) assert_true(image.width <= 512 && image.height <= 512);
            espalier_image_free(&image);
        }
    }
}

static void announced_sizes(void **state)
{
    static const struct { const char *name; espalier_status status; const char *part; } cases[] = {
        {"bad-huge.png", ESPALIER_ERR_RESOURCE, "t.img: 2147483647 x 2147483647 pixels are more than the limit of 16384"},
        {"bad-huge.jpg", ESPALIER_ERR_RESOURCE, "t.img: 65535 x 65535 pixels are more than the limit of 16384"},
        {"bad-zero-width.png", ESPALIER_ERR_INPUT, "0 x 14 pixels"},
        {"bad-truncated.png", ESPALIER_ERR_INPUT, "the file is cut off"},
        {"bad-truncated.jpg", ESPALIER_ERR_INPUT, "damaged JPEG: "},
        {"bad-truncated.webp", ESPALIER_ERR_INPUT, "cut off"},
        {"bad-kind.gif", ESPALIER_ERR_INPUT, "t.img: not a PNG, JPEG or WebP picture"},
        {"exif-cut.jpg", ESPALIER_OK, ""},
    };
    fixture *f = *state;
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        bytes b = corpus_file(cases[i].name);
        espalier_context_set_memory_budget(f->ctx, 1 << 20);     /* refused before a pixel is allocated: not for the budget */
        expect(f, &b, cases[i].status, cases[i].part);
    }
}

static void side_limit(void **state)
{
    fixture *f = *state;
    png_spec spec = {.width = 16384, .height = 1, .depth = 1, .color_type = PNG_COLOR_TYPE_GRAY};
    bytes b = make_png(&spec);
    expect(f, &b, ESPALIER_OK, "");
    spec.width = 16385;
    b = make_png(&spec);
    expect(f, &b, ESPALIER_ERR_RESOURCE, "16385 x 1 pixels are more than the limit of 16384");
    spec.width = 1;
    spec.height = 16385;
    b = make_png(&spec);
    expect(f, &b, ESPALIER_ERR_RESOURCE, "1 x 16385 pixels");

    espalier_limits limits = espalier_limits_default();
    limits.max_image_side = 18;                                   /* the samples are 19 wide */
    espalier_context_set_limits(f->ctx, &limits);
    for (size_t i = 0; i < 3; i++) {
        b = corpus_file((const char *const[]){"rgb.png", "gray.jpg", "lossy.webp"}[i]);
        expect(f, &b, ESPALIER_ERR_RESOURCE, "19 x 14 pixels");
    }
}

static void file_limit_and_missing_files(void **state)
{
    fixture *f = *state;
    espalier_image image;
    char path[128];
    assert_int_equal(espalier_image_load(f->ctx, &image, CORPUS "rgb.png"), ESPALIER_OK);
    espalier_image_free(&image);
    assert_int_equal(espalier_image_load(f->ctx, &image, fixture_path(f, path, "none.png")), ESPALIER_ERR_INPUT);
    assert_null(image.pixels);
    assert_int_equal(espalier_image_load(f->ctx, &image, f->dir), ESPALIER_ERR_INPUT);

    FILE *empty = fopen(fixture_path(f, path, "empty.png"), "wb");
    assert_non_null(empty);
    fclose(empty);
    assert_int_equal(espalier_image_load(f->ctx, &image, path), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(f->ctx), "the file is empty"));
    unlink(path);

    espalier_limits limits = espalier_limits_default();
    limits.max_file_bytes = 100;
    espalier_context_set_limits(f->ctx, &limits);
    assert_int_not_equal(espalier_image_load(f->ctx, &image, CORPUS "rgb.png"), ESPALIER_OK);
    assert_null(image.pixels);
}

/* The first scan of a JPEG: its header and coded data, up to the next marker. */
static void find_scan(const bytes *b, size_t *start, size_t *end)
{
    size_t i = 0;
    while (i + 1 < b->len && (b->data[i] != 0xff || b->data[i + 1] != 0xda)) i++;
    *start = i;
    for (i += 2; i + 1 < b->len && (b->data[i] != 0xff || b->data[i + 1] == 0); i++) continue;
    *end = i;
    assert_true(*end + 1 < b->len);
}

/* A sequential JPEG with one scan repeated: each costs a pass over the picture, however large. */
static void scan_bomb(void **state)
{
    static const struct { int repeats; espalier_status status; } cases[] = {{20, ESPALIER_OK}, {600, ESPALIER_ERR_INPUT}};
    fixture *f = *state;
    const jpeg_spec spec = {.width = 8, .height = 8, .components = 3, .separate_scans = true};
    const bytes b = make_jpeg(&spec);
    size_t start, end;
    find_scan(&b, &start, &end);
    for (size_t c = 0; c < ESI_COUNT(cases); c++) {
        const size_t scan = end - start, extra = scan * (size_t)cases[c].repeats;
        espalier_image image;
        uint8_t *file = malloc(b.len + extra);
        assert_non_null(file);
        memcpy(file, b.data, end);
        for (int i = 0; i < cases[c].repeats; i++) memcpy(file + end + scan * (size_t)i, b.data + start, scan);
        memcpy(file + end + extra, b.data + end, b.len - end);
        assert_int_equal(espalier_image_decode(f->ctx, &image, file, b.len + extra, "t.img"), cases[c].status);
        if (cases[c].status != ESPALIER_OK) assert_string_equal(espalier_error_message(f->ctx), "t.img: damaged JPEG: too many scans");
        espalier_image_free(&image);
        free(file);
    }
}

static void budget_and_cancel(void **state)
{
    fixture *f = *state;
    const bytes png = corpus_file("rgba.png"), jpeg = corpus_file("progressive.jpg"), webp = corpus_file("lossy.webp");
    espalier_context_set_memory_budget(f->ctx, 500);
    expect(f, &png, ESPALIER_ERR_RESOURCE, "budget");
    expect(f, &jpeg, ESPALIER_ERR_RESOURCE, "budget");
    expect(f, &webp, ESPALIER_ERR_RESOURCE, "budget");
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    espalier_context_set_memory_budget(f->ctx, 0);
    espalier_context_cancel(f->ctx);
    expect(f, &png, ESPALIER_ERR_CANCELLED, "");
    expect(f, &jpeg, ESPALIER_ERR_CANCELLED, "");
    espalier_context_reset_cancel(f->ctx);
    expect(f, &png, ESPALIER_OK, "");
}

static void failing_allocations(void **state)
{
    fixture *f = *state;
    char path[128];
    espalier_image image;
    const long live = f->live;
    for (size_t i = 0; i < ESI_COUNT(whole_files); i++) {
        bytes b = corpus_file(whole_files[i]);
        long n = 0;
        for (;; n++) {
            f->fail_in = n;
            espalier_status st = espalier_image_decode(f->ctx, &image, b.data, b.len, "t.img");
            f->fail_in = -1;
            if (st == ESPALIER_OK) break;
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_null(image.pixels);
            assert_int_equal(f->live, live);
            assert_true(espalier_error_message(f->ctx)[0] != 0);
        }
        assert_true(n >= 1);
        espalier_image_free(&image);
        assert_int_equal(f->live, live);
    }
    assert_int_equal(espalier_image_create(f->ctx, &image, 40, 30, 4), ESPALIER_OK);
    fixture_path(f, path, "a.png");
    for (long n = 0;; n++) {
        f->fail_in = n;
        espalier_status st = espalier_image_save_png(f->ctx, &image, path);
        f->fail_in = -1;
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    unlink(path);
    espalier_image_free(&image);
    assert_int_equal(f->live, live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cut_at_every_byte, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(flipped_bits, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(announced_sizes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(side_limit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(file_limit_and_missing_files, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(scan_bomb, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(budget_and_cancel, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(failing_allocations, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
