/* SPDX-License-Identifier: MIT
 *
 * Rendered views against projections and colours worked out here: outline and light of a cube, textures in perspective, alpha, vertex
 * colours, back faces, depth.
 */
#include "mesh/render_internal.h"

#include "support.h"

#include <math.h>

enum { SIZE = 64 };

static double encode(double linear) { return linear <= 0.0031308 ? linear * 12.92 : 1.055 * pow(linear, 1 / 2.4) - 0.055; }

static double decode(double s) { return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4); }

/* Parallelograms of two faces, each with a material number and corners (0,0) (1,0) (1,1) (0,1) in the texture. */
typedef struct scene {
    esi_surface surface;
    int quads;
} scene;

static void scene_open(espalier_context *ctx, scene *s, int most, int materials)
{
    memset(s, 0, sizeof *s);
    assert_int_equal(esi_mesh_new(ctx, &s->surface.mesh, 4 * most, 2 * most), ESPALIER_OK);
    s->surface.mesh.n_vertices = s->surface.mesh.n_faces = 0;
    s->surface.uvs = esi_alloc(ctx, (size_t)most, 32, "uvs");
    s->surface.face_material = esi_alloc(ctx, (size_t)most, 8, "materials");
    s->surface.materials = esi_alloc(ctx, (size_t)materials, sizeof(esi_material), "materials");
    s->surface.n_materials = materials;
    for (int i = 0; i < materials; i++) s->surface.materials[i] = esi_material_default();
}

static void add_quad(scene *s, int32_t material, const double origin[3], const double a[3], const double b[3])
{
    static const float uv[4][2] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}};
    esi_mesh *m = &s->surface.mesh;
    const int32_t v = (int32_t)m->n_vertices;

    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 3; k++) m->vertices[3 * (v + i) + k] = (float)(origin[k] + (double)uv[i][0] * a[k] + (double)uv[i][1] * b[k]);
    }
    memcpy(s->surface.uvs + 2 * v, uv, sizeof uv);
    memcpy(m->faces + 3 * m->n_faces, (int32_t[]){v, v + 1, v + 2, v, v + 2, v + 3}, 24);
    s->surface.face_material[m->n_faces] = s->surface.face_material[m->n_faces + 1] = material;
    m->n_vertices += 4;
    m->n_faces += 2;
    s->quads++;
}

static void add_cube(scene *s, int32_t material, double half)
{
    for (int axis = 0; axis < 3; axis++) {
        for (int side = 0; side < 2; side++) {
            double o[3] = {-half, -half, -half}, a[3] = {0}, b[3] = {0};

            o[axis] = side ? half : -half;
            a[(axis + (side ? 1 : 2)) % 3] = 2 * half;
            b[(axis + (side ? 2 : 1)) % 3] = 2 * half;
            add_quad(s, material, o, a, b);
        }
    }
}

static void set_texture(espalier_context *ctx, scene *s, uint32_t width, uint32_t height, uint32_t channels, const uint8_t *pixels)
{
    const size_t bytes = (size_t)width * height * channels;

    s->surface.textures = esi_alloc(ctx, 1, sizeof(esi_texture), "textures");
    s->surface.n_textures = 1;
    s->surface.textures[0] = (esi_texture){esi_alloc(ctx, bytes, 1, "pixels"), width, height, channels};
    memcpy(s->surface.textures[0].pixels, pixels, bytes);
    s->surface.materials[0].base_color_texture = 0;
}

