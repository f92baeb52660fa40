/* SPDX-License-Identifier: MIT
 *
 * Pictures in and out: every kind of PNG against its definition, JPEG and WebP against what Pillow decodes, orientations, animations.
 */
#include "image_fixture.h"

#include "formats/exif.h"

/* ------------------------------------------------------------------ PNG */

/* What the PNG specification says pixel (x, y) is, as 8-bit RGBA; 16 bits are cut. */
static void expected_pixel(uint8_t rgba[4], const png_spec *spec, uint32_t x, uint32_t y)
{
    const uint32_t max = (1u << spec->depth) - 1;
    uint32_t v[4];
    bool is_key = spec->transparency;
    for (uint32_t c = 0; c < 4; c++) {
        v[c] = png_sample(spec, x, y, c);
        if (c < (uint32_t)png_samples(spec->color_type) && v[c] != png_sample(spec, 0, 0, c)) is_key = false;
        if (spec->depth <= 8) v[c] = v[c] * 255 / max;
        else v[c] >>= 8;
    }
    bool gray = spec->color_type == PNG_COLOR_TYPE_GRAY || spec->color_type == PNG_COLOR_TYPE_GRAY_ALPHA;
    for (int c = 0; c < 3; c++) rgba[c] = (uint8_t)v[gray ? 0 : c];
    rgba[3] = is_key ? 0 : 255;
    if (spec->color_type == PNG_COLOR_TYPE_GRAY_ALPHA) rgba[3] = (uint8_t)v[1];
    if (spec->color_type == PNG_COLOR_TYPE_RGB_ALPHA) rgba[3] = (uint8_t)v[3];
    if (spec->color_type == PNG_COLOR_TYPE_PALETTE) {
        uint32_t i = png_sample(spec, x, y, 0);
        png_color entry = png_palette_entry(i);
        rgba[0] = entry.red;
        rgba[1] = entry.green;
        rgba[2] = entry.blue;
        rgba[3] = spec->transparency && i < PNG_TEST_TRANSPARENT ? png_palette_alpha(i) : 255;
    }
}

static void check_png(fixture *f, const png_spec *spec)
{
    espalier_image image;
    bytes b = make_png(spec);
    const bool alpha = spec->transparency || (spec->color_type & PNG_COLOR_MASK_ALPHA) != 0;

    if (decode_copy(f, &image, b.data, b.len) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    assert_int_equal(image.width, spec->width);
    assert_int_equal(image.height, spec->height);
    assert_int_equal(image.channels, alpha ? 4 : 3);
    for (uint32_t y = 0; y < spec->height; y++) {
        for (uint32_t x = 0; x < spec->width; x++) {
            uint8_t rgba[4];
            expected_pixel(rgba, spec, x, y);
            if (memcmp(image.pixels + ((size_t)y * spec->width + x) * image.channels, rgba, image.channels) != 0) {
                fail_msg("type %d depth %d interlace %d tRNS %d: pixel %u,%u", spec->color_type, spec->depth, spec->interlace,
                         spec->transparency, (unsigned)x, (unsigned)y);
            }
        }
    }
    espalier_image_free(&image);
}

static void png_kinds(void **state)
{
    static const struct { int type, depths[5]; bool may_have_key; } kinds[] = {
        {PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16}, true},      {PNG_COLOR_TYPE_GRAY_ALPHA, {8, 16}, false},
        {PNG_COLOR_TYPE_RGB, {8, 16}, true},                {PNG_COLOR_TYPE_RGB_ALPHA, {8, 16}, false},
        {PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8}, true},
    };
    static const uint32_t sizes[][2] = {{1, 1}, {2, 1}, {7, 5}, {1, 9}, {13, 17}};
    int n = 0;
    for (size_t k = 0; k < ESI_COUNT(kinds); k++) {
        for (size_t d = 0; d < ESI_COUNT(kinds[k].depths) && kinds[k].depths[d] != 0; d++) {
            for (size_t s = 0; s < ESI_COUNT(sizes); s++) {
                for (int options = 0; options < 4; options++) {
                    png_spec spec = {.width = sizes[s][0], .height = sizes[s][1], .depth = kinds[k].depths[d], .color_type = kinds[k].type,
                                     .interlace = options & 1, .transparency = (options & 2) != 0};
                    if (spec.transparency && !kinds[k].may_have_key) continue;
                    check_png(*state, &spec);
                    n++;
                }
            }
        }
    }
    assert_int_equal(n, (5 + 2 + 2 + 2 + 4) * 5 * 2 + (5 + 2 + 4) * 5 * 2);
}

