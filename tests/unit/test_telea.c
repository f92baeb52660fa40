/* SPDX-License-Identifier: MIT
 *
 * Inpainting: the parts that the golden cases (tests/golden/geometry/telea_*, OpenCV's own bytes) do not show.
 */
#include "voxel_fixture.h"

#include "mesh/telea.h"

static void random_picture(uint8_t *pixels, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++) pixels[i] = (uint8_t)test_random(seed);
}

/* Discs are kept, the rest is masked; the border row too. */
static void disc_mask(uint8_t *mask, int width, int height)
{
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            const int dx = x % 23 - 11, dy = y % 19 - 9;

            mask[y * width + x] = dx * dx + dy * dy > 60 || y == 0;
        }
    }
}

/* One march over interleaved planes of different radii gives what a call for each gives. */
static void planes_together(void **state)
{
    enum { W = 131, H = 90, N = W * H };
    static uint8_t rgba[N][4], orm[N][3], rgb[N][3], one[3][N], mask[N];
    uint64_t seed = 5;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    random_picture(rgba[0], sizeof rgba, &seed);
    random_picture(orm[0], sizeof orm, &seed);
    disc_mask(mask, W, H);
    for (int i = 0; i < N; i++) {
        memcpy(rgb[i], rgba[i], 3);
        one[0][i] = orm[i][2];
        one[1][i] = rgba[i][3];
        one[2][i] = orm[i][1];
    }
    for (int radius = 2; radius <= 7; radius += 5) {
        const esi_telea_plane planes[] = {
            {rgba[0], 4, 3, radius}, {orm[0] + 2, 3, 1, 1.0}, {rgba[0] + 3, 4, 1, 1.4}, {orm[0] + 1, 3, 1, 9.0}};

        assert_int_equal(esi_telea_inpaint(t.ctx, rgb[0], mask, W, H, 3, radius), ESPALIER_OK);
        for (int k = 0; k < 3; k++) assert_int_equal(esi_telea_inpaint(t.ctx, one[k], mask, W, H, 1, k < 2 ? 1.0 : 9.0), ESPALIER_OK);
        assert_int_equal(esi_telea_inpaint_planes(t.ctx, planes, 4, mask, W, H), ESPALIER_OK);
        for (int i = 0; i < N; i++) {
            assert_memory_equal(rgba[i], rgb[i], 3);
            assert_int_equal(orm[i][2], one[0][i]);
            assert_int_equal(rgba[i][3], one[1][i]);
            assert_int_equal(orm[i][1], one[2][i]);
        }
        for (int i = 0; i < N; i++) mask[i] = mask[i] || i % 7 == 0;
    }
    test_base_close(&t);
}

/* OpenCV adds 1/2 before it rounds to nearest: a constant picture comes back one brighter in about half of the cases, and never else. */
static void constants(void **state)
{
    uint8_t pixels[25], mask[25] = {0};
    int brighter = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    mask[12] = 1;
    for (int value = 0; value < 256; value++) {
        memset(pixels, value, sizeof pixels);
        pixels[12] = 77;
        assert_int_equal(esi_telea_inpaint(t.ctx, pixels, mask, 5, 5, 1, 1.0), ESPALIER_OK);
        assert_true(pixels[12] == value || pixels[12] == ESI_MIN(value + 1, 255));
        brighter += pixels[12] > value;
        assert_int_equal(pixels[11], value);
    }
    assert_true(brighter > 96 && brighter < 224);
    test_base_close(&t);
}

/* OpenCV reads outside such pictures; here they must not crash, keep what is known and fill what touches it. */
static void tiny_pictures(void **state)
{
    uint64_t seed = 9;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int width = 1; width <= 4; width++) {
        for (int height = 1; height <= 4; height++) {
            const int n = width * height;

            for (int bits = 0; bits < 1 << n; bits += n > 8 ? 37 : 1) {
                uint8_t pixels[16 * 3], before[16 * 3], mask[16];

                random_picture(pixels, sizeof pixels, &seed);
                memcpy(before, pixels, sizeof before);
                for (int i = 0; i < n; i++) mask[i] = bits >> i & 1;
                assert_int_equal(esi_telea_inpaint(t.ctx, pixels, mask, width, height, 3, 3.0), ESPALIER_OK);
                for (int i = 0; i < n; i++) {
                    if (!mask[i]) assert_memory_equal(pixels + 3 * i, before + 3 * i, 3);
                }
            }
        }
    }
    test_base_close(&t);
}

static void radius_is_rounded_and_clamped(void **state)
{
    enum { W = 40, H = 30, N = W * H };
    static const double pairs[][2] = {{2.5, 2.0}, {3.5, 4.0}, {0.0, 1.0}, {-5.0, 1.0}, {1e9, 100.0}, {1.49, 1.0}, {2.51, 3.0}};
    static uint8_t a[N], b[N], mask[N];
    uint64_t seed = 3;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    disc_mask(mask, W, H);
    for (size_t i = 0; i < ESI_COUNT(pairs); i++) {
        random_picture(a, N, &seed);
        memcpy(b, a, N);
        assert_int_equal(esi_telea_inpaint(t.ctx, a, mask, W, H, 1, pairs[i][0]), ESPALIER_OK);
        assert_int_equal(esi_telea_inpaint(t.ctx, b, mask, W, H, 1, pairs[i][1]), ESPALIER_OK);
        assert_memory_equal(a, b, N);
    }
    test_base_close(&t);
}

static void refusals_and_failures(void **state)
{
    enum { W = 64, H = 64, N = W * H };
    static uint8_t pixels[N], mask[N];
    espalier_status st = ESPALIER_ERR_RESOURCE;
    test_base t;
    long n;

    (void)state;
    test_base_open(&t, 1);
    disc_mask(mask, W, H);
    assert_int_equal(esi_telea_inpaint(t.ctx, pixels, mask, W, H, 2, 3.0), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_telea_inpaint(t.ctx, pixels, mask, 0, H, 1, 3.0), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_telea_inpaint(t.ctx, pixels, mask, 60000, 60000, 1, 3.0), ESPALIER_ERR_RESOURCE);
    esi_clear_error(t.ctx);
    for (n = 1; st != ESPALIER_OK && n < 20; n++) {
        test_fail_at(&t.memory, n);
        st = esi_telea_inpaint(t.ctx, pixels, mask, W, H, 1, 3.0);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    assert_true(n > 5 && n < 20);
    test_fail_at(&t.memory, 0);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_telea_inpaint(t.ctx, pixels, mask, W, H, 1, 3.0), ESPALIER_ERR_CANCELLED);
    esi_clear_error(t.ctx);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_together), cmocka_unit_test(constants), cmocka_unit_test(tiny_pictures),
        cmocka_unit_test(radius_is_rounded_and_clamped), cmocka_unit_test(refusals_and_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
