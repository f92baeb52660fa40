/* SPDX-License-Identifier: MIT
 *
 * Pictures to bytes: PNG and lossless WebP come back exactly, also colours under alpha 0; PNG is the same for any number of threads and
 * read by libpng without complaint at sizes around its strips; JPEG is near; lack of memory and cancelling.
 */
#include "support.h"

#include "formats/image_encode.h"

#include <espalier/image.h>

static esi_texture make_picture(espalier_context *ctx, uint32_t width, uint32_t height, uint32_t channels)
{
    esi_texture t = {.width = width, .height = height, .channels = channels};
    uint32_t noise = 12345;

    t.pixels = esi_alloc(ctx, (size_t)width * height, channels, "a test picture");
    assert_non_null(t.pixels);
    for (size_t i = 0; i < (size_t)width * height * channels; i++) {
        const size_t x = i / channels % width, y = i / channels / width;

        noise = noise * 1664525u + 1013904223u;
        t.pixels[i] = (uint8_t)(x * 3 + y * 2 * (i % channels + 1) + (noise >> 30));
        if (channels == 4 && i % 4 == 3) t.pixels[i] = x % 7 == 0 ? 0 : (uint8_t)(x + y);
    }
    return t;
}

typedef espalier_status (*encode_fn)(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture);

static espalier_status webp(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture)
{
    return esi_webp_encode(ctx, out, size, picture, true, 100);
}

static espalier_status jpeg(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture)
{
    return esi_jpeg_encode(ctx, out, size, picture, 95);
}

/* Decoded by the library's own reader; `tolerance` per byte. 1 and 2 channels come back as 3 and 4. */
static void check(espalier_context *ctx, encode_fn encode, uint32_t width, uint32_t height, uint32_t channels, int tolerance)
{
    esi_texture t = make_picture(ctx, width, height, channels);
    espalier_image back;
    uint8_t *bytes;
    size_t size;

    if (encode(ctx, &bytes, &size, &t) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    if (espalier_image_decode(ctx, &back, bytes, size, "encoded") != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    assert_int_equal(back.width, width);
    assert_int_equal(back.height, height);
    for (size_t i = 0; i < (size_t)width * height; i++) {
        for (uint32_t c = 0; c < back.channels; c++) {
            const uint32_t from = channels >= 3 ? c : c < 3 ? 0 : 1;
            const int difference = back.pixels[i * back.channels + c] - t.pixels[i * channels + from];

            if (difference > tolerance || difference < -tolerance) fail_msg("pixel %d: %d off", (int)i, difference);
        }
    }
    espalier_image_free(&back);
    esi_free(ctx, bytes);
    esi_free(ctx, t.pixels);
}

static void round_trips(void **state)
{
    static const uint32_t sides[][2] = {{1, 1}, {3, 5}, {1, 700}, {700, 1}, {64, 64}, {257, 300}, {1024, 700}};
    test_base t;

    (void)state;
    test_base_open(&t, 3);
    for (size_t i = 0; i < ESI_COUNT(sides); i++) {
        for (uint32_t channels = 1; channels <= 4; channels++) check(t.ctx, esi_png_encode, sides[i][0], sides[i][1], channels, 0);
        for (uint32_t channels = 3; channels <= 4; channels++) check(t.ctx, webp, sides[i][0], sides[i][1], channels, 0);
    }
    check(t.ctx, jpeg, 64, 48, 1, 40);
    check(t.ctx, jpeg, 64, 48, 3, 40);
    test_base_close(&t);
}

/* JPEG of flat colours is exact to a step or two, and drops alpha. */
static void jpeg_drops_alpha(void **state)
{
    test_base t;
    uint8_t pixels[16 * 16 * 4], *bytes;
    const esi_texture p = {pixels, 16, 16, 4};
    espalier_image back;
    size_t size;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 16 * 16; i++) memcpy(pixels + 4 * i, (const uint8_t[4]){200, 100, 50, 0}, 4);
    assert_int_equal(esi_jpeg_encode(t.ctx, &bytes, &size, &p, 92), ESPALIER_OK);
    assert_int_equal(espalier_image_decode(t.ctx, &back, bytes, size, "flat"), ESPALIER_OK);
    assert_int_equal(back.channels, 3);
    for (int i = 0; i < 16 * 16 * 3; i++) assert_in_range(back.pixels[i] + 2, pixels[i / 3 * 4 + i % 3], pixels[i / 3 * 4 + i % 3] + 4);
    espalier_image_free(&back);
    esi_free(t.ctx, bytes);
    assert_int_equal(esi_webp_encode(t.ctx, &bytes, &size, &p, true, 100), ESPALIER_OK);
    assert_int_equal(espalier_image_decode(t.ctx, &back, bytes, size, "clear"), ESPALIER_OK);
    assert_memory_equal(back.pixels, pixels, sizeof pixels);  /* colours under alpha 0 too */
    espalier_image_free(&back);
    esi_free(t.ctx, bytes);
    test_base_close(&t);
}

static void same_bytes_for_any_threads(void **state)
{
    uint8_t *first = NULL;
    size_t first_size = 0;

    (void)state;
    for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        test_base t;
        uint8_t *bytes;
        size_t size;

        test_base_open(&t, threads);
        esi_texture p = make_picture(t.ctx, 1024, 1024, 4);
        assert_int_equal(esi_png_encode(t.ctx, &bytes, &size, &p), ESPALIER_OK);
        if (!first) {
            first = malloc(size);
            assert_non_null(first);
            memcpy(first, bytes, size);
            first_size = size;
        }
        assert_int_equal(size, first_size);
        assert_memory_equal(bytes, first, size);
        esi_free(t.ctx, bytes);
        esi_free(t.ctx, p.pixels);
        test_base_close(&t);
    }
    free(first);
}