/* An animation's default picture is taken whether or not it is a frame of the animation. */
static void png_animation(void **state)
{
    fixture *f = *state;
    const png_spec spec = {.width = 4, .height = 3, .depth = 8, .color_type = PNG_COLOR_TYPE_RGB};
    espalier_image plain, animated;
    bytes b = make_png(&spec), chunk = {.len = 0}, control = {.len = 0};

    put_u32_big(&control, 1);
    put_u32_big(&control, 0);
    put_png_chunk(&chunk, "acTL", control.data, control.len);
    bytes with = insert_bytes(&b, find_png_chunk(&b, "IDAT"), &chunk);
    chunk.len = 0;
    put_png_chunk(&chunk, "fdAT", "\0\0\0\1nonsense", 12);
    with = insert_bytes(&with, find_png_chunk(&with, "IEND"), &chunk);

    assert_int_equal(decode_copy(f, &plain, b.data, b.len), ESPALIER_OK);
    assert_int_equal(decode_copy(f, &animated, with.data, with.len), ESPALIER_OK);
    assert_true(esi_image_hash(&plain) == esi_image_hash(&animated));
    espalier_image_free(&plain);
    espalier_image_free(&animated);
}

static void png_damage(void **state)
{
    fixture *f = *state;
    const png_spec spec = {.width = 4, .height = 3, .depth = 8, .color_type = PNG_COLOR_TYPE_RGB};
    espalier_image image;
    bytes b = make_png(&spec), bad = b;

    bad.data[find_png_chunk(&b, "IDAT") + 10] ^= 4;
    assert_int_equal(decode_copy(f, &image, bad.data, bad.len), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(f->ctx), "t.img: damaged PNG: "));
    assert_null(image.pixels);
    bad = b;
    bad.data[find_png_chunk(&b, "IDAT") + 4] = 'J';            /* an unknown critical chunk */
    assert_int_equal(decode_copy(f, &image, bad.data, bad.len), ESPALIER_ERR_INPUT);
    bad = b;
    memcpy(bad.data + find_png_chunk(&b, "IHDR") + 4, "IHDX", 4);
    assert_int_equal(decode_copy(f, &image, bad.data, bad.len), ESPALIER_ERR_INPUT);
}

static void save_and_read_back(void **state)
{
    fixture *f = *state;
    char path[128], other[128];
    fixture_path(f, path, "a.png");
    fixture_path(f, other, "b.png");
    for (uint32_t channels = 1; channels <= 4; channels++) {
        espalier_image in, out;
        if (channels == 2) continue;
        assert_int_equal(espalier_image_create(f->ctx, &in, 31, 17, channels), ESPALIER_OK);
        for (size_t i = 0; i < esi_image_size(&in); i++) {
            assert_int_equal(in.pixels[i], 0);
            in.pixels[i] = (uint8_t)(i * 7 + i / 31);
        }
        assert_int_equal(espalier_image_save_png(f->ctx, &in, path), ESPALIER_OK);
        assert_int_equal(espalier_image_save_png(f->ctx, &in, other), ESPALIER_OK);
        assert_int_equal(espalier_image_load(f->ctx, &out, path), ESPALIER_OK);
        assert_int_equal(out.channels, channels == 4 ? 4 : 3);
        for (size_t i = 0; i < 31 * 17; i++) {
            for (uint32_t c = 0; c < out.channels; c++) {
                assert_int_equal(out.pixels[i * out.channels + c], in.pixels[i * channels + (channels == 1 ? 0 : c)]);
            }
        }
        uint8_t *a = NULL, *b = NULL;
        size_t len_a = 0, len_b = 0;
        assert_int_equal(esi_file_read(f->ctx, &a, &len_a, path, 1 << 20, ESPALIER_ERR_INPUT), ESPALIER_OK);
        assert_int_equal(esi_file_read(f->ctx, &b, &len_b, other, 1 << 20, ESPALIER_ERR_INPUT), ESPALIER_OK);
        assert_int_equal(len_a, len_b);
        assert_memory_equal(a, b, len_a);
        esi_free(f->ctx, a);
        esi_free(f->ctx, b);
        espalier_image_free(&in);
        espalier_image_free(&out);
        unlink(path);
        unlink(other);
    }
}