static esi_texture render(espalier_context *ctx, const scene *s, uint32_t size, int32_t views, bool backfaces, bool wireframe)
{
    const esi_render_options o = {size, views, backfaces, wireframe};
    esi_texture out;

    if (esi_render_views(ctx, &out, &s->surface, &o) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    assert_int_equal(out.channels, 3);
    assert_int_equal(out.width, views > 1 ? 2 * size : size);
    assert_int_equal(out.height, views > 2 ? 2 * size : size);
    return out;
}

static const uint8_t *pixel(const esi_texture *t, int x, int y) { return t->pixels + 3 * ((size_t)y * t->width + (size_t)x); }

static bool is_white(const uint8_t *p) { return p[0] == 255 && p[1] == 255 && p[2] == 255; }

static void close_to(const uint8_t *p, double r, double g, double b, double tolerance)
{
    const double wanted[3] = {r, g, b};

    for (int k = 0; k < 3; k++) {
        if (fabs(p[k] - wanted[k]) > tolerance) fail_msg("%d %d %d, not %.1f %.1f %.1f", p[0], p[1], p[2], r, g, b);
    }
}

/* Light on a face that looks at the camera of view 3. */
static double light_on_top(void) { return ESI_RENDER_AMBIENT + (1 - ESI_RENDER_AMBIENT) / sqrt(1 + 0.25 + 0.16); }

/* ------------------------------------------------------------ tests */

static void cube(void **state)
{
    const double half = 0.25, t = ESI_RENDER_TANGENT, radius = half * sqrt(3), distance = ESI_RENDER_MARGIN * radius * sqrt(1 + t * t) / t;
    const double edge = 256 * 0.5 * half / (t * (distance - half)), lit = light_on_top();
    esi_texture all;
    test_base b;
    scene s;

    (void)state;
    test_base_open(&b, 1);
    scene_open(b.ctx, &s, 6, 1);
    add_cube(&s, 0, half);
    memcpy(s.surface.materials[0].base_color, (float[]){0.5f, 0.25f, 1.0f, 1.0f}, 16);
    all = render(b.ctx, &s, 256, 4, true, false);
    for (int y = 0; y < 256; y++) {                            /* view 3: the top face hides all others */
        for (int x = 0; x < 256; x++) {
            const uint8_t *p = pixel(&all, 256 + x, 256 + y);
            const double out = fmax(fabs(x + 0.5 - 128), fabs(y + 0.5 - 128)) - edge;

            if (out < -1) close_to(p, 255 * encode(0.5 * lit), 255 * encode(0.25 * lit), 255 * encode(lit), 0.51);
            if (out > 1) assert_true(is_white(p));
        }
    }
    /* view 2 looks along -x: a square as well; views 0 and 1 show three faces of different light; none shows a back face */
    assert_true(is_white(pixel(&all, (int)(128 - edge - 1.5), 256 + 128)));
    assert_false(is_white(pixel(&all, (int)(128 - edge + 1.5), 256 + 128)));
    for (uint32_t i = 0; i < all.width * all.height; i++) assert_false(all.pixels[3 * i] == 255 && all.pixels[3 * i + 1] == 0);
    esi_free(b.ctx, all.pixels);
    /* inside out: only back faces */
    for (int64_t f = 0; f < s.surface.mesh.n_faces; f++) {
        int32_t *c = s.surface.mesh.faces + 3 * f, swap = c[1];

        c[1] = c[2];
        c[2] = swap;
    }
    all = render(b.ctx, &s, SIZE, 1, true, false);
    close_to(pixel(&all, SIZE / 2, SIZE / 2), 255, 0, 255, 0);
    esi_free(b.ctx, all.pixels);
    all = render(b.ctx, &s, SIZE, 1, false, false);            /* else lit from their other side */
    assert_true(pixel(&all, SIZE / 2, SIZE / 2)[1] > 60);
    esi_free(b.ctx, all.pixels);
    esi_surface_free(b.ctx, &s.surface);
    test_base_close(&b);
}

static void corner_of(const esi_surface *s, int32_t v, double p[3])
{
    for (int k = 0; k < 3; k++) p[k] = (double)s->mesh.vertices[3 * v + k];
}

/* A slope with a ramp on it, seen at an angle: the ramp's value where the pixel's ray meets the plane. Affine textures would be off. */
static void perspective(void **state)
{
    uint8_t ramp[64];
    esi_render_camera c;
    esi_texture view;
    int seen = 0;
    test_base b;
    scene s;

    (void)state;
    test_base_open(&b, 1);
    for (int i = 0; i < 64; i++) ramp[i] = (uint8_t)(i / 2 * 8);
    scene_open(b.ctx, &s, 1, 1);
    add_quad(&s, 0, (const double[3]){-0.5, -0.5, -0.1}, (const double[3]){1, 0, 0}, (const double[3]){0, 1, 0.2});
    set_texture(b.ctx, &s, 1, 64, 1, ramp);
    s.surface.materials[0].wrap = ESI_WRAP_CLAMP;
    view = render(b.ctx, &s, 128, 1, false, false);
    esi_render_camera_set(&c, 0, &s.surface.mesh);
    for (int y = 0; y < 128; y++) {
        for (int x = 0; x < 128; x++) {
            double o[3], q[3], ray[3], n[3] = {0, -0.2, 1}, along, d[3], u, v, at, value, lit, length = sqrt(1.04);
            int base;

            corner_of(&s.surface, 0, o);
            corner_of(&s.surface, 1, q);
            for (int k = 0; k < 3; k++) {
                ray[k] = c.forward[k] + 2 * ESI_RENDER_TANGENT * ((x + 0.5) / 128 - 0.5) * c.right[k] -
                         2 * ESI_RENDER_TANGENT * ((y + 0.5) / 128 - 0.5) * c.up[k];
            }
            along = (n[1] * (o[1] - c.eye[1]) + n[2] * (o[2] - c.eye[2])) / (n[1] * ray[1] + n[2] * ray[2]);
            for (int k = 0; k < 3; k++) d[k] = c.eye[k] + along * ray[k] - o[k];
            u = d[0];
            v = d[1];
            if (u < 0.02 || u > 0.98 || v < 0.03 || v > 0.97) continue;
            at = v * 64 - 0.5;
            base = (int)floor(at);
            value = decode(ramp[base] / 255.0) * (1 - at + base) + decode(ramp[base + 1] / 255.0) * (at - base);
            lit = (n[1] * c.light[1] + n[2] * c.light[2]) / length;
            value = 255 * encode(value * (ESI_RENDER_AMBIENT + (1 - ESI_RENDER_AMBIENT) * lit));
            close_to(pixel(&view, x, y), value, value, value, 6.0);
            seen++;
        }
    }
    assert_true(seen > 2000);
    esi_free(b.ctx, view.pixels);
    esi_surface_free(b.ctx, &s.surface);
    test_base_close(&b);
}

/* Four texels on a square from above: which is where, sharp and smooth, and behind 1 by each wrap mode. */
static void textures(void **state)
{
    const uint8_t four[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0};
    const double lit = light_on_top(), full = 255 * encode(lit);
    static const struct { esi_wrap wrap; double right[3]; } wraps[] = {
        {ESI_WRAP_REPEAT, {1, 0, 0}}, {ESI_WRAP_CLAMP, {0, 1, 0}}, {ESI_WRAP_MIRROR, {0, 1, 0}}};
    esi_texture view;
    test_base b;
    scene s;

    (void)state;
    test_base_open(&b, 1);
    scene_open(b.ctx, &s, 1, 1);
    add_quad(&s, 0, (const double[3]){-0.5, -0.5, 0}, (const double[3]){1, 0, 0}, (const double[3]){0, 1, 0});
    set_texture(b.ctx, &s, 2, 2, 3, four);
    s.surface.materials[0].nearest = true;
    view = render(b.ctx, &s, 256, 4, false, false);
    /* v = 0 is at y = -0.5: below in the picture */
    close_to(pixel(&view, 256 + 100, 256 + 150), full, 0, 0, 0.51);
    close_to(pixel(&view, 256 + 150, 256 + 150), 0, full, 0, 0.51);
    close_to(pixel(&view, 256 + 100, 256 + 100), 0, 0, full, 0.51);
    close_to(pixel(&view, 256 + 150, 256 + 100), full, full, 0, 0.51);
    esi_free(b.ctx, view.pixels);
    s.surface.materials[0].nearest = false;
    view = render(b.ctx, &s, 256, 4, false, false);
    close_to(pixel(&view, 256 + 127, 256 + 127), 255 * encode(lit / 2), 255 * encode(lit / 2), 255 * encode(lit / 4), 3);
    esi_free(b.ctx, view.pixels);
    s.surface.materials[0].nearest = true;
    for (int i = 0; i < 4; i++) s.surface.uvs[2 * i] += 1.0f;  /* u from 1 to 2 */
    for (size_t i = 0; i < ESI_COUNT(wraps); i++) {
        const double *w = wraps[i].right;

        s.surface.materials[0].wrap = wraps[i].wrap;
        view = render(b.ctx, &s, 256, 4, false, false);
        close_to(pixel(&view, 256 + 100, 256 + 150), w[0] * full, w[1] * full, w[2] * full, 0.51);
        esi_free(b.ctx, view.pixels);
    }
    esi_surface_free(b.ctx, &s.surface);
    test_base_close(&b);
}

/* From above: a low opaque square, a high one with alpha over its right half. */
static void alpha(void **state)
{
    const double lit = light_on_top(), low = 0.5 * lit, high = 0.2 * lit;
    static const struct { esi_alpha_mode mode; float alpha, cutoff; } cases[] = {
        {ESI_ALPHA_OPAQUE, 0.25f, 0.5f}, {ESI_ALPHA_MASK, 0.25f, 0.5f}, {ESI_ALPHA_MASK, 0.25f, 0.2f}, {ESI_ALPHA_BLEND, 0.25f, 0.5f}};
    test_base b;
    scene s;

    (void)state;
    test_base_open(&b, 1);
    for (int order = 0; order < 2; order++) {                  /* either may be drawn first */
        scene_open(b.ctx, &s, 2, 2);
        for (int i = 0; i < 2; i++) {
            if (i == order) add_quad(&s, 0, (const double[3]){-0.5, -0.5, -0.1}, (const double[3]){1, 0, 0}, (const double[3]){0, 1, 0});
            else add_quad(&s, 1, (const double[3]){0, -0.3, 0.1}, (const double[3]){0.6, 0, 0}, (const double[3]){0, 0.6, 0});
        }
        for (size_t i = 0; i < ESI_COUNT(cases); i++) {
            const double a = i == 0 || i == 2 ? 1 : i == 1 ? 0 : 0.25, mixed = 255 * encode(a * high + (1 - a) * low);
            esi_texture view;

            for (int k = 0; k < 3; k++) {
                s.surface.materials[0].base_color[k] = 0.5f;
                s.surface.materials[1].base_color[k] = 0.2f;
            }
            s.surface.materials[1].base_color[3] = cases[i].alpha;
            s.surface.materials[1].alpha_mode = cases[i].mode;
            s.surface.materials[1].alpha_cutoff = cases[i].cutoff;
            view = render(b.ctx, &s, 128, 4, false, false);
            close_to(pixel(&view, 128 + 50, 128 + 64), 255 * encode(low), 255 * encode(low), 255 * encode(low), 0.51);
            close_to(pixel(&view, 128 + 72, 128 + 64), mixed, mixed, mixed, 0.51);
            esi_free(b.ctx, view.pixels);
        }
        esi_surface_free(b.ctx, &s.surface);
    }
    test_base_close(&b);
}

static void colors_and_normals(void **state)
{
    const double lit = light_on_top();
    esi_render_camera c;
    esi_texture view;
    test_base b;
    scene s;
    double n[3] = {0.6, 0.0, 0.8}, slanted;

    (void)state;
    test_base_open(&b, 1);
    scene_open(b.ctx, &s, 1, 1);
    add_quad(&s, 0, (const double[3]){-0.5, -0.5, 0}, (const double[3]){1, 0, 0}, (const double[3]){0, 1, 0});
    s.surface.colors = esi_alloc(b.ctx, 4, 4, "colours");
    for (int i = 0; i < 4; i++) memcpy(s.surface.colors + 4 * i, (uint8_t[]){188, 255, 0, 255}, 4);
    view = render(b.ctx, &s, SIZE, 4, false, true);
    close_to(pixel(&view, SIZE + 24, SIZE + 28), 255 * encode(decode(188 / 255.0) * lit), 255 * encode(lit), 0, 0.51);
    close_to(pixel(&view, SIZE + 32, SIZE + 31), 255 * encode(decode(188 / 255.0) * lit / 4), 255 * encode(lit / 4), 0, 40);  /* a line */
    esi_free(b.ctx, view.pixels);
    s.surface.normals = esi_alloc(b.ctx, 4, 12, "normals");
    for (int i = 0; i < 12; i++) s.surface.normals[i] = (float)n[i % 3];
    esi_render_camera_set(&c, 3, &s.surface.mesh);
    slanted = ESI_RENDER_AMBIENT + (1 - ESI_RENDER_AMBIENT) * (n[0] * c.light[0] + n[2] * c.light[2]);
    view = render(b.ctx, &s, SIZE, 4, false, false);
    close_to(pixel(&view, SIZE + 24, SIZE + 28), 255 * encode(decode(188 / 255.0) * slanted), 255 * encode(slanted), 0, 0.51);
    esi_free(b.ctx, view.pixels);
    esi_surface_free(b.ctx, &s.surface);
    test_base_close(&b);
}

static void encoding(void **state)
{
    esi_render_tables t;

    (void)state;
    esi_render_tables_set(&t);
    for (int i = 0; i <= 20000; i++) {
        const double exact = 255 * encode(i / 20000.0);

        assert_true(fabs(esi_render_encode(&t, i / 20000.0) - exact) <= 0.5 + 2e-3);
    }
    for (int i = 0; i < 256; i++) assert_int_equal(esi_render_encode(&t, t.linear[i]), i);
    assert_int_equal(esi_render_encode(&t, -1.0), 0);
    assert_int_equal(esi_render_encode(&t, 2.0), 255);
}

/* Random triangles with texture and translucency: the same bytes whatever the threads. */
static void threads(void **state)
{
    uint8_t *wanted = NULL, noise[16 * 16 * 4];
    uint64_t seed = 1;
    const size_t bytes = (size_t)4 * SIZE * SIZE * 3;

    (void)state;
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)((seed = seed * UINT64_C(6364136223846793005) + 1) >> 56);
    for (int threads_used = 1; threads_used <= 5; threads_used += threads_used == 1 ? 1 : 3) {
        esi_texture view;
        test_base b;
        scene s;

        seed = 7;
        test_base_open(&b, threads_used);
        scene_open(b.ctx, &s, 300, 3);
        for (int i = 0; i < 300; i++) {
            double v[3][3];

            for (int k = 0; k < 9; k++) {
                seed = seed * UINT64_C(6364136223846793005) + 1;
                v[k / 3][k % 3] = ((double)(seed >> 40) / 16777216.0 - 0.5) * (k < 3 ? 1 : 0.4);
            }
            add_quad(&s, i % 3, v[0], v[1], v[2]);
        }
        set_texture(b.ctx, &s, 16, 16, 4, noise);
        s.surface.materials[0].alpha_mode = ESI_ALPHA_MASK;
        s.surface.materials[1].alpha_mode = ESI_ALPHA_BLEND;
        s.surface.materials[1].base_color_texture = 0;
        view = render(b.ctx, &s, SIZE, 4, true, true);
        if (!wanted) {
            wanted = malloc(bytes);
            memcpy(wanted, view.pixels, bytes);
        }
        assert_memory_equal(view.pixels, wanted, bytes);
        esi_free(b.ctx, view.pixels);
        esi_surface_free(b.ctx, &s.surface);
        test_base_close(&b);
    }
    free(wanted);
}

