/* SPDX-License-Identifier: MIT
 *
 * GLB output: container, accessors, axes, colours, dropped vertices, limits. With `--samples DIR` as arguments it writes a few files for
 * the glTF validator instead (tests/cli/gltf_validate.mjs).
 */
#include "asset_fixture.h"

#include "formats/bytes.h"
#include "formats/glb.h"
#include "formats/json.h"

#include <math.h>

typedef struct glb_file {
    uint8_t *bytes;
    size_t size;
    esi_json *json;
    const uint8_t *binary;
    size_t binary_size;
} glb_file;

/* Load and take apart; checks the container on the way. */
static void open_glb(espalier_context *ctx, glb_file *g, const char *path)
{
    uint32_t json_size;
    const char *version = NULL;

    g->bytes = test_read_file(path, &g->size);
    assert_true(g->size > 28);
    assert_memory_equal(g->bytes, "glTF\2\0\0\0", 8);
    assert_int_equal(esi_load_u32le(g->bytes + 8), g->size);
    json_size = esi_load_u32le(g->bytes + 12);
    assert_int_equal(json_size % 4, 0);
    assert_memory_equal(g->bytes + 16, "JSON", 4);
    assert_int_equal(esi_json_parse(ctx, &g->json, g->bytes + 20, json_size, path, ESPALIER_ERR_INPUT), ESPALIER_OK);
    g->binary_size = esi_load_u32le(g->bytes + 20 + json_size);
    assert_int_equal(g->binary_size % 4, 0);
    assert_memory_equal(g->bytes + 24 + json_size, "BIN\0", 4);
    g->binary = g->bytes + 28 + json_size;
    assert_int_equal(28 + json_size + g->binary_size, g->size);
    assert_true(esi_json_string(esi_json_path(g->json, "asset.version"), &version));
    assert_string_equal(version, "2.0");
}

static void close_glb(glb_file *g)
{
    esi_json_free(g->json);
    free(g->bytes);
}

static int64_t number(const esi_json *v, const char *key)
{
    int64_t n = -1;

    esi_json_int(esi_json_get(v, key), &n);
    return n;
}

/* Data of accessor i and its count; checks that it lies inside the buffer and is aligned. */
static const uint8_t *accessor(const glb_file *g, size_t i, int64_t type, int64_t *count)
{
    const esi_json *a = esi_json_at(esi_json_get(g->json, "accessors"), i);
    const esi_json *view = esi_json_at(esi_json_get(g->json, "bufferViews"), (size_t)number(a, "bufferView"));
    const int64_t offset = number(view, "byteOffset"), length = number(view, "byteLength");

    assert_non_null(a);
    assert_int_equal(number(a, "componentType"), type);
    *count = number(a, "count");
    assert_true(offset >= 0 && offset % 4 == 0 && length > 0 && (size_t)(offset + length) <= g->binary_size);
    return g->binary + offset;
}

static float float_at(const uint8_t *p)
{
    const uint32_t bits = esi_load_u32le(p);
    float v;

    memcpy(&v, &bits, 4);
    return v;
}

static double factor(const glb_file *g, const char *key)
{
    double v = -1;

    esi_json_double(esi_json_get(esi_json_get(esi_json_at(esi_json_get(g->json, "materials"), 0), "pbrMetallicRoughness"), key), &v);
    return v;
}