static void save_fails_cleanly(void **state)
{
    fixture *f = *state;
    char path[128];
    espalier_image in, none = {0};
    assert_int_equal(espalier_image_create(f->ctx, &in, 5, 4, 3), ESPALIER_OK);
    assert_int_equal(espalier_image_save_png(f->ctx, &in, fixture_path(f, path, "no/such/folder.png")), ESPALIER_ERR_OUTPUT);
    assert_int_equal(espalier_image_save_png(f->ctx, &none, fixture_path(f, path, "a.png")), ESPALIER_ERR_ARG);
    assert_int_not_equal(access(path, F_OK), 0);
    espalier_image_free(&in);
}

static void save_by_suffix(void **state)
{
    static const char *const good[] = {"a.png", "a.PNG", "a.webp", "a.WebP"}, *const bad[] = {"a.jpg", "a", "png", "a.pngx", "a.webp.x"};
    fixture *f = *state;
    char path[128];

    for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        espalier_image in, out;
        assert_int_equal(espalier_image_create(f->ctx, &in, 31, 17, channels), ESPALIER_OK);
        for (size_t i = 0; i < esi_image_size(&in); i++) in.pixels[i] = (uint8_t)(i * 11 + i / 13); /* colours under alpha 0 too */
        for (size_t k = 0; k < ESI_COUNT(good); k++) {
            assert_int_equal(espalier_image_can_save(good[k]), 1);
            assert_int_equal(espalier_image_save(f->ctx, &in, fixture_path(f, path, good[k])), ESPALIER_OK);
            assert_int_equal(espalier_image_load(f->ctx, &out, path), ESPALIER_OK);
            assert_int_equal(out.channels, channels == 4 ? 4 : 3);
            for (size_t i = 0; i < 31 * 17 * out.channels; i++)
                assert_int_equal(out.pixels[i], in.pixels[channels == 1 ? i / out.channels : i]);
            espalier_image_free(&out);
            unlink(path);
        }
        for (size_t k = 0; k < ESI_COUNT(bad); k++) {
            assert_int_equal(espalier_image_can_save(bad[k]), 0);
            assert_int_equal(espalier_image_save(f->ctx, &in, fixture_path(f, path, bad[k])), ESPALIER_ERR_ARG);
            assert_int_not_equal(access(path, F_OK), 0);
        }
        espalier_image_free(&in);
    }
}

