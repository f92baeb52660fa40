/* SPDX-License-Identifier: MIT
 *
 * Surfaces in: small files of every format by hand, vertex numbers of PLY, node transformations and odd accessors of glTF, materials of
 * OBJ, pictures that may not be read; damaged files at every byte; lack of memory.
 */
#include "support.h"

#include "formats/bytes.h"
#include "formats/surface_io.h"
#include "ply_fixture.h"

#include <math.h>
#include <sys/stat.h>

typedef struct scene {
    test_base t;
    char *dir;
} scene;

static int open_scene(void **state)
{
    scene *s = calloc(1, sizeof *s);

    test_base_open(&s->t, 2);
    s->dir = test_dir_make();
    *state = s;
    return 0;
}

static int close_scene(void **state)
{
    scene *s = *state;

    test_base_close(&s->t);
    test_dir_remove(s->dir);
    free(s->dir);
    free(s);
    return 0;
}

static void parse(scene *s, esi_surface *out, const void *bytes, size_t size, const char *name)
{
    if (esi_surface_parse(s->t.ctx, out, bytes, size, name) != ESPALIER_OK) fail_msg("%s", espalier_error_message(s->t.ctx));
}

static void parse_text(scene *s, esi_surface *out, const char *text, const char *name)
{
    parse(s, out, text, strlen(text), name);
}

static void refuse(scene *s, const char *text, const char *name, espalier_status status)
{
    esi_surface out;
    const espalier_status st = esi_surface_parse(s->t.ctx, &out, text, strlen(text), name);

    if (st != status) fail_msg("%s: status %d instead of %d: %s", text, (int)st, (int)status, espalier_error_message(s->t.ctx));
    assert_null(out.mesh.vertices);
    assert_true(espalier_error_message(s->t.ctx)[0] != '\0');
    esi_clear_error(s->t.ctx);
}

static void expect_vertices(const esi_surface *s, const float *v, int64_t n)
{
    assert_int_equal(s->mesh.n_vertices, n);
    for (int64_t i = 0; i < 3 * n; i++) {
        if (s->mesh.vertices[i] != v[i]) fail_msg("coordinate %d: %.9g instead of %.9g", (int)i, (double)s->mesh.vertices[i], (double)v[i]);
    }
}

static void expect_faces(const esi_surface *s, const int32_t *f, int64_t n)
{
    assert_int_equal(s->mesh.n_faces, n);
    assert_memory_equal(s->mesh.faces, f, (size_t)n * 12);
}