static void contents(void **state)
{
    /* round(65535 * decoded) by hand from IEC 61966-2-1: 0.5 -> 0.2140411, 0.04045 -> 0.0031308, 0.2 -> 0.0331048, ... */
    static const unsigned colors[5][4] = {{0, 65535, 14027, 65535}, {0, 65535, 205, 65535}, {2170, 8708, 20876, 32768},
                                          {657, 4800, 29359, 65535}, {65535, 0, 0, 65535}};
    static const unsigned indices[9] = {0, 1, 2, 2, 1, 4, 4, 3, 0};
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();
    glb_file g = {0};
    const esi_json *positions;
    const uint8_t *data;
    int64_t count, seed = 0;
    const char *text = NULL;
    bool double_sided = false;

    (void)state;
    test_base_open(&t, 2);
    asset_fixture_init(&f);
    test_path(path, dir, "a.glb");
    assert_int_equal(esi_glb_write(t.ctx, &f.asset, path), ESPALIER_OK);
    open_glb(t.ctx, &g, path);
    assert_int_equal(g.binary_size, esi_glb_binary_size(5, 3, true));

    data = accessor(&g, 0, 5123, &count);
    assert_int_equal(count, 9);
    for (int i = 0; i < 9; i++) assert_int_equal(esi_load_u16le(data + 2 * i), indices[i]);

    data = accessor(&g, 1, 5126, &count);
    assert_int_equal(count, 5);
    positions = esi_json_at(esi_json_get(g.json, "accessors"), 1);
    for (int i = 0; i < 5; i++) {
        assert_true(float_at(data + 12 * i) == f.vertices[i + 1][0]);
        assert_true(float_at(data + 12 * i + 4) == f.vertices[i + 1][2]);
        assert_true(float_at(data + 12 * i + 8) == -f.vertices[i + 1][1]);
    }
    for (size_t a = 0; a < 3; a++) {
        float low = INFINITY, high = -INFINITY;
        double v = 0;

        for (size_t i = 0; i < 5; i++) {
            low = fminf(low, float_at(data + 12 * i + 4 * a));
            high = fmaxf(high, float_at(data + 12 * i + 4 * a));
        }
        assert_true(esi_json_double(esi_json_at(esi_json_get(positions, "min"), a), &v) && v == (double)low);
        assert_true(esi_json_double(esi_json_at(esi_json_get(positions, "max"), a), &v) && v == (double)high);
    }

    data = accessor(&g, 2, 5123, &count);
    assert_int_equal(count, 5);
    for (int i = 0; i < 20; i++) {
        if (esi_load_u16le(data + 2 * i) != colors[i / 4][i % 4])
            fail_msg("colour %d: %u, not %u", i, esi_load_u16le(data + 2 * i), colors[i / 4][i % 4]);
    }
    assert_true(factor(&g, "metallicFactor") == 0.2);            /* (0.25 + 0.25 + 0.5 + 0 + 0) / 5 */
    assert_true(factor(&g, "roughnessFactor") == 0.8);           /* (0.75 + 0.75 + 0.5 + 1 + 1) / 5 */
    assert_true(esi_json_bool(esi_json_get(esi_json_at(esi_json_get(g.json, "materials"), 0), "doubleSided"), &double_sided) &&
                double_sided);
    assert_true(esi_json_string(esi_json_path(g.json, "asset.generator"), &text));
    assert_string_equal(text, "espalier " ESPALIER_VERSION_STRING);
    assert_true(esi_json_int(esi_json_path(g.json, "asset.extras.seed"), &seed) && seed == -42);
    assert_true(esi_json_string(esi_json_get(esi_json_path(g.json, "asset.extras"), "note \"x\""), &text));
    assert_string_equal(text, f.extras[3]);
    assert_null(esi_json_get(g.json, "extensionsUsed"));
    close_glb(&g);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void geometry_only(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();
    glb_file g = {0};

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    f.asset.attrs = NULL;
    f.asset.coords = NULL;
    f.asset.n_voxels = 0;
    test_path(path, dir, "a.glb");
    assert_int_equal(esi_glb_write(t.ctx, &f.asset, path), ESPALIER_OK);
    open_glb(t.ctx, &g, path);
    assert_int_equal(esi_json_size(esi_json_get(g.json, "accessors")), 2);
    assert_int_equal(g.binary_size, esi_glb_binary_size(5, 3, false));
    assert_true(factor(&g, "metallicFactor") == 0.0 && factor(&g, "roughnessFactor") == 1.0);
    close_glb(&g);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

/* A strip of n - 2 triangles over the even ones of 2n vertices. */
typedef struct strip { float (*vertices)[3]; float (*attrs)[6]; int32_t (*faces)[3]; esi_asset asset; } strip;

static void make_strip(strip *s, int32_t n)
{
    *s = (strip){calloc(2 * (size_t)n, 12), calloc(2 * (size_t)n, 24), calloc((size_t)n, 12), {0}};
    for (int32_t i = 0; i < 2 * n; i++) {
        s->vertices[i][0] = (float)(i / 4) / (float)n;
        s->vertices[i][1] = (float)(i / 2 % 2);
        s->vertices[i][2] = (float)(i % 1000) * 1e-5f;
        for (int a = 0; a < 6; a++) s->attrs[i][a] = (float)((i * 31 + a * 7) % 256) / 255.0f;
    }
    for (int32_t i = 0; i < n - 2; i++) {
        for (int a = 0; a < 3; a++) s->faces[i][a] = 2 * (i + a);
    }
    s->asset = (esi_asset){.n_vertices = 2 * n, .n_voxels = 2 * n, .n_faces = n - 2, .vertices = s->vertices[0], .attrs = s->attrs[0],
                           .faces = s->faces[0], .resolution = 4096};
}

static void free_strip(strip *s)
{
    free(s->vertices);
    free(s->attrs);
    free(s->faces);
}

/* Index width changes between 65535 and 65536 vertices; blocks of conversion are crossed; threads do not change a byte. */
static void many_vertices(void **state)
{
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_path(path, dir, "a.glb");
    for (int32_t n = 65535; n <= 65536; n++) {
        strip s;
        uint8_t *first = NULL;
        size_t first_size = 0;

        make_strip(&s, n);
        for (int threads = 1; threads <= 5; threads += 2) {
            test_base t;
            glb_file g = {0};
            int64_t count;
            const uint8_t *indices, *positions, *colors;

            test_base_open(&t, threads);
            assert_int_equal(esi_glb_write(t.ctx, &s.asset, path), ESPALIER_OK);
            open_glb(t.ctx, &g, path);
            indices = accessor(&g, 0, n == 65535 ? 5123 : 5125, &count);
            assert_int_equal(count, 3 * (n - 2));
            for (int64_t i = 0; i < count; i++) {
                const int64_t index = n == 65535 ? esi_load_u16le(indices + 2 * i) : esi_load_u32le(indices + 4 * i);

                if (index != i / 3 + i % 3) fail_msg("index %d", (int)i);
            }
            positions = accessor(&g, 1, 5126, &count);
            assert_int_equal(count, n);
            colors = accessor(&g, 2, 5123, &count);
            for (int32_t i = 0; i < n; i++) {
                if (float_at(positions + 12 * i) != s.vertices[2 * i][0] || float_at(positions + 12 * i + 4) != s.vertices[2 * i][2])
                    fail_msg("position %d", (int)i);
                if (esi_load_u16le(colors + 8 * i + 6) != (unsigned)((double)s.attrs[2 * i][5] * 65535.0 + 0.5))
                    fail_msg("alpha %d", (int)i);
            }
            if (!first) {
                first_size = g.size;
                first = malloc(g.size);
                assert_non_null(first);
                memcpy(first, g.bytes, g.size);
            }
            assert_int_equal(g.size, first_size);
            assert_memory_equal(g.bytes, first, first_size);
            close_glb(&g);
            test_base_close(&t);
        }
        free(first);
        free_strip(&s);
    }
    test_dir_remove(dir);
    free(dir);
}

static void refusals(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    test_path(path, dir, "a.glb");
    for (int i = 0; i < 6; i++) {
        espalier_status wanted = ESPALIER_ERR_INTERNAL;

        asset_fixture_init(&f);
        if (i == 0) f.asset.n_faces = 0;
        if (i == 0) wanted = ESPALIER_ERR_SOUNDNESS;
        if (i == 1) f.faces[2][1] = 6;
        if (i == 2) f.faces[0][0] = -1;
        if (i == 3) f.vertices[3][1] = NAN;
        if (i == 4) f.attrs[3][5] = INFINITY;
        if (i == 3 || i == 4) wanted = ESPALIER_ERR_SOUNDNESS;
        if (i == 5) f.asset.n_voxels = 5;
        assert_int_equal(esi_glb_write(t.ctx, &f.asset, path), wanted);
        assert_true(strncmp(espalier_error_message(t.ctx), path, strlen(path)) == 0);
        esi_clear_error(t.ctx);
        assert_int_equal(test_dir_count(dir), 0);
    }
    asset_fixture_init(&f);
    test_path(path, dir, "missing/a.glb");
    assert_int_equal(esi_glb_write(t.ctx, &f.asset, path), ESPALIER_ERR_OUTPUT);
    esi_clear_error(t.ctx);
    espalier_context_cancel(t.ctx);
    test_path(path, dir, "a.glb");
    assert_int_equal(esi_glb_write(t.ctx, &f.asset, path), ESPALIER_ERR_CANCELLED);
    assert_int_equal(test_dir_count(dir), 0);
    /* The container counts in 32 bits: 200 million vertices do not fit. */
    assert_true(esi_glb_binary_size(200000000, 400000000, true) > UINT32_MAX);
    assert_true(esi_glb_binary_size(65535, 1, false) == 8 + 65535 * 12);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void failing_allocations(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();
    espalier_status st = ESPALIER_ERR_RESOURCE;
    long n;

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    test_path(path, dir, "a.glb");
    for (n = 1; st != ESPALIER_OK && n < 60; n++) {
        test_fail_at(&t.memory, n);
        st = esi_glb_write(t.ctx, &f.asset, path);
        if (st != ESPALIER_OK) {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_int_equal(test_dir_count(dir), 0);
        }
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    assert_true(n > 4 && n < 60);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static int write_samples(const char *dir)
{
    asset_fixture f;
    strip s;
    test_base t;
    char path[1024];

    test_base_open(&t, 1);
    asset_fixture_init(&f);
    if (esi_glb_write(t.ctx, &f.asset, test_path(path, dir, "sample_color.glb")) != ESPALIER_OK) return 1;
    f.asset.attrs = NULL;
    if (esi_glb_write(t.ctx, &f.asset, test_path(path, dir, "sample_plain.glb")) != ESPALIER_OK) return 1;
    make_strip(&s, 70001);
    if (esi_glb_write(t.ctx, &s.asset, test_path(path, dir, "sample_large.glb")) != ESPALIER_OK) return 1;
    free_strip(&s);
    test_base_close(&t);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents), cmocka_unit_test(geometry_only), cmocka_unit_test(many_vertices),
        cmocka_unit_test(refusals), cmocka_unit_test(failing_allocations),
    };

    if (argc == 3 && strcmp(argv[1], "--samples") == 0) return write_samples(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