static void save_by_suffix_fails_cleanly(void **state)
{
    fixture *f = *state;
    char path[128];
    espalier_image in, wide, none = {0};

    assert_int_equal(espalier_image_create(f->ctx, &in, 40, 30, 1), ESPALIER_OK);
    assert_int_equal(espalier_image_create(f->ctx, &wide, 16384, 1, 3), ESPALIER_OK);
    assert_int_equal(espalier_image_save(f->ctx, &wide, fixture_path(f, path, "a.png")), ESPALIER_OK);
    unlink(path);
    assert_int_equal(espalier_image_save(f->ctx, &in, fixture_path(f, path, "no/such/folder.webp")), ESPALIER_ERR_OUTPUT);
    fixture_path(f, path, "a.webp");
    assert_int_equal(espalier_image_save(f->ctx, &wide, path), ESPALIER_ERR_RESOURCE); /* the format ends at 16383 */
    assert_int_equal(espalier_image_save(f->ctx, &none, path), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_save(f->ctx, NULL, path), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_save(NULL, &in, path), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_save(f->ctx, &in, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_can_save(NULL), 0);
    espalier_context_set_memory_budget(f->ctx, 1000);
    assert_int_equal(espalier_image_save(f->ctx, &in, path), ESPALIER_ERR_RESOURCE);
    espalier_context_set_memory_budget(f->ctx, 0);
    assert_int_not_equal(access(path, F_OK), 0);
    espalier_image_free(&wide);
    espalier_image_free(&in);
}

/* ------------------------------------------- samples decoded by Pillow */

/* esi_image_hash of what Pillow 9.4 (libjpeg-turbo 2.1, libwebp 1.2) makes of each file: ImageOps.exif_transpose, then convert to RGB or
 * RGBA; the first frame of animations; gray-16 as (value >> 8). The pictures are synthetic and our own. */
static const struct { const char *name; uint32_t width, height, channels; uint64_t hash; } samples[] = {
    {"gray.jpg", 19, 14, 3, UINT64_C(0x58aa53933a6ad6f0)},
    {"color-444.jpg", 19, 14, 3, UINT64_C(0xd96784bd5717a263)},
    {"color-422.jpg", 19, 14, 3, UINT64_C(0xa01f6bf80fc93746)},
    {"color-420.jpg", 19, 14, 3, UINT64_C(0xcd4381a3b08ad399)},
    {"progressive.jpg", 19, 14, 3, UINT64_C(0x4cd0c4ffe81fb793)},
    {"exif-6.jpg", 14, 19, 3, UINT64_C(0x0e91feba2907c901)},
    {"cmyk.jpg", 19, 14, 3, UINT64_C(0xb79940ac4b4fba7e)},
    {"ycck.jpg", 13, 9, 3, UINT64_C(0x4bfba42d90517fdb)},
    {"lossy.webp", 19, 14, 3, UINT64_C(0xdc33131251ee3515)},
    {"lossy-alpha.webp", 19, 14, 4, UINT64_C(0xa5bbfca399c5b1a3)},
    {"lossless.webp", 19, 14, 3, UINT64_C(0xbb5b6aef6878ffe2)},
    {"lossless-alpha.webp", 19, 14, 4, UINT64_C(0xe3ec4c90f576f524)},
    {"exif-8.webp", 14, 19, 3, UINT64_C(0x4fb72d07481b15d2)},
    {"animated.webp", 19, 14, 4, UINT64_C(0xd5aa4a58d45b297d)},
    {"rgb.png", 19, 14, 3, UINT64_C(0xbb5b6aef6878ffe2)},
    {"rgba.png", 19, 14, 4, UINT64_C(0xe3ec4c90f576f524)},
    {"gray-alpha.png", 19, 14, 4, UINT64_C(0x1b9f17639bbdb3b2)},
    {"palette.png", 19, 14, 3, UINT64_C(0x3179dab5a7707d4d)},
    {"palette-trns.png", 19, 14, 4, UINT64_C(0x419e1f92012692ee)},
    {"exif-5.png", 14, 19, 3, UINT64_C(0x6a9c3e627b0520de)},
    {"gray-16.png", 19, 14, 3, UINT64_C(0x1c07ffdb50b910e9)},
    {"animated.png", 19, 14, 4, UINT64_C(0xe3ec4c90f576f524)},
};

static void samples_as_pillow(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < ESI_COUNT(samples); i++) {
        espalier_image image;
        bytes b = corpus_file(samples[i].name);
        if (decode_copy(f, &image, b.data, b.len) != ESPALIER_OK) fail_msg("%s: %s", samples[i].name, espalier_error_message(f->ctx));
        assert_int_equal(image.width, samples[i].width);
        assert_int_equal(image.height, samples[i].height);
        assert_int_equal(image.channels, samples[i].channels);
        if (esi_image_hash(&image) != samples[i].hash) fail_msg("%s: other pixels than Pillow's", samples[i].name);
        espalier_image_free(&image);
    }
}

/* ---------------------------------------------------------- orientation */

/* The stored picture is ABC / DEF; how it is meant to be seen, by the EXIF specification. */
static const char *const upright[9] = {NULL, "ABCDEF", "CBAFED", "FEDCBA", "DEFABC", "ADBECF", "DAEBFC", "FCEBDA", "CFBEAD"};