static void failures(void **state)
{
    const esi_render_options bad[] = {{15, 1, false, false}, {4097, 1, false, false}, {64, 0, false, false}, {64, 5, false, false}};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    esi_texture view;
    uint64_t before;
    test_base b;
    scene s;
    long n;

    (void)state;
    test_base_open(&b, 1);
    scene_open(b.ctx, &s, 6, 1);
    view = render(b.ctx, &s, 16, 3, false, false);             /* nothing to see */
    for (int i = 0; i < 32 * 32; i++) assert_true(is_white(view.pixels + 3 * i));
    esi_free(b.ctx, view.pixels);
    add_cube(&s, 0, 0.5);
    s.surface.materials[0].alpha_mode = ESI_ALPHA_BLEND;
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        assert_int_equal(esi_render_views(b.ctx, &view, &s.surface, &bad[i]), ESPALIER_ERR_ARG);
        assert_null(view.pixels);
        esi_clear_error(b.ctx);
    }
    before = espalier_context_memory_now(b.ctx);
    for (n = 1; st != ESPALIER_OK && n < 100; n++) {
        test_fail_at(&b.memory, n);
        st = esi_render_views(b.ctx, &view, &s.surface, &(esi_render_options){SIZE, 2, false, false});
        if (st != ESPALIER_OK) {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_null(view.pixels);
        }
        esi_free(b.ctx, view.pixels);
        esi_clear_error(b.ctx);
        assert_int_equal(espalier_context_memory_now(b.ctx), before);
    }
    assert_true(n > 8 && n < 100);
    test_fail_at(&b.memory, 0);
    espalier_context_cancel(b.ctx);
    assert_int_equal(esi_render_views(b.ctx, &view, &s.surface, &(esi_render_options){SIZE, 2, false, false}), ESPALIER_ERR_CANCELLED);
    esi_surface_free(b.ctx, &s.surface);
    test_base_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cube),     cmocka_unit_test(perspective), cmocka_unit_test(textures), cmocka_unit_test(alpha),
        cmocka_unit_test(colors_and_normals), cmocka_unit_test(encoding),    cmocka_unit_test(threads),  cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