static void write_file(const scene *s, const char *name, const void *bytes, size_t size)
{
    char path[1024];
    FILE *f = fopen(test_path(path, s->dir, name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

/* --------------------------------------------------------------------- PLY */

static const float tetra[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};

static void ply_text(void **state)
{
    static const int32_t faces[] = {0, 1, 2, 0, 2, 3, 3, 1, 0};
    scene *s = *state;
    esi_surface out;

    /* Unknown elements, properties and lists; CRLF; a quad becomes a fan; uchar colours; t counts upwards. */
    parse_text(s, &out, "ply\r\nformat ascii 1.0\r\ncomment made by hand\r\nelement camera 1\r\nproperty float a\r\n"
               "property list uchar int b\r\nelement vertex 4\r\nproperty float x\r\nproperty float y\r\nproperty double z\r\n"
               "property list uchar float weights\r\nproperty uchar red\r\nproperty uchar green\r\nproperty uchar blue\r\n"
               "property float s\r\nproperty float t\r\nelement face 2\r\nproperty uchar flag\r\n"
               "property list uchar uint vertex_index\r\nend_header\r\n"
               "1.5 2 7 8\r\n0 0 0 1 0.5 10 20 30 0 1\r\n1 0 0 0 10 20 30 0.25 0.25\r\n0 1 0 0 1 2 3 0 0\r\n0 0 1 0 255 0 7 1 1\r\n"
               "0 4 0 1 2 3\r\n1 3 3 1 0\r\n", "a.ply");
    expect_vertices(&out, tetra, 4);
    expect_faces(&out, faces, 3);
    assert_memory_equal(out.colors + 12, "\xff\x00\x07\xff", 4);
    assert_true(out.uvs[0] == 0.0f && out.uvs[1] == 0.0f && out.uvs[3] == 0.75f && out.uvs[7] == 0.0f);
    assert_null(out.normals);
    esi_surface_free(s->t.ctx, &out);

    /* Numbers as others write them; NaN and infinity are numbers too. */
    parse_text(s, &out, "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
               "property list uchar int vertex_indices\nend_header\n-1.25e-3 +.5 1e+2\nnan inf -INF\n0.1 16777217 3.4028234663852886e38\n"
               "3 0 0 2\n", "a.PLY");
    assert_true(out.mesh.vertices[0] == -1.25e-3f && out.mesh.vertices[1] == 0.5f && out.mesh.vertices[2] == 100.0f);
    assert_true(isnan(out.mesh.vertices[3]) && isinf(out.mesh.vertices[4]) && out.mesh.vertices[5] == -INFINITY);
    assert_true(out.mesh.vertices[6] == 0.1f && out.mesh.vertices[7] == 16777216.0f && out.mesh.vertices[8] == 3.4028234663852886e38f);
    esi_surface_free(s->t.ctx, &out);
}

static size_t put(uint8_t *to, const void *bytes, size_t size, bool swap)
{
    const uint8_t *from = bytes;

    for (size_t i = 0; i < size; i++) to[i] = from[swap ? size - 1 - i : i];
    return size;
}

static void ply_binary(void **state)
{
    static const int32_t expected[] = {0, 1, 2, 2, 1, 3};
    scene *s = *state;

    for (int big = 0; big <= 1; big++) {
        uint8_t file[1024];
        const double z[4] = {0, 0, 0, 1};
        const int16_t corners[6] = {0, 1, 2, 2, 1, 3};
        const float normal[3] = {0, 0, 2};
        esi_surface out;
        size_t n =
            (size_t)snprintf((char *)file, sizeof file,
                             "ply\nformat binary_%s_endian 1.0\nelement vertex 4\nproperty float32 x\nproperty float32 y\n"
                             "property float64 z\nproperty float nx\nproperty float ny\nproperty float nz\nproperty uint16 red\n"
                             "property uint16 green\nproperty uint16 blue\nelement face 2\nproperty list int16 int16 vertex_indices\n"
                             "end_header\n",
                             big ? "big" : "little");

        for (int v = 0; v < 4; v++) {
            const uint16_t color[3] = {65535, 32896, 0};

            n += put(file + n, &tetra[3 * v], 4, big);
            n += put(file + n, &tetra[3 * v + 1], 4, big);
            n += put(file + n, &z[v], 8, big);
            for (int k = 0; k < 3; k++) n += put(file + n, &normal[k], 4, big);
            for (int k = 0; k < 3; k++) n += put(file + n, &color[k], 2, big);
        }
        for (int f = 0; f < 2; f++) {
            const int16_t three = 3;

            n += put(file + n, &three, 2, big);
            for (int k = 0; k < 3; k++) n += put(file + n, &corners[3 * f + k], 2, big);
        }
        parse(s, &out, file, n, "b.ply");
        expect_vertices(&out, tetra, 4);
        expect_faces(&out, expected, 2);
        assert_memory_equal(out.colors, "\xff\x80\x00\xff", 4);
        assert_true(out.normals[2] == 1.0f);     /* of unit length */
        esi_surface_free(s->t.ctx, &out);
        for (size_t cut = 0; cut < n; cut++) {
            assert_int_equal(esi_surface_parse(s->t.ctx, &out, file, cut, "b.ply"), ESPALIER_ERR_INPUT);
            esi_clear_error(s->t.ctx);
        }
    }
}

#define PLY_HEAD "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
#define PLY_FACES "element face 1\nproperty list uchar int vertex_indices\nend_header\n"

static void ply_damage(void **state)
{
    scene *s = *state;

    refuse(s, "", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, "ply\nformat ascii 2.0\nend_header\n", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, PLY_HEAD "end_header\n0 0 0\n1 0 0\n0 1 0\n", "a.ply", ESPALIER_ERR_INPUT);                   /* no faces */
    refuse(s, PLY_HEAD PLY_FACES "0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "a.ply", ESPALIER_ERR_INPUT);            /* vertex 3 of 3 */
    refuse(s, PLY_HEAD PLY_FACES "0 0 0\n1 0 0\n0 1 0\n3 0 1 -1\n", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, PLY_HEAD PLY_FACES "0 0 0\n1 0 x\n0 1 0\n3 0 1 2\n", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, PLY_HEAD PLY_FACES "0 0 0\n1 0 0\n0 1 0\n2 0 1\n", "a.ply", ESPALIER_ERR_INPUT);              /* an edge is no face */
    refuse(s, PLY_HEAD PLY_FACES "0 0 0\n1 0 0\n0 1 0\n300000000 0 1 2\n", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, "ply\nformat binary_little_endian 1.0\nelement vertex 2147483648\nproperty float x\nproperty float y\nproperty float z\n"
           PLY_FACES, "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, "ply\nformat ascii 1.0\nelement thing 99999999999\nelement vertex 3\nend_header\n", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, "ply\nformat ascii 1.0\nelement vertex -1\nend_header\n", "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, PLY_HEAD "element vertex 3\n" PLY_FACES, "a.ply", ESPALIER_ERR_INPUT);
    refuse(s, "ply\nformat ascii 1.0\nelement vertex 1\nproperty list float int x\nend_header\n", "a.ply", ESPALIER_ERR_INPUT);
}

/* The counts of the mesh goldens, and against an independent reader, bit by bit. */
static void ply_goldens(void **state)
{
    static const struct { const char *name; int vertices, faces; } meshes[] = {
        {"sphere", 2562, 5120}, {"sphere_nan", 2562, 5120}, {"sphere_zero_area", 2582, 5160}, {"sphere_duplicates", 2562, 5320},
        {"sphere_debris", 2722, 5220}, {"nested_shells", 5124, 10240}, {"t_junction", 225, 384}, {"nonmanifold_fan3", 8, 6},
        {"real_bunny", 34835, 69666}, {"real_elephant_with_holes", 2798, 4463}};
    scene *s = *state;
    int found = 0;

    for (size_t i = 0; i < ESI_COUNT(meshes); i++) {
        char path[1024];
        esi_surface out;
        esi_mesh reference;

        snprintf(path, sizeof path, "%s/../../shared/golden/geometry/meshes/%s.ply", ESPALIER_TEST_DATA, meshes[i].name);
        if (!esi_path_is_file(path))
            snprintf(path, sizeof path, "%s/golden/mesh_metrics/meshes/%s.ply", ESPALIER_TEST_DATA, meshes[i].name);
        if (!esi_path_is_file(path)) continue;
        found++;
        assert_int_equal(esi_surface_read(s->t.ctx, &out, path), ESPALIER_OK);
        assert_true(ply_fixture_read(s->t.ctx, &reference, path));
        assert_int_equal(out.mesh.n_vertices, meshes[i].vertices);
        assert_int_equal(out.mesh.n_faces, meshes[i].faces);
        assert_memory_equal(out.mesh.vertices, reference.vertices, (size_t)meshes[i].vertices * 12);
        assert_memory_equal(out.mesh.faces, reference.faces, (size_t)meshes[i].faces * 12);
        if (strcmp(meshes[i].name, "sphere_nan") == 0) assert_true(isnan(out.mesh.vertices[3 * 77]));
        esi_mesh_free(s->t.ctx, &reference);
        esi_surface_free(s->t.ctx, &out);
    }
    if (found == 0) {
        printf("SKIPPED: the meshes of the geometry goldens are not here\n");
        skip();
    }
}

/* --------------------------------------------------------------- STL and OFF */

static void stl(void **state)
{
    static const float corners[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0};
    static const int32_t face[3] = {0, 1, 2};
    scene *s = *state;
    uint8_t file[84 + 50] = "solid but binary all the same";
    esi_surface out;

    parse_text(s, &out, "solid a b c\n facet normal 0 0 nan\n  outer loop\n   vertex 0 0 0\n   vertex 1 0 0\n   vertex 0 1 0\n"
               "  endloop\n endfacet\nendsolid a b c\n", "a.stl");
    expect_vertices(&out, corners, 3);
    expect_faces(&out, face, 1);
    esi_surface_free(s->t.ctx, &out);

    esi_store_u32le(file + 80, 1);
    for (int i = 0; i < 9; i++) esi_store_f32le(file + 84 + 12 + 4 * i, corners[i]);
    parse(s, &out, file, sizeof file, "b.stl");
    expect_vertices(&out, corners, 3);
    expect_faces(&out, face, 1);
    esi_surface_free(s->t.ctx, &out);
    for (size_t cut = 0; cut < sizeof file; cut++) {
        assert_int_equal(esi_surface_parse(s->t.ctx, &out, file, cut, "b.stl"), ESPALIER_ERR_INPUT);
        esi_clear_error(s->t.ctx);
    }
    memcpy(file, "XXXXX", 5);
    esi_store_u32le(file + 80, 0x80000000u);
    assert_int_equal(esi_surface_parse(s->t.ctx, &out, file, sizeof file, "b.stl"), ESPALIER_ERR_INPUT);
    esi_clear_error(s->t.ctx);
    refuse(s, "solid\nendsolid\n", "a.stl", ESPALIER_ERR_INPUT);
    refuse(s, "solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nendloop\nendfacet\nendsolid\n", "a.stl",
           ESPALIER_ERR_INPUT);
    refuse(s, "solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n", "a.stl",
           ESPALIER_ERR_INPUT);
}

static void off(void **state)
{
    static const int32_t faces[] = {0, 1, 2, 0, 2, 3, 0, 1, 3};
    scene *s = *state;
    esi_surface out;

    parse_text(s, &out, "COFF # colours\n# counts\n4 2 0\n0 0 0 255 0 0 255\n1 0 0 0 0 0 0\n0 1 0 0.5 0.5 0.5 1.0\n\n0 0 1 1 2 3\n"
               "4 0 1 2 3 0.1 0.2 0.3\n3 0 1 3\n", "a.off");
    expect_vertices(&out, tetra, 4);
    expect_faces(&out, faces, 3);
    assert_memory_equal(out.colors, "\xff\x00\x00\xff\x00\x00\x00\x00\x80\x80\x80\xff\x01\x02\x03\xff", 16);
    esi_surface_free(s->t.ctx, &out);
    refuse(s, "OFF\n4 2 0\n0 0 0\n", "a.off", ESPALIER_ERR_INPUT);
    refuse(s, "OFF\n2147483648 2 0\n0 0 0\n", "a.off", ESPALIER_ERR_INPUT);
    refuse(s, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "a.off", ESPALIER_ERR_INPUT);
    refuse(s, "OFF BINARY\n3 1 0\n", "a.off", ESPALIER_ERR_INPUT);
}

/* --------------------------------------------------------------------- OBJ */

static void obj_numbers(void **state)
{
    /* y up in the file: (x, y, z) -> (x, -z, y). Vertex 3 is nobody's and stays; vertex 1 has two texture coordinates, so it comes again at
     * the end. */
    static const float vertices[] = {0, 0, 0, 1, 0, 0, 0, 0, 1, 5, -7, 6, 0, -1, 0, 1, 0, 0};
    static const int32_t faces[] = {0, 1, 2, 0, 2, 4, 5, 4, 2};
    scene *s = *state;
    esi_surface out;

    parse_text(s, &out, "# cube\no thing\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 5 6 7\nv 0 0 1\nvt 0.25 0.75\nvt 0.5 0.5\ng a\ns 1\n"
               "f 1/1 2/1 3/1 \\\n -1/1\nf 2/2 -1/1 -3/1\nl 1 2\n", "a.obj");
    expect_vertices(&out, vertices, 6);
    expect_faces(&out, faces, 3);
    assert_true(out.uvs[2 * 1] == 0.25f && out.uvs[2 * 1 + 1] == 0.25f && out.uvs[2 * 5] == 0.5f && out.uvs[2 * 5 + 1] == 0.5f);
    assert_null(out.normals);
    esi_surface_free(s->t.ctx, &out);

    parse_text(s, &out, "v 0 0 0 1 0 0.5\nv 1 0 0 0 0 0\nv 0 1 0 1 1 1\nvn 0 0 3\nf 1//1 2//1 3//1\n", "a.obj");
    assert_memory_equal(out.colors, "\xff\x00\x80\xff", 4);
    assert_true(out.normals[0] == 0.0f && out.normals[1] == -1.0f && out.normals[2] == 0.0f);
    esi_surface_free(s->t.ctx, &out);

    refuse(s, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "a.obj", ESPALIER_ERR_INPUT);
    refuse(s, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\n", "a.obj", ESPALIER_ERR_INPUT);
    refuse(s, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "a.obj", ESPALIER_ERR_INPUT);
    refuse(s, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 2147483649\n", "a.obj", ESPALIER_ERR_INPUT);
    refuse(s, "v 0 0 0\nv 1 0\nf 1 2 1\n", "a.obj", ESPALIER_ERR_INPUT);
    refuse(s, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1/1 2/1 3/1\n", "a.obj", ESPALIER_ERR_INPUT);
    refuse(s, "v 0 0 0\n", "a.obj", ESPALIER_ERR_INPUT);
}

/* A 2 x 1 PNG: red, green. */
static const uint8_t small_png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
    0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x7b, 0x40, 0xe8, 0xdd, 0x00, 0x00, 0x00, 0x0f, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63,
    0xf8, 0xcf, 0xc0, 0xc0, 0xf0, 0x9f, 0x01, 0x00, 0x07, 0xff, 0x01, 0xff, 0x01, 0x7f, 0x89, 0xa7, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static void obj_materials(void **state)
{
    static const char obj[] = "mtllib a b.mtl\nmtllib missing.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/1\nusemtl red one\n"
                              "f 1/1 2/1 3/1\nusemtl nobody\nf 1/1 2/1 3/1\nusemtl glass\nusemtl red one\nf 3/1 2/1 1/1\n";
    static const char mtl[] = "newmtl glass\nKd 0 0 1\nnewmtl red one\nKd 1 0.5 2\nd 0.25\nPr 0.125\nPm 0.5\nKe 0 0.25 0\n"
                              "map_Kd -clamp on -s 1 1 1 small.png\nmap_Ke ../small.png\n";
    scene *s = *state;
    esi_surface out;
    char path[1024];

    write_file(s, "a.obj", obj, sizeof obj - 1);
    write_file(s, "a b.mtl", mtl, sizeof mtl - 1);
    write_file(s, "small.png", small_png, sizeof small_png);
    if (esi_surface_read(s->t.ctx, &out, test_path(path, s->dir, "a.obj")) != ESPALIER_OK) fail_msg("%s", espalier_error_message(s->t.ctx));
    assert_int_equal(out.n_materials, 2);                     /* glass has no faces */
    assert_int_equal(out.face_material[0], 0);
    assert_int_equal(out.face_material[1], 1);
    assert_int_equal(out.face_material[2], 0);
    assert_int_equal(out.face_material[3], 1);
    const esi_material *m = &out.materials[1];
    assert_string_equal(m->name, "red one");
    assert_true(m->base_color[0] == 1.0f && m->base_color[1] == 0.5f && m->base_color[2] == 1.0f && m->base_color[3] == 0.25f);
    assert_true(m->roughness == 0.125f && m->metallic == 0.5f && m->emissive[1] == 0.25f && m->alpha_mode == ESI_ALPHA_BLEND);
    assert_int_equal(m->wrap, ESI_WRAP_CLAMP);
    assert_int_equal(out.n_textures, 1);                      /* "../small.png" is not beside the model */
    assert_int_equal(m->base_color_texture, 0);
    assert_int_equal(m->emissive_texture, -1);
    assert_int_equal(out.textures[0].width, 2);
    assert_memory_equal(out.textures[0].pixels, "\xff\0\0\0\xff\0", 6);
    esi_surface_free(s->t.ctx, &out);
}

/* -------------------------------------------------------------------- glTF */

/* 4 vertices (xyz), 6 indices (u16), texture coordinates as normalized u16, colours as normalized u8. */
static size_t gltf_buffer(uint8_t *to)
{
    static const uint16_t indices[6] = {0, 1, 2, 0, 2, 3}, uv[8] = {0, 0, 65535, 0, 65535, 65535, 0, 32768};
    static const uint8_t colors[16] = {255, 0, 0, 255, 0, 55, 0, 255, 0, 0, 255, 0, 1, 2, 3, 128};
    size_t n = 0;

    for (int i = 0; i < 12; i++) esi_store_f32le(to + 4 * i, tetra[i]);
    n = 48;
    memcpy(to + n, indices, 12);
    memcpy(to + n + 12, uv, 16);
    memcpy(to + n + 28, colors, 16);
    return n + 44;
}

#define GLTF_VIEWS                                                                                                                         \
    "\"bufferViews\":[{\"buffer\":0,\"byteOffset\":0,\"byteLength\":48},{\"buffer\":0,\"byteOffset\":48,\"byteLength\":12},"               \
    "{\"buffer\":0,\"byteOffset\":60,\"byteLength\":16},{\"buffer\":0,\"byteOffset\":76,\"byteLength\":16}],"                              \
    "\"accessors\":[{\"bufferView\":0,\"componentType\":5126,\"count\":4,\"type\":\"VEC3\"},"                                              \
    "{\"bufferView\":1,\"componentType\":5123,\"count\":6,\"type\":\"SCALAR\"},"                                                           \
    "{\"bufferView\":2,\"componentType\":5123,\"count\":4,\"type\":\"VEC2\",\"normalized\":true},"                                         \
    "{\"bufferView\":3,\"componentType\":5121,\"count\":4,\"type\":\"VEC4\",\"normalized\":true}%s]"

/* A .glb of this JSON (with GLTF_VIEWS where %s of `json` stands) and the buffer above. */
static size_t make_glb(uint8_t *to, size_t room, const char *json, const char *more_accessors)
{
    char views[2048], text[4096];
    uint8_t buffer[256];
    const size_t size = gltf_buffer(buffer);
    size_t n;

    snprintf(views, sizeof views, GLTF_VIEWS, more_accessors);
    n = (size_t)snprintf(text, sizeof text, "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":%zu}],%s,%s}", size, views,
                         json);
    while (n % 4 != 0) text[n++] = ' ';
    assert_true(28 + n + size <= room);
    memcpy(to, "glTF", 4);
    esi_store_u32le(to + 4, 2);
    esi_store_u32le(to + 8, (uint32_t)(28 + n + size));
    esi_store_u32le(to + 12, (uint32_t)n);
    memcpy(to + 16, "JSON", 4);
    memcpy(to + 20, text, n);
    esi_store_u32le(to + 20 + n, (uint32_t)size);
    memcpy(to + 24 + n, "BIN\0", 4);
    memcpy(to + 28 + n, buffer, size);
    return 28 + n + size;
}

static void gltf_tree(void **state)
{
    scene *s = *state;
    uint8_t file[8192];
    esi_surface out;
    size_t n;

    /* Node 0 moves by (10, 0, 0), its child scales by -2 along x (a mirror), node 2 is not in the scene. */
    n = make_glb(file, sizeof file, "\"scene\":1,\"scenes\":[{\"nodes\":[2]},{\"nodes\":[0]}],"
                 "\"nodes\":[{\"mesh\":0,\"translation\":[10,0,0],\"children\":[1]},{\"mesh\":0,\"scale\":[-2,1,1]},{\"mesh\":0}],"
                 "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0,\"TEXCOORD_0\":2,\"COLOR_0\":3},\"indices\":1}]}]", "");
    parse(s, &out, file, n, "a.glb");
    assert_int_equal(out.mesh.n_vertices, 8);
    assert_int_equal(out.mesh.n_faces, 4);
    static const float expected[] = {10, 0, 0, 11, 0, 0, 10, 0, 1, 10, -1, 0, 10, 0, 0, 8, 0, 0, 10, 0, 1, 10, -1, 0};
    static const int32_t faces[] = {0, 1, 2, 0, 2, 3, 6, 5, 4, 7, 6, 4};       /* the mirrored ones turned round */
    expect_vertices(&out, expected, 8);
    expect_faces(&out, faces, 4);
    assert_true(out.uvs[2] == 1.0f && out.uvs[3] == 0.0f && out.uvs[7] == 32768.0f / 65535.0f);
    /* COLOR_0 is light: 55 / 255 -> 128.2 of 255 encoded; 1, 2, 3 -> 12.7, 22.0, 28.4; alpha stays. */
    assert_memory_equal(out.colors, "\xff\x00\x00\xff\x00\x80\x00\xff\x00\x00\xff\x00\x0d\x16\x1c\x80", 16);
    assert_int_equal(out.n_materials, 1);
    assert_true(out.materials[0].metallic == 1.0f);
    esi_surface_free(s->t.ctx, &out);
    for (size_t cut = 0; cut < n; cut++) {
        assert_int_equal(esi_surface_parse(s->t.ctx, &out, file, cut, "a.glb"), ESPALIER_ERR_INPUT);
        esi_clear_error(s->t.ctx);
    }
}

static void gltf_odd_arrays(void **state)
{
    scene *s = *state;
    uint8_t file[8192];
    esi_surface out;
    size_t n;

    /* A strip (0 1 2 0 2 3 -> four triangles, every other one turned), and a fan without indices over a sparse accessor: positions of zeros
     * but for elements 1 and 2, taken from elements 1 and 2 of the buffer. */
    n = make_glb(file, sizeof file, "\"nodes\":[{\"mesh\":0}],\"meshes\":[{\"primitives\":["
                 "{\"mode\":5,\"attributes\":{\"POSITION\":0},\"indices\":1},{\"mode\":6,\"attributes\":{\"POSITION\":4}},"
                 "{\"mode\":1,\"attributes\":{\"POSITION\":0}}]}]",
                 ",{\"componentType\":5126,\"count\":3,\"type\":\"VEC3\",\"sparse\":{\"count\":2,\"indices\":{\"bufferView\":1,"
                 "\"byteOffset\":2,\"componentType\":5123},\"values\":{\"bufferView\":0,\"byteOffset\":12}}}");
    parse(s, &out, file, n, "a.glb");
    static const int32_t faces[] = {0, 1, 2, 1, 0, 2, 2, 0, 2, 0, 3, 2, 4, 5, 6};
    static const float last[] = {0, 0, 0, 1, 0, 0, 0, 0, 1};
    assert_int_equal(out.mesh.n_vertices, 7);
    expect_faces(&out, faces, 5);
    assert_memory_equal(out.mesh.vertices + 12, last, sizeof last);
    esi_surface_free(s->t.ctx, &out);

    /* KHR_texture_transform: u' = 2u + 0.5, v' = v. */
    n = make_glb(file, sizeof file, "\"nodes\":[{\"mesh\":0}],\"extensionsRequired\":[\"KHR_texture_transform\"],\"materials\":[{"
                 "\"pbrMetallicRoughness\":{\"baseColorTexture\":{\"index\":0,\"extensions\":{\"KHR_texture_transform\":{"
                 "\"offset\":[0.5,0],\"scale\":[2,1]}}},\"metallicFactor\":0.5}}],\"meshes\":[{\"primitives\":[{\"material\":0,"
                 "\"attributes\":{\"POSITION\":0,\"TEXCOORD_0\":2},\"indices\":1}]}]", "");
    parse(s, &out, file, n, "a.glb");
    assert_true(out.uvs[0] == 0.5f && out.uvs[2] == 2.5f && out.uvs[3] == 0.0f);
    assert_true(out.materials[0].metallic == 0.5f && out.materials[0].base_color_texture == -1);
    esi_surface_free(s->t.ctx, &out);
}

static void refuse_glb(scene *s, const char *json, const char *more)
{
    uint8_t file[8192];
    const size_t n = make_glb(file, sizeof file, json, more);
    esi_surface out;

    if (esi_surface_parse(s->t.ctx, &out, file, n, "a.glb") != ESPALIER_ERR_INPUT) fail_msg("accepted: %s %s", json, more);
    esi_clear_error(s->t.ctx);
}

#define ONE_MESH(attributes) "\"nodes\":[{\"mesh\":0}],\"meshes\":[{\"primitives\":[{\"attributes\":{" attributes "}}]}]"

static void gltf_damage(void **state)
{
    scene *s = *state;
    char deep[6000] = "";
    uint8_t file[16384];
    esi_surface out;
    size_t n;

    refuse_glb(s, "\"nodes\":[{\"mesh\":0,\"children\":[0]}],\"meshes\":[]", "");                                  /* its own child */
    refuse_glb(s, "\"scenes\":[{\"nodes\":[0]}],\"nodes\":[{\"children\":[1]},{\"children\":[0]}]", "");
    refuse_glb(s, "\"scenes\":[{\"nodes\":[0,0]}],\"nodes\":[{\"mesh\":0}]", "");
    refuse_glb(s, ONE_MESH("\"POSITION\":9"), "");
    refuse_glb(s, ONE_MESH("\"POSITION\":1"), "");                                                                 /* SCALAR */
    refuse_glb(s, ONE_MESH("\"POSITION\":0") ",\"extensionsRequired\":[\"KHR_draco_mesh_compression\"]", "");
    refuse_glb(s, ONE_MESH("\"POSITION\":0,\"TEXCOORD_0\":4"), ",{\"bufferView\":2,\"componentType\":5123,\"count\":3,\"type\":\"VEC2\"}");
    refuse_glb(s, ONE_MESH("\"POSITION\":4"), ",{\"bufferView\":0,\"componentType\":5126,\"count\":2147483647,\"type\":\"VEC3\"}");
    refuse_glb(s, ONE_MESH("\"POSITION\":4"), ",{\"bufferView\":0,\"byteOffset\":8,\"componentType\":5126,\"count\":4,\"type\":\"VEC3\"}");
    refuse_glb(s, ONE_MESH("\"POSITION\":4"), ",{\"bufferView\":0,\"byteOffset\":-4,\"componentType\":5126,\"count\":3,\"type\":\"VEC3\"}");
    refuse_glb(s, "\"nodes\":[{\"mesh\":0}],\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":4},\"indices\":1}]}]",
               ",{\"bufferView\":0,\"componentType\":5126,\"count\":3,\"type\":\"VEC3\"}");                        /* index 3 of 3 */
    refuse(s, "{\"asset\":{\"version\":\"1.0\"}}", "a.gltf", ESPALIER_ERR_INPUT);
    refuse(s, "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":4,\"uri\":\"/etc/passwd\"}]}", "a.gltf", ESPALIER_ERR_INPUT);
    refuse(s, "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":4,\"uri\":\"data:;base64,AA=A\"}]}", "a.gltf",
           ESPALIER_ERR_INPUT);

    /* A chain of 300 nodes is no problem: nothing recurses. */
    n = 0;
    for (int i = 0; i < 300; i++)
        n += (size_t)snprintf(deep + n, sizeof deep - n, i < 299 ? "{\"children\":[%d]}," : "{\"mesh\":0}", i + 1);
    char *json = malloc(8192);
    assert_non_null(json);
    snprintf(json, 8192, "\"nodes\":[%s],\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"indices\":1}]}]", deep);
    char views[2048];
    uint8_t buffer[256];
    const size_t size = gltf_buffer(buffer);
    snprintf(views, sizeof views, GLTF_VIEWS, "");
    char *base64 = malloc(4 * size);
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;
    assert_non_null(base64);
    for (size_t i = 0; i < size; i += 3) {
        const uint32_t bits =
            (uint32_t)buffer[i] << 16 | (i + 1 < size ? (uint32_t)buffer[i + 1] << 8 : 0) | (i + 2 < size ? buffer[i + 2] : 0u);

        for (int k = 0; k < 4; k++) base64[at++] = digits[bits >> (18 - 6 * k) & 63];
    }
    base64[at] = '\0';
    n = (size_t)snprintf((char *)file, sizeof file, "{\"asset\":{\"version\":\"2.0\"},\"buffers\":[{\"byteLength\":%zu,\"uri\":"
                         "\"data:application/octet-stream;base64,%s\"}],%s,%s}", size, base64, views, json);
    parse(s, &out, file, n, "a.gltf");
    assert_int_equal(out.mesh.n_faces, 2);
    esi_surface_free(s->t.ctx, &out);
    free(json);
    free(base64);
}

/* ------------------------------------------------------------------ general */

static void names_and_limits(void **state)
{
    scene *s = *state;
    espalier_limits limits = espalier_limits_default();
    char path[1024];
    esi_surface out;

    refuse(s, "hello", "a.txt", ESPALIER_ERR_INPUT);
    refuse(s, "hello", "ply", ESPALIER_ERR_INPUT);
    assert_int_equal(esi_surface_read(s->t.ctx, &out, test_path(path, s->dir, "none.ply")), ESPALIER_ERR_INPUT);
    esi_clear_error(s->t.ctx);
    assert_int_equal(mkdir(test_path(path, s->dir, "d.ply"), 0777), 0);
    assert_int_equal(esi_surface_read(s->t.ctx, &out, path), ESPALIER_ERR_INPUT);
    assert_int_equal(rmdir(path), 0);
    esi_clear_error(s->t.ctx);
    limits.max_file_bytes = 100;
    espalier_context_set_limits(s->t.ctx, &limits);
    refuse(s, PLY_HEAD PLY_FACES "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "a.ply", ESPALIER_ERR_RESOURCE);
    espalier_context_set_limits(s->t.ctx, NULL);
}

/* Whatever is done to a file, what is accepted is sound. */
static void every_bit(void **state)
{
    scene *s = *state;
    uint8_t glb[8192];
    const size_t n = make_glb(glb, sizeof glb, "\"nodes\":[{\"mesh\":0,\"rotation\":[0,0,0.6,0.8]}],\"materials\":[{\"doubleSided\":true}],"
                              "\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0,\"TEXCOORD_0\":2,\"COLOR_0\":3},\"indices\":1,"
                              "\"material\":0}]}]", "");
    static const char ply[] = PLY_HEAD PLY_FACES "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
                      obj[] = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 1\nf 1/1 2/1 3/1\n",
                      stl_text[] = "solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"
                                   "endsolid\n",
                      off_text[] = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n";
    const struct { const void *bytes; size_t size; const char *name; } files[] = {
        {glb, n, "a.glb"}, {ply, sizeof ply - 1, "a.ply"}, {obj, sizeof obj - 1, "a.obj"}, {stl_text, sizeof stl_text - 1, "a.stl"},
        {off_text, sizeof off_text - 1, "a.off"}};

    for (size_t i = 0; i < ESI_COUNT(files); i++) {
        uint8_t *copy = malloc(files[i].size);

        assert_non_null(copy);
        memcpy(copy, files[i].bytes, files[i].size);
        for (size_t bit = 0; bit < 8 * files[i].size; bit++) {
            esi_surface out;

            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (esi_surface_parse(s->t.ctx, &out, copy, files[i].size, files[i].name) == ESPALIER_OK) {
                for (int64_t k = 0; k < 3 * out.mesh.n_faces; k++) assert_in_range(out.mesh.faces[k], 0, out.mesh.n_vertices - 1);
                assert_true(out.mesh.n_faces > 0);
                for (int64_t f = 0; out.face_material && f < out.mesh.n_faces; f++)
                    assert_in_range(out.face_material[f], 0, ESI_MAX(out.n_materials, 1) - 1);
            } else {
                assert_true(espalier_error_message(s->t.ctx)[0] != '\0');
            }
            esi_surface_free(s->t.ctx, &out);
            esi_clear_error(s->t.ctx);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(copy);
    }
}

static void failing_allocations(void **state)
{
    scene *s = *state;
    static const char mtl[] = "newmtl m\nmap_Kd small.png\nmap_Pr small.png\n",
                      obj[] = "mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 1\nvt 1 1\nusemtl m\nf 1/1 2/1 3/1\nf 1/2 3/2 2/1\n",
                      ply[] = PLY_HEAD "property uchar red\nproperty uchar green\nproperty uchar blue\n" PLY_FACES
                              "0 0 0 1 2 3\n1 0 0 4 5 6\n0 1 0 7 8 9\n3 0 1 2\n";
    uint8_t glb[8192];
    const size_t n =
        make_glb(glb, sizeof glb,
                 "\"nodes\":[{\"mesh\":0}],\"images\":[{\"uri\":\"small.png\"}],\"textures\":[{\"source\":0}],"
                 "\"materials\":[{\"pbrMetallicRoughness\":{\"baseColorTexture\":{\"index\":0}}}],\"meshes\":[{\"primitives\":[{"
                 "\"attributes\":{\"POSITION\":0,\"TEXCOORD_0\":2,\"COLOR_0\":3},\"indices\":1,\"material\":0}]}]",
                 "");
    static const char *const names[] = {"a.ply", "a.obj", "a.glb"};

    write_file(s, "m.mtl", mtl, sizeof mtl - 1);
    write_file(s, "a.obj", obj, sizeof obj - 1);
    write_file(s, "a.ply", ply, sizeof ply - 1);
    write_file(s, "a.glb", glb, n);
    write_file(s, "small.png", small_png, sizeof small_png);
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        char path[1024];
        long k;

        for (k = 1; st != ESPALIER_OK && k < 500; k++) {
            esi_surface out;

            test_fail_at(&s->t.memory, k);
            st = esi_surface_read(s->t.ctx, &out, test_path(path, s->dir, names[i]));
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            if (st == ESPALIER_OK && i > 0) assert_true(out.n_textures >= 1);
            esi_surface_free(s->t.ctx, &out);
            esi_clear_error(s->t.ctx);
            assert_int_equal(espalier_context_memory_now(s->t.ctx), 0);
        }
        assert_true(k > 4 && k < 500);
        test_fail_at(&s->t.memory, 0);
    }
}

static const char collada[] =
    "<?xml version=\"1.0\"?><COLLADA xmlns=\"http://www.collada.org/2005/11/COLLADASchema\" "
    "version=\"1.4.1\"><asset><up_axis>Z_UP</up_axis>"
    "</asset><library_geometries><geometry id=\"g\"><mesh><source id=\"p\"><float_array id=\"pa\" count=\"9\">0 0 0 1 0 0 0 1 "
    "2</float_array>"
    "<technique_common><accessor source=\"#pa\" count=\"3\" stride=\"3\"><param name=\"X\" type=\"float\"/><param name=\"Y\" "
    "type=\"float\"/>"
    "<param name=\"Z\" type=\"float\"/></accessor></technique_common></source><vertices id=\"v\"><input semantic=\"POSITION\" "
    "source=\"#p\"/>"
    "</vertices><triangles count=\"1\"><input semantic=\"VERTEX\" source=\"#v\" offset=\"0\"/><p>0 1 2</p></triangles></mesh></geometry>"
    "</library_geometries><library_visual_scenes><visual_scene id=\"s\"><node id=\"n\"><translate>0 0 5</translate>"
    "<instance_geometry url=\"#g\"/></node></visual_scene></library_visual_scenes><scene><instance_visual_scene "
    "url=\"#s\"/></scene></COLLADA>";

/* Through assimp in its child: transformed, z up, and refused when damaged. */
static void through_assimp(void **state)
{
#ifdef TEST_ASSIMP
    static const float expected[] = {0, 0, 5, 1, 0, 5, 0, 1, 7};
    scene *s = *state;
    esi_surface out;

    parse_text(s, &out, collada, "a.dae");
    assert_int_equal(out.mesh.n_faces, 1);
    for (int i = 0; i < 9; i++) assert_float_equal(out.mesh.vertices[3 * out.mesh.faces[i / 3] + i % 3], expected[i], 1e-6);
    esi_surface_free(s->t.ctx, &out);
    refuse(s, "<COLLADA", "a.dae", ESPALIER_ERR_INPUT);
    refuse(s, "", "a.fbx", ESPALIER_ERR_INPUT);
    espalier_context_cancel(s->t.ctx);
    refuse(s, collada, "a.dae", ESPALIER_ERR_CANCELLED);
    atomic_store(&s->t.ctx->cancel, 0);
#else
    (void)state, (void)collada;
    printf("SKIPPED: this build has no assimp\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ply_text, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(ply_binary, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(ply_damage, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(ply_goldens, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(stl, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(off, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(obj_numbers, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(obj_materials, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(gltf_tree, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(gltf_odd_arrays, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(gltf_damage, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(names_and_limits, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(every_bit, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(failing_allocations, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(through_assimp, open_scene, close_scene),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