static void check_upright(const espalier_image *image, int orientation, const uint8_t value[6], int tolerance)
{
    assert_int_equal(image->width, orientation >= 5 ? 2 : 3);
    assert_int_equal(image->height, orientation >= 5 ? 3 : 2);
    for (size_t i = 0; i < 6; i++) {
        int want = value[upright[orientation][i] - 'A'], got = image->pixels[i * image->channels];
        if (abs(want - got) > tolerance) fail_msg("orientation %d, pixel %zu: %d instead of %d", orientation, i, got, want);
    }
}

static void orientation_of_png(void **state)
{
    fixture *f = *state;
    for (int o = 1; o <= 8; o++) {
        for (int variant = 0; variant < 4; variant++) {
            espalier_image image;
            uint8_t value[6];
            bytes exif = make_exif((uint32_t)o, variant & 1, false);
            png_spec spec = {.width = 3, .height = 2, .depth = 8, .color_type = PNG_COLOR_TYPE_GRAY, .exif = exif.data,
                             .len_exif = exif.len};
            for (uint32_t i = 0; i < 6; i++) value[i] = (uint8_t)png_sample(&spec, i % 3, i / 3, 0);
            if (variant >= 2) spec.exif = NULL;
            bytes b = make_png(&spec);
            if (variant >= 2) {                                   /* the chunk may also follow the pixels */
                bytes chunk = {.len = 0};
                put_png_chunk(&chunk, "eXIf", exif.data, exif.len);
                b = insert_bytes(&b, find_png_chunk(&b, "IEND"), &chunk);
            }
            assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_OK);
            check_upright(&image, o, value, 0);
            espalier_image_free(&image);
        }
    }
}

static void orientation_of_jpeg(void **state)
{
    static const uint8_t value[6] = {10, 60, 110, 150, 200, 250};
    fixture *f = *state;
    for (int o = 1; o <= 8; o++) {
        for (int big = 0; big < 2; big++) {
            espalier_image image;
            bytes exif = make_exif((uint32_t)o, big != 0, true);
            jpeg_spec spec = {.width = 3, .height = 2, .components = 1, .pixels = value, .exif = &exif};
            bytes b = make_jpeg(&spec);
            assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_OK);
            check_upright(&image, o, value, 4);
            espalier_image_free(&image);
        }
    }
}

static const uint8_t six_rgba[24] = {10, 1, 2, 255, 60, 3, 4, 0, 110, 5, 6, 9, 150, 7, 8, 255, 200, 9, 1, 77, 250, 2, 3, 255};
static const uint8_t six_values[6] = {10, 60, 110, 150, 200, 250};

static void orientation_of_webp(void **state)
{
    fixture *f = *state;
    for (int o = 1; o <= 8; o++) {
        for (int variant = 0; variant < 4; variant++) {
            espalier_image image;
            bytes chunks = {.len = 0}, exif = make_exif((uint32_t)o, variant & 1, variant >= 2), pixels = make_vp8l(six_rgba, 3, 2);
            put_vp8x(&chunks, WEBP_HAS_ALPHA | WEBP_HAS_EXIF, 3, 2);
            put(&chunks, pixels.data, pixels.len);
            put_webp_chunk(&chunks, "EXIF", exif.data, exif.len);
            bytes b = riff(&chunks);
            assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_OK);
            assert_int_equal(image.channels, 4);
            check_upright(&image, o, six_values, 0);
            espalier_image_free(&image);
        }
    }
}

