/* SPDX-License-Identifier: MIT
 *
 * test_pbr_voxels.c: textured surfaces to PBR voxels. The reference mode has its golden case; here is our own: colours come back, materials
 * mean what glTF says, sides stay apart.
 */
#include "voxel_fixture.h"

#include "shape_fixture.h"
#include "voxel/volume.h"
#include "voxel/voxelize.h"

static esi_pbr_options options_for(int n)
{
    return (esi_pbr_options){.resolution = {n, n, n}, .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f}, .mipmaps = true};
}

static esi_texture texture_new(espalier_context *ctx, uint32_t width, uint32_t height, uint32_t channels)
{
    esi_texture t = {.width = width, .height = height, .channels = channels};

    t.pixels = esi_calloc(ctx, (size_t)width * height, channels, "texture");
    assert_non_null(t.pixels);
    return t;
}

/* A square at height z, from (-side, -side) to (side, side), u along x and v against y (the picture is upright seen from above). */
static void add_square(espalier_context *ctx, esi_surface *s, float side, float z, bool up)
{
    const float v[4][3] = {{-side, -side, z}, {side, -side, z}, {side, side, z}, {-side, side, z}};
    const float uv[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    const int32_t up_faces[2][3] = {{0, 1, 2}, {0, 2, 3}}, down_faces[2][3] = {{0, 2, 1}, {0, 3, 2}};
    const int64_t nv = s->mesh.n_vertices, nf = s->mesh.n_faces;

    s->mesh.vertices = esi_realloc(ctx, s->mesh.vertices, (size_t)nv + 4, 12, "test");
    s->mesh.faces = esi_realloc(ctx, s->mesh.faces, (size_t)nf + 2, 12, "test");
    s->uvs = esi_realloc(ctx, s->uvs, (size_t)nv + 4, 8, "test");
    s->face_material = esi_realloc(ctx, s->face_material, (size_t)nf + 2, 4, "test");
    assert_true(s->mesh.vertices && s->mesh.faces && s->uvs && s->face_material);
    memcpy(s->mesh.vertices + 3 * nv, v, sizeof v);
    memcpy(s->uvs + 2 * nv, uv, sizeof uv);
    for (int i = 0; i < 6; i++) s->mesh.faces[3 * nf + i] = (int32_t)nv + (up ? up_faces : down_faces)[i / 3][i % 3];
    s->face_material[nf] = s->face_material[nf + 1] = s->n_materials > 0 ? s->n_materials - 1 : 0;
    s->mesh.n_vertices = nv + 4;
    s->mesh.n_faces = nf + 2;
}

static esi_material *add_material(espalier_context *ctx, esi_surface *s)
{
    s->materials = esi_realloc(ctx, s->materials, (size_t)s->n_materials + 1, sizeof *s->materials, "test");
    assert_non_null(s->materials);
    s->materials[s->n_materials] = esi_material_default();
    return &s->materials[s->n_materials++];
}

static int32_t add_texture(espalier_context *ctx, esi_surface *s, esi_texture t)
{
    s->textures = esi_realloc(ctx, s->textures, (size_t)s->n_textures + 1, sizeof *s->textures, "test");
    assert_non_null(s->textures);
    s->textures[s->n_textures] = t;
    return s->n_textures++;
}

static void voxelize(espalier_context *ctx, esi_pbr_voxels *out, const esi_surface *s, const esi_pbr_options *o)
{
    if (esi_voxelize_materials(ctx, out, s, o) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    for (int64_t i = 1; i < out->count; i++) {
        const int32_t *p = out->coords + 4 * i - 4, *q = p + 4;

        assert_true(p[1] < q[1] || (p[1] == q[1] && (p[2] < q[2] || (p[2] == q[2] && p[3] < q[3]))));
    }
}

static double srgb_encode(double v)
{
    return v <= 0.0031308 ? v * 12.92 : 1.055 * pow(v, 1.0 / 2.4) - 0.055;
}

/* ------------------------------------------------------------------ materials */

static void factors(void **state)
{
    const esi_pbr_options o = options_for(32);
    esi_surface s = {0};
    esi_pbr_voxels v;
    esi_material *m;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    shape_torus(t.ctx, &s.mesh, 0.3, 0.1, 60, 30);
    m = add_material(t.ctx, &s);
    memcpy(m->base_color, (float[]){0.5f, 0.25f, 0.002f, 0.3f}, 16);
    memcpy(m->emissive, (float[]){0.1f, 1.0f, 0.0f}, 12);
    m->metallic = 0.125f;
    m->roughness = 0.7f;
    for (int mode = 0; mode < 4; mode++) {
        const float alpha = (float[]){1.0f, 0.0f, 0.3f, 1.0f}[mode];

        m->alpha_mode = mode == 3 ? ESI_ALPHA_MASK : (esi_alpha_mode)mode;
        m->alpha_cutoff = mode == 3 ? 0.25f : 0.5f;
        voxelize(t.ctx, &v, &s, &o);
        assert_true(v.count > 1000);
        for (int64_t i = 0; i < v.count; i++) {
            const float *n = v.normal + 3 * i;

            for (int a = 0; a < 3; a++) {
                assert_true(fabs((double)v.base_color[3 * i + a] - srgb_encode((double)m->base_color[a])) < 1e-7);
                assert_true(v.base_color[3 * i + a] == v.base_color[a]);           /* constant to the last bit */
                assert_true(fabs((double)v.emissive[3 * i + a] - srgb_encode((double)m->emissive[a])) < 1e-7);
            }
            assert_true(v.metallic[i] == 0.125f && v.roughness[i] == 0.7f && v.alpha[i] == alpha);
            assert_true(fabsf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2] - 1.0f) < 1e-5f);
        }
        esi_pbr_voxels_free(t.ctx, &v);
    }
    /* No material at all: the default of glTF. */
    esi_free(t.ctx, s.materials);
    s.materials = NULL;
    s.n_materials = 0;
    voxelize(t.ctx, &v, &s, &o);
    assert_true(v.base_color[0] == 1.0f && v.metallic[0] == 1.0f && v.roughness[0] == 1.0f && v.alpha[0] == 1.0f && v.emissive[0] == 0.0f);
    esi_pbr_voxels_free(t.ctx, &v);
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

/* Every attribute from its own channel, upright: rows of the picture run from high to low y. */
static void channels_and_directions(void **state)
{
    enum { N = 32, W = 64 };
    const esi_pbr_options o = options_for(N);
    esi_surface s = {0};
    esi_texture base, mr, glow;
    esi_pbr_voxels v;
    esi_material *m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    m = add_material(t.ctx, &s);
    add_square(t.ctx, &s, 0.5f, 0.01f, true);
    base = texture_new(t.ctx, W, W, 4);
    mr = texture_new(t.ctx, W, W, 3);
    glow = texture_new(t.ctx, W / 2, W / 2, 3);
    for (int y = 0; y < W; y++) {
        for (int x = 0; x < W; x++) {
            memcpy(base.pixels + 4 * (y * W + x), (uint8_t[]){(uint8_t)(4 * x), (uint8_t)(4 * y), 17, (uint8_t)(255 - 2 * x)}, 4);
            memcpy(mr.pixels + 3 * (y * W + x), (uint8_t[]){200, (uint8_t)(3 * x), (uint8_t)(2 * y)}, 3);
        }
    }
    for (int i = 0; i < W / 2 * W / 2; i++) memcpy(glow.pixels + 3 * i, (uint8_t[]){40, 50, 60}, 3);
    m->base_color_texture = add_texture(t.ctx, &s, base);
    m->metallic_roughness_texture = add_texture(t.ctx, &s, mr);
    m->emissive_texture = add_texture(t.ctx, &s, glow);
    memcpy(m->emissive, (float[]){1, 1, 1}, 12);
    m->alpha_mode = ESI_ALPHA_BLEND;
    voxelize(t.ctx, &v, &s, &o);
    assert_int_equal(v.count, N * N);
    for (int64_t i = 0; i < v.count; i++) {
        const int32_t *c = v.coords + 4 * i;
        const double x = (c[1] + 0.5) * W / N - 0.5, y = W - 1 - ((c[2] + 0.5) * W / N - 0.5);      /* in pixels */

        if (c[1] == 0 || c[2] == 0 || c[1] == N - 1 || c[2] == N - 1) continue;      /* the picture repeats: its borders meet there */
        assert_int_equal(c[3], N / 2);
        assert_true(fabs((double)v.base_color[3 * i] * 255 - 4 * x) < 0.01 && fabs((double)v.base_color[3 * i + 1] * 255 - 4 * y) < 0.01);
        assert_true(fabs((double)v.base_color[3 * i + 2] * 255 - 17) < 1e-4);
        assert_true(fabs((double)v.alpha[i] * 255 - (255 - 2 * x)) < 0.01);
        assert_true(fabs((double)v.roughness[i] * 255 - 3 * x) < 0.01 && fabs((double)v.metallic[i] * 255 - 2 * y) < 0.01);
        assert_true(fabs((double)v.emissive[3 * i] * 255 - 40) < 1e-4 && fabs((double)v.emissive[3 * i + 2] * 255 - 60) < 1e-4);
        assert_true(v.normal[3 * i + 2] == 1.0f);
    }
    esi_pbr_voxels_free(t.ctx, &v);
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

/* A picture of odd size whose pixels alternate: below the resolution of the voxels there is only its mean. */
static void minified(void **state)
{
    enum { W = 301, H = 211 };
    esi_pbr_options o = options_for(16);
    esi_surface s = {0};
    esi_texture base;
    esi_pbr_voxels v;
    double spread[2] = {0.0, 0.0};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    add_material(t.ctx, &s);
    add_square(t.ctx, &s, 0.5f, 0.01f, true);
    base = texture_new(t.ctx, W, H, 3);
    for (int i = 0; i < W * H; i++) memset(base.pixels + 3 * i, (i % W + i / W) % 2 ? 200 : 100, 3);
    s.materials[0].base_color_texture = add_texture(t.ctx, &s, base);
    s.materials[0].wrap = ESI_WRAP_CLAMP;
    for (int k = 0; k < 2; k++) {
        o.mipmaps = k == 0;
        voxelize(t.ctx, &v, &s, &o);
        for (int64_t i = 0; i < v.count; i++) spread[k] = fmax(spread[k], fabs((double)v.base_color[3 * i] * 255 - 150.0));
        esi_pbr_voxels_free(t.ctx, &v);
    }
    assert_true(spread[0] < 1.0 && spread[1] > 20.0);
    /* The mean of a constant picture is that constant, whatever its size. */
    memset(base.pixels, 77, (size_t)W * H * 3);
    o.mipmaps = true;
    voxelize(t.ctx, &v, &s, &o);
    for (int64_t i = 0; i < 3 * v.count; i++) assert_true(fabs((double)v.base_color[i] * 255 - 77.0) < 1e-4);
    esi_pbr_voxels_free(t.ctx, &v);
    /* The reference's chain wants a square power of two. */
    o.reference = true;
    assert_int_equal(esi_voxelize_materials(t.ctx, &v, &s, &o), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(t.ctx), "power of two"));
    esi_clear_error(t.ctx);
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

/* A normal map that leans along +u, and one that leans up in the picture; mirrored texture coordinates lean the other way. */
static void normal_maps(void **state)
{
    const esi_pbr_options o = options_for(16);
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int k = 0; k < 4; k++) {
        const bool mirrored = k & 1, along_v = k >> 1;
        esi_surface s = {0};
        esi_texture map;
        esi_pbr_voxels v;

        add_material(t.ctx, &s);
        add_square(t.ctx, &s, 0.4f, 0.01f, true);
        map = texture_new(t.ctx, 1, 1, 3);
        memcpy(map.pixels, along_v ? (uint8_t[]){128, 218, 218} : (uint8_t[]){218, 128, 218}, 3);
        s.materials[0].normal_texture = add_texture(t.ctx, &s, map);
        for (int i = 0; i < 4 && mirrored; i++) s.uvs[2 * i] = 1.0f - s.uvs[2 * i];
        voxelize(t.ctx, &v, &s, &o);
        for (int64_t i = 0; i < v.count; i++) {
            const float *n = v.normal + 3 * i;

            assert_true(fabsf(n[along_v ? 1 : 0] - (mirrored && !along_v ? -0.7071f : 0.7071f)) < 0.01f && fabsf(n[2] - 0.7071f) < 0.01f);
        }
        esi_pbr_voxels_free(t.ctx, &v);
        esi_surface_free(t.ctx, &s);
    }
    test_base_close(&t);
}

/* A red sheet and a blue one in the same layer of voxels: each voxel takes the nearer, neither turns purple. */
static void sides_do_not_mix(void **state)
{
    const esi_pbr_options o = options_for(16);
    esi_surface s = {0};
    esi_pbr_voxels v;
    int64_t blue = 0, red = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    memcpy(add_material(t.ctx, &s)->base_color, (float[]){1, 0, 0, 1}, 16);
    add_square(t.ctx, &s, 0.4f, 0.5f / 16.0f + 0.01f, true);          /* 0.16 cells above the centres */
    memcpy(add_material(t.ctx, &s)->base_color, (float[]){0, 0, 1, 1}, 16);
    add_square(t.ctx, &s, 0.4f, 0.5f / 16.0f - 0.022f, false);        /* 0.35 below */
    voxelize(t.ctx, &v, &s, &o);
    for (int64_t i = 0; i < v.count; i++) {
        red += v.base_color[3 * i] == 1.0f && v.base_color[3 * i + 2] == 0.0f;
        blue += v.base_color[3 * i + 2] > 0.0f;
    }
    assert_true(v.count == red && blue == 0);
    esi_pbr_voxels_free(t.ctx, &v);
    /* Turned round: the blue one is nearer. */
    for (int i = 0; i < 8; i++) s.mesh.vertices[3 * i + 2] = 1.0f / 16.0f - s.mesh.vertices[3 * i + 2] - 0.012f;
    voxelize(t.ctx, &v, &s, &o);
    for (int64_t i = 0; i < v.count; i++) assert_true(v.base_color[3 * i] == 0.0f && v.base_color[3 * i + 2] == 1.0f);
    esi_pbr_voxels_free(t.ctx, &v);
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

static void vertex_colors(void **state)
{
    const esi_pbr_options o = options_for(16);
    esi_surface s = {0};
    esi_pbr_voxels v;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    add_material(t.ctx, &s)->alpha_mode = ESI_ALPHA_BLEND;
    add_square(t.ctx, &s, 0.4f, 0.01f, true);
    s.colors = esi_alloc(t.ctx, 4, 4, "test");
    for (int i = 0; i < 4; i++) memcpy(s.colors + 4 * i, (uint8_t[]){10, 100, 255, 51}, 4);
    voxelize(t.ctx, &v, &s, &o);
    for (int64_t i = 0; i < v.count; i++) {
        assert_true(fabs((double)v.base_color[3 * i] * 255 - 10) < 1e-3 && fabs((double)v.base_color[3 * i + 1] * 255 - 100) < 1e-3);
        assert_true(v.base_color[3 * i + 2] == 1.0f && fabsf(v.alpha[i] - 0.2f) < 1e-6f);
    }
    esi_pbr_voxels_free(t.ctx, &v);
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

/* ------------------------------------------------------------------ round trip */

static double wave(double u, double v, int channel)
{
    return 0.5 + 0.3 * cos(2 * SHAPE_PI * (2 * u + channel * v)) + 0.15 * sin(2 * SHAPE_PI * (v - channel * u));
}

/* A torus with a picture around it; points of its surface read back from the voxels between their centres. */
static void colors_come_back(void **state)
{
    enum { AROUND = 96, ACROSS = 48, W = 512, N = 256 };
    const double R = 0.3, r = 0.13;
    const esi_pbr_options o = options_for(N);
    esi_surface s = {0};
    esi_texture base;
    esi_pbr_voxels v;
    esi_volume volume;
    float *attrs;
    double worst = 0.0, sum = 0.0;
    uint64_t seed = 12;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    /* One row and column of vertices more than the shape needs, for the seams of the texture coordinates. */
    assert_int_equal(esi_mesh_new(t.ctx, &s.mesh, (AROUND + 1) * (ACROSS + 1), 2 * AROUND * ACROSS), ESPALIER_OK);
    s.uvs = esi_alloc(t.ctx, (AROUND + 1) * (ACROSS + 1), 8, "test");
    for (int i = 0; i <= AROUND; i++) {
        for (int j = 0; j <= ACROSS; j++) {
            const int32_t p = i * (ACROSS + 1) + j, q = p + ACROSS + 1;
            const double a = 2 * SHAPE_PI * i / AROUND, b = 2 * SHAPE_PI * j / ACROSS;

            memcpy(s.mesh.vertices + 3 * p,
                   (float[]){(float)((R + r * cos(b)) * cos(a)), (float)((R + r * cos(b)) * sin(a)), (float)(r * sin(b))}, 12);
            memcpy(s.uvs + 2 * p, (float[]){(float)i / AROUND, (float)j / ACROSS}, 8);
            if (i < AROUND && j < ACROSS) memcpy(s.mesh.faces + 6 * (i * ACROSS + j), (int32_t[]){p, q, q + 1, p, q + 1, p + 1}, 24);
        }
    }
    base = texture_new(t.ctx, W, W, 3);
    for (int i = 0; i < 3 * W * W; i++) {
        base.pixels[i] = (uint8_t)(255.0 * wave((i / 3 % W + 0.5) / W, (i / 3 / W + 0.5) / W, i % 3) + 0.5);
    }
    add_material(t.ctx, &s)->base_color_texture = add_texture(t.ctx, &s, base);
    voxelize(t.ctx, &v, &s, &o);
    attrs = esi_alloc(t.ctx, (size_t)v.count, 24, "test");
    assert_int_equal(esi_pbr_on_rows(t.ctx, attrs, &v, v.coords, v.count, N), ESPALIER_OK);
    assert_int_equal(esi_volume_open(t.ctx, &volume, v.coords, attrs, v.count, 6, N), ESPALIER_OK);
    for (int i = 0; i < 20000; i++) {
        const int32_t *f = s.mesh.faces + 3 * (test_random(&seed) % (uint32_t)s.mesh.n_faces);
        double b[3] = {(test_random(&seed) >> 8) / 16777216.0, (test_random(&seed) >> 8) / 16777216.0, 0.0}, uv[2] = {0.0, 0.0};
        float g[3], out[6];

        if (b[0] + b[1] > 1.0) b[0] = 1.0 - b[0], b[1] = 1.0 - b[1];
        b[2] = 1.0 - b[0] - b[1];
        for (int a = 0; a < 3; a++) {
            double p = 0.0;

            for (int k = 0; k < 3; k++) p += b[k] * (double)s.mesh.vertices[3 * f[k] + a];
            g[a] = (float)((p + 0.5) * N);
        }
        for (int k = 0; k < 3; k++) {
            for (int a = 0; a < 2; a++) uv[a] += b[k] * (double)s.uvs[2 * f[k] + a];
        }
        assert_true(esi_volume_trilinear(&volume, g, out) > 0);
        for (int c = 0; c < 3; c++) {
            const double off = fabs((double)out[c] - wave(uv[0], uv[1], c)) * 255.0;

            worst = fmax(worst, off);
            sum += off;
        }
    }
    print_message("colours of a torus through %d^3 voxels: off by %.2f/255 at most, %.3f/255 on average\n", N, worst, sum / 60000);
    assert_true(worst <= 2.0);
    esi_volume_close(t.ctx, &volume);
    esi_free(t.ctx, attrs);
    esi_pbr_voxels_free(t.ctx, &v);
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

/* Rows of the dual grid that are no PBR voxel. */
static int64_t uncovered(espalier_context *ctx, const esi_surface *s, int n)
{
    const esi_pbr_options o = options_for(n);
    const esi_voxelize_options vo = esi_voxelize_options_default(n);
    esi_pbr_voxels v;
    esi_voxelized grid;
    esi_voxel_index index;
    float *attrs;
    int64_t absent = 0;

    voxelize(ctx, &v, s, &o);
    assert_int_equal(esi_voxelize(ctx, &grid, &s->mesh, &vo), ESPALIER_OK);
    attrs = esi_alloc(ctx, (size_t)grid.count, 24, "test");
    assert_int_equal(esi_pbr_on_rows(ctx, attrs, &v, grid.coords, grid.count, n), ESPALIER_OK);
    assert_int_equal(esi_voxel_index_build(ctx, &index, v.coords, v.count), ESPALIER_OK);
    for (int64_t i = 0; i < grid.count; i++) {
        const int32_t *c = grid.coords + 4 * i;

        absent += esi_voxel_index_find(&index, 0, c[1], c[2], c[3]) < 0;
        assert_true(attrs[6 * i] == v.base_color[0] && attrs[6 * i + 3] == 1.0f && attrs[6 * i + 5] == 1.0f);
    }
    esi_voxel_index_free(ctx, &index);
    esi_free(ctx, attrs);
    esi_voxelized_free(ctx, &grid);
    esi_pbr_voxels_free(ctx, &v);
    return absent;
}

/* The voxels of the dual grid of the same mesh all find their attributes, be its faces small, or large and at all angles. */
static void covers_the_dual_grid(void **state)
{
    esi_surface s = {0};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    shape_torus(t.ctx, &s.mesh, 0.3, 0.1, 300, 150);
    memcpy(add_material(t.ctx, &s)->base_color, (float[]){0.25f, 0.5f, 0.75f, 1.0f}, 16);
    assert_int_equal(uncovered(t.ctx, &s, 100), 0);
    for (int turn = 0; turn < 12; turn++) {
        const float c = (float)cos(0.3 * turn), d = (float)sin(0.3 * turn);

        esi_mesh_free(t.ctx, &s.mesh);
        shape_box(t.ctx, &s.mesh, (float[]){-0.24f, -0.25f, -0.23f}, (float[]){0.26f, 0.22f, 0.25f});
        for (int i = 0; i < 8; i++) {
            float *v = s.mesh.vertices + 3 * i;

            memcpy(v, (float[]){c * v[0] - d * v[1], d * v[0] + c * v[1], v[2]}, 12);
            memcpy(v, (float[]){v[0], c * v[1] - d * v[2], d * v[1] + c * v[2]}, 12);
        }
        assert_int_equal(uncovered(t.ctx, &s, 96), 0);
    }
    /* Two cells away is near enough, three are not. */
    {
        const int32_t rows[] = {0, 50, 50, 52, 0, 50, 50, 53, 0, 50, 50, 50};
        const esi_pbr_voxels one = {.coords = (int32_t[]){0, 50, 50, 50}, .base_color = (float[]){0.1f, 0.2f, 0.3f},
                                    .metallic = (float[]){0.4f}, .roughness = (float[]){0.5f}, .alpha = (float[]){0.6f}, .count = 1};
        const float wanted[18] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 1, 1, 1, 0, 1, 1, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
        float out[18];

        assert_int_equal(esi_pbr_on_rows(t.ctx, out, &one, rows, 3, 100), ESPALIER_OK);
        assert_memory_equal(out, wanted, sizeof out);
    }
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

/* -------------------------------------------------------------------- hardness */

static void make_scene(espalier_context *ctx, esi_surface *s, int around, int across)
{
    esi_texture base;
    esi_material *m;
    uint64_t seed = 6;

    shape_torus(ctx, &s->mesh, 0.33, 0.19, around, across);
    s->uvs = esi_alloc(ctx, (size_t)s->mesh.n_vertices, 8, "test");
    assert_non_null(s->uvs);
    for (int64_t i = 0; i < 2 * s->mesh.n_vertices; i++) s->uvs[i] = (float)(test_random(&seed) % 4000) / 1000.0f - 1.5f;
    base = texture_new(ctx, 37, 20, 3);
    for (int i = 0; i < 37 * 20 * 3; i++) base.pixels[i] = (uint8_t)test_random(&seed);
    m = add_material(ctx, s);
    m->base_color_texture = m->metallic_roughness_texture = m->normal_texture = m->emissive_texture = add_texture(ctx, s, base);
    m->wrap = ESI_WRAP_MIRROR;
    memcpy(m->base_color, (float[]){0.3f, 0.6f, 0.9f, 1.0f}, 16);
}

static void threads_do_not_matter(void **state)
{
    float *first = NULL;
    int64_t count = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        const esi_pbr_options o = options_for(72);
        esi_surface s = {0};
        esi_pbr_voxels v;
        test_base t;

        test_base_open(&t, (int[]){1, 2, 5}[i]);
        make_scene(t.ctx, &s, 150, 70);
        voxelize(t.ctx, &v, &s, &o);
        if (i == 0) {
            count = v.count;
            first = malloc((size_t)v.count * 24);
            memcpy(first, v.base_color, (size_t)v.count * 12);
            memcpy(first + 3 * v.count, v.normal, (size_t)v.count * 12);
        }
        assert_int_equal(v.count, count);
        assert_memory_equal(first, v.base_color, (size_t)v.count * 12);
        assert_memory_equal(first + 3 * v.count, v.normal, (size_t)v.count * 12);
        esi_pbr_voxels_free(t.ctx, &v);
        esi_surface_free(t.ctx, &s);
        test_base_close(&t);
    }
    free(first);
}

static void refusals(void **state)
{
    esi_surface s = {0};
    esi_pbr_voxels v;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    make_scene(t.ctx, &s, 12, 8);
    for (int i = 0; i < 5; i++) {
        esi_pbr_options o = options_for(16);
        int32_t materials[192] = {0};

        if (i == 0) o.resolution[2] = 0;
        if (i == 1) o.resolution[0] = 4096;
        if (i == 2) o.aabb_min[1] = o.aabb_max[1];
        if (i == 3) o.aabb_min[0] = 3.0f, o.aabb_max[0] = 4.0f;
        if (i == 4) materials[77] = 1;
        s.face_material = i == 4 ? materials : NULL;
        assert_int_equal(esi_voxelize_materials(t.ctx, &v, &s, &o), ESPALIER_ERR_INPUT);
        assert_null(v.coords);
        esi_clear_error(t.ctx);
    }
    s.face_material = NULL;
    /* Texture coordinates and positions beyond reason: any answer, no trap. */
    s.uvs[0] = (float)NAN;
    s.uvs[5] = 3e38f;
    s.uvs[9] = -(float)INFINITY;
    s.mesh.vertices[30] = 3e38f;
    s.mesh.vertices[34] = (float)NAN;
    for (int k = 0; k < 3; k++) {
        const esi_pbr_options o = options_for(16);

        s.materials[0].wrap = (esi_wrap)k;
        s.materials[0].nearest = k == 1;
        voxelize(t.ctx, &v, &s, &o);
        esi_pbr_voxels_free(t.ctx, &v);
    }
    esi_surface_free(t.ctx, &s);
    test_base_close(&t);
}

static void failing_allocations(void **state)
{
    (void)state;
    for (int part = 0; part < 3; part++) {
        esi_pbr_options o = options_for(16);
        espalier_status st = ESPALIER_ERR_RESOURCE;
        esi_surface s = {0};
        esi_pbr_voxels v;
        uint64_t held;
        test_base t;
        long n;

        test_base_open(&t, part == 1 ? 2 : 1);
        make_scene(t.ctx, &s, 20, 10);
        if (part == 2) o.mipmaps = false;
        o.reference = part == 2;
        held = espalier_context_memory_now(t.ctx);
        for (n = 1; st != ESPALIER_OK && n < 3000; n++) {
            test_fail_at(&t.memory, n);
            st = esi_voxelize_materials(t.ctx, &v, &s, &o);
            if (st == ESPALIER_OK) {
                float *attrs = esi_alloc(t.ctx, (size_t)v.count, 24, "test");

                st = attrs ? esi_pbr_on_rows(t.ctx, attrs, &v, v.coords, v.count, 16) : ESPALIER_ERR_RESOURCE;
                esi_free(t.ctx, attrs);
            } else {
                assert_null(v.coords);
            }
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            esi_clear_error(t.ctx);
            esi_pbr_voxels_free(t.ctx, &v);
            assert_int_equal(espalier_context_memory_now(t.ctx), held);
        }
        assert_true(n > 10 && n < 3000);
        test_fail_at(&t.memory, 0);
        espalier_context_cancel(t.ctx);
        assert_int_equal(esi_voxelize_materials(t.ctx, &v, &s, &o), ESPALIER_ERR_CANCELLED);
        esi_clear_error(t.ctx);
        esi_surface_free(t.ctx, &s);
        test_base_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors),          cmocka_unit_test(channels_and_directions), cmocka_unit_test(minified),
        cmocka_unit_test(normal_maps),      cmocka_unit_test(sides_do_not_mix),        cmocka_unit_test(vertex_colors),
        cmocka_unit_test(colors_come_back), cmocka_unit_test(covers_the_dual_grid),    cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(refusals),         cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