static void failures(void **state)
{
    static const encode_fn encoders[] = {esi_png_encode, webp, jpeg};
    test_base t;
    uint8_t *bytes;
    size_t size;

    (void)state;
    test_base_open(&t, 1);
    esi_texture p = make_picture(t.ctx, 300, 300, 3);
    const uint64_t before = espalier_context_memory_now(t.ctx);
    for (size_t i = 0; i < ESI_COUNT(encoders); i++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n;

        for (n = 1; st != ESPALIER_OK && n < 200; n++) {
            test_fail_at(&t.memory, n);
            st = encoders[i](t.ctx, &bytes, &size, &p);
            if (st != ESPALIER_OK) {
                assert_int_equal(st, ESPALIER_ERR_RESOURCE);
                assert_null(bytes);
            } else {
                esi_free(t.ctx, bytes);
            }
            esi_clear_error(t.ctx);
            assert_int_equal(espalier_context_memory_now(t.ctx), before);
        }
        assert_true(n > 1 && n < 200);
        test_fail_at(&t.memory, 0);
        espalier_context_cancel(t.ctx);
        assert_int_equal(encoders[i](t.ctx, &bytes, &size, &p), ESPALIER_ERR_CANCELLED);
        atomic_store(&t.ctx->cancel, 0);
        esi_clear_error(t.ctx);
        const esi_texture empty = {0};
        assert_int_equal(encoders[i](t.ctx, &bytes, &size, &empty), ESPALIER_ERR_INTERNAL);
        esi_clear_error(t.ctx);
    }
    const esi_texture wide = {p.pixels, 20000, 1, 3};        /* WebP ends at 16383 */
    assert_int_equal(esi_webp_encode(t.ctx, &bytes, &size, &wide, true, 100), ESPALIER_ERR_RESOURCE);
    esi_clear_error(t.ctx);
    esi_free(t.ctx, p.pixels);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips), cmocka_unit_test(jpeg_drops_alpha), cmocka_unit_test(same_bytes_for_any_threads),
        cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