static void exif_damage(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        bytes whole = make_exif(7, big != 0, false);
        assert_int_equal(esi_exif_orientation(whole.data, whole.len), 7);
        for (size_t len = 0; len < whole.len; len++) {
            uint8_t *copy = malloc(len + 1);
            assert_non_null(copy);
            memcpy(copy, whole.data, len);
            /* the tag's entry ends four bytes before the end of the block */
            assert_int_equal(esi_exif_orientation(copy, len), len >= whole.len - 4 ? 7 : 1);
            free(copy);
        }
        for (size_t i = 0; i < whole.len * 8; i++) {
            bytes flipped = whole;
            flipped.data[i / 8] ^= (uint8_t)(1 << i % 8);
            int o = esi_exif_orientation(flipped.data, flipped.len);
            assert_true(o >= 1 && o <= 8);
        }
        for (uint32_t o = 9; o < 12; o++) {
            bytes odd = make_exif(o, big != 0, true);
            assert_int_equal(esi_exif_orientation(odd.data, odd.len), 1);
        }
    }
    static const uint8_t far[] = {'I', 'I', 42, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_int_equal(esi_exif_orientation(far, sizeof far), 1);
    static const uint8_t mixed[] = {'I', 'M', 42, 0, 8, 0, 0, 0, 1, 0};
    assert_int_equal(esi_exif_orientation(mixed, sizeof mixed), 1);
}

/* ----------------------------------------------------------------- WebP */

static bytes animation(uint32_t x, uint32_t y)
{
    bytes chunks = {.len = 0}, frame = {.len = 0}, pixels = make_vp8l(six_rgba, 3, 2);
    put_vp8x(&chunks, WEBP_HAS_ALPHA | WEBP_HAS_ANIMATION, 8, 6);
    put_webp_chunk(&chunks, "ANIM", "\xff\xff\xff\xff\0\0", 6);
    put_number(&frame, x / 2, 3);
    put_number(&frame, y / 2, 3);
    put_number(&frame, 3 - 1, 3);
    put_number(&frame, 2 - 1, 3);
    put_number(&frame, 100, 3);
    put_number(&frame, 0, 1);
    put(&frame, pixels.data, pixels.len);
    put_webp_chunk(&chunks, "ANMF", frame.data, frame.len);
    return riff(&chunks);
}

static void webp_first_frame_on_transparent_canvas(void **state)
{
    fixture *f = *state;
    espalier_image image;
    bytes b = animation(4, 2);
    assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_OK);
    assert_int_equal(image.width, 8);
    assert_int_equal(image.height, 6);
    assert_int_equal(image.channels, 4);
    for (uint32_t y = 0; y < 6; y++) {
        for (uint32_t x = 0; x < 8; x++) {
            static const uint8_t nothing[4] = {0};
            bool inside = x >= 4 && x < 7 && y >= 2 && y < 4;
            const uint8_t *want = inside ? six_rgba + ((y - 2) * 3 + (x - 4)) * 4 : nothing;
            assert_memory_equal(image.pixels + (y * 8 + x) * 4, want, 4);
        }
    }
    espalier_image_free(&image);
    b = animation(6, 2);                                          /* one column over the edge */
    assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_ERR_INPUT);
}

static void one_pixel(void **state)
{
    static const uint8_t gray[1] = {77}, rgba[4] = {1, 2, 3, 4};
    fixture *f = *state;
    espalier_image image;
    const jpeg_spec spec = {.width = 1, .height = 1, .components = 1, .pixels = gray};
    bytes b = make_jpeg(&spec);
    assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_OK);
    assert_int_equal(esi_image_size(&image), 3);
    for (int c = 0; c < 3; c++) assert_int_equal(image.pixels[c], 77);
    espalier_image_free(&image);

    const bytes chunk = make_vp8l(rgba, 1, 1);
    b = riff(&chunk);
    assert_int_equal(decode_copy(f, &image, b.data, b.len), ESPALIER_OK);
    assert_int_equal(esi_image_size(&image), 4);
    assert_memory_equal(image.pixels, rgba, 4);
    espalier_image_free(&image);
}

/* ------------------------------------------------------ small functions */

static void alpha_and_hash(void **state)
{
    fixture *f = *state;
    espalier_image image;
    assert_int_equal(espalier_image_create(f->ctx, &image, 2, 1, 3), ESPALIER_OK);
    assert_false(espalier_image_has_alpha(&image));
    espalier_image_free(&image);
    assert_int_equal(espalier_image_create(f->ctx, &image, 2, 1, 4), ESPALIER_OK);
    assert_true(espalier_image_has_alpha(&image));
    memset(image.pixels, 255, 8);
    assert_false(espalier_image_has_alpha(&image));
    image.pixels[7] = 254;
    assert_true(espalier_image_has_alpha(&image));
    /* FNV-1a of 02000000 01000000 04000000 ffffffffffffff fe, computed by hand from its definition in Python */
    assert_true(esi_image_hash(&image) == UINT64_C(0xbd7e851adb118dfd));
    image.width = 1;
    image.height = 2;
    uint64_t turned = esi_image_hash(&image);
    assert_true(turned != UINT64_C(0xbd7e851adb118dfd));
    espalier_image_free(&image);
    assert_null(image.pixels);
    espalier_image_free(&image);
    espalier_image_free(NULL);
}

/* The message names the file, what is wrong, and what to do. */
static void over_the_budget(void **state)
{
    fixture *f = *state;
    espalier_image image;
    char path[128], wanted[256];
    fixture_path(f, path, "a.png");
    assert_int_equal(espalier_image_create(f->ctx, &image, 500, 400, 3), ESPALIER_OK);
    assert_int_equal(espalier_image_save_png(f->ctx, &image, path), ESPALIER_OK);
    espalier_image_free(&image);
    espalier_context_set_memory_budget(f->ctx, 400000);
    assert_int_equal(espalier_image_load(f->ctx, &image, path), ESPALIER_ERR_RESOURCE);
    snprintf(wanted, sizeof wanted, "%s: 500 x 400 pixels exceed the memory budget; make the picture smaller", path);
    assert_string_equal(espalier_error_message(f->ctx), wanted);
}

/* Turning a picture of the largest size takes seconds. */
static void turning_can_be_cancelled(void **state)
{
    fixture *f = *state;
    espalier_image stored, upright_image;
    assert_int_equal(espalier_image_create(f->ctx, &stored, 5, 40, 3), ESPALIER_OK);
    espalier_context_cancel(f->ctx);
    assert_int_equal(esi_image_apply_orientation(f->ctx, &upright_image, &stored, 6), ESPALIER_ERR_CANCELLED);
    assert_null(upright_image.pixels);
    assert_null(stored.pixels);
}

static void null_arguments_are_refused(void **state)
{
    fixture *f = *state;
    espalier_image image;
    memset(&image, 0x55, sizeof image);
    assert_int_equal(espalier_image_create(f->ctx, NULL, 1, 1, 3), ESPALIER_ERR_ARG);
    assert_non_null(strstr(espalier_error_message(f->ctx), "espalier_image_create"));
    assert_int_equal(espalier_image_create(NULL, &image, 1, 1, 3), ESPALIER_ERR_ARG);
    assert_null(image.pixels);
    assert_int_equal(espalier_image_decode(f->ctx, &image, NULL, 5, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_decode(f->ctx, &image, NULL, 0, NULL), ESPALIER_ERR_INPUT);
    assert_int_equal(espalier_image_decode(f->ctx, NULL, "x", 1, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_load(f->ctx, &image, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_load(f->ctx, NULL, "x"), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_save_png(f->ctx, NULL, "x"), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_save_png(f->ctx, &image, NULL), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_has_alpha(NULL), 0);
}

static void create_checks_its_arguments(void **state)
{
    fixture *f = *state;
    espalier_image image;
    assert_int_equal(espalier_image_create(f->ctx, &image, 0, 1, 3), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_create(f->ctx, &image, 1, 0, 3), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_create(f->ctx, &image, 1, 1, 2), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_create(f->ctx, &image, 1, 1, 5), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_image_create(f->ctx, &image, 16385, 1, 3), ESPALIER_ERR_RESOURCE);
    assert_null(image.pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(png_kinds, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(png_animation, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(png_damage, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(save_and_read_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(save_fails_cleanly, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(save_by_suffix, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(save_by_suffix_fails_cleanly, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(samples_as_pillow, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(orientation_of_png, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(orientation_of_jpeg, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(orientation_of_webp, fixture_setup, fixture_teardown),
        cmocka_unit_test(exif_damage),
        cmocka_unit_test_setup_teardown(webp_first_frame_on_transparent_canvas, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(one_pixel, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(alpha_and_hash, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(over_the_budget, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(turning_can_be_cancelled, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(null_arguments_are_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(create_checks_its_arguments, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
