/* SPDX-License-Identifier: MIT
 *
 * Surfaces as files: every format is read back with the same shape, colours and pictures, by our reader and (where it reads the format) by
 * assimp; sizes, refusals, files that appear together, same bytes for any number of threads. With `--samples DIR` it writes files for
 * the glTF validator instead.
 */
#include "surface_fixture.h"

#include "formats/json.h"
#include "formats/surface_io.h"
#include "formats/zip.h"

#ifdef TEST_ASSIMP
#include <assimp/cimport.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>
#endif

#include <sys/stat.h>

static const torus_options plain = {0}, full = {.textures = true, .normal_map = true}, painted = {.colors = true},
                           pair = {.textures = true, .two_materials = true}, glassy = {.textures = true, .alpha = true};

static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

static const float *corner(const esi_surface *s, int64_t i)
{
    return s->mesh.vertices + 3 * (int64_t)s->mesh.faces[i];
}

/* Faces of `s` in the order of the file: grouped by material. */
static int64_t *file_order(const esi_surface *s)
{
    int64_t *order = malloc((size_t)s->mesh.n_faces * sizeof *order), n = 0;

    assert_non_null(order);
    for (int32_t m = 0; m < s->n_materials; m++) {
        for (int64_t f = 0; f < s->mesh.n_faces; f++) {
            if ((s->face_material ? s->face_material[f] : 0) == m) order[n++] = f;
        }
    }
    assert_int_equal(n, s->mesh.n_faces);
    return order;
}

/* Corner by corner: positions within `tolerance` (0 = every bit). */
static void same_shape(const esi_surface *a, const esi_surface *b, bool grouped, double scale, double tolerance)
{
    int64_t *order = file_order(a);

    assert_int_equal(b->mesh.n_faces, a->mesh.n_faces);
    for (int64_t f = 0; f < a->mesh.n_faces; f++) {
        const int64_t from = grouped ? order[f] : f;

        for (int k = 0; k < 9; k++) {
            const double x = (double)corner(a, 3 * from + k / 3)[k % 3] * scale, y = (double)corner(b, 3 * f + k / 3)[k % 3];

            if (!(y - x <= tolerance && x - y <= tolerance)) fail_msg("face %d: %.9g instead of %.9g", (int)f, y, x);
        }
    }
    free(order);
}

/* 3MF stands at the corner of the printer's bed: its lower corner is the origin. */
static void move_back(const esi_surface *a, esi_surface *b, double scale)
{
    for (int k = 0; k < 3; k++) {
        float from = a->mesh.vertices[k], at = b->mesh.vertices[k];

        for (int64_t v = 1; v < a->mesh.n_vertices; v++) from = fminf(from, a->mesh.vertices[3 * v + k]);
        for (int64_t v = 1; v < b->mesh.n_vertices; v++) at = fminf(at, b->mesh.vertices[3 * v + k]);
        assert_float_equal((double)at, 0.0, 1e-5);
        for (int64_t v = 0; v < b->mesh.n_vertices; v++) b->mesh.vertices[3 * v + k] += (float)((double)from * scale);
    }
}

static void same_uvs(const esi_surface *a, const esi_surface *b, bool grouped, double tolerance)
{
    int64_t *order = file_order(a);

    assert_non_null(b->uvs);
    for (int64_t i = 0; i < 3 * a->mesh.n_faces; i++) {
        const int64_t from = grouped ? 3 * order[i / 3] + i % 3 : i;
        const float *x = a->uvs + 2 * (int64_t)a->mesh.faces[from], *y = b->uvs + 2 * (int64_t)b->mesh.faces[i];

        for (int k = 0; k < 2; k++) assert_true((double)x[k] - (double)y[k] <= tolerance && (double)y[k] - (double)x[k] <= tolerance);
    }
    free(order);
}

static void same_colors(const esi_surface *a, const esi_surface *b)
{
    assert_non_null(b->colors);
    for (int64_t i = 0; i < 3 * a->mesh.n_faces; i++)
        assert_memory_equal(a->colors + 4 * (int64_t)a->mesh.faces[i], b->colors + 4 * (int64_t)b->mesh.faces[i], 4);
}

static void same_picture(const esi_texture *a, const esi_texture *b, int channels)
{
    assert_int_equal(b->width, a->width);
    assert_int_equal(b->height, a->height);
    for (size_t i = 0; i < (size_t)a->width * a->height; i++) {
        for (int c = 0; c < channels; c++) assert_int_equal(b->pixels[i * b->channels + (size_t)c], a->pixels[i * a->channels + (size_t)c]);
    }
}

static void round_trip(test_base *t, const char *dir, const char *name, torus_options o, const esi_export_options *options,
                       esi_surface *source, esi_surface *back)
{
    char path[1024];

    torus_make(t->ctx, source, o);
    test_path(path, dir, name);
    assert_true(esi_surface_can_write(path));
    if (esi_surface_write(t->ctx, source, path, options) != ESPALIER_OK) fail_msg("%s", espalier_error_message(t->ctx));
    if (strstr(name, ".usdz")) return;
    if (esi_surface_read(t->ctx, back, path) != ESPALIER_OK) fail_msg("%s", espalier_error_message(t->ctx));
    assert_int_equal(esi_surface_check(t->ctx, back, name, ESPALIER_ERR_INTERNAL), ESPALIER_OK);
}

static void release(test_base *t, esi_surface *a, esi_surface *b)
{
    esi_surface_free(t->ctx, a);
    esi_surface_free(t->ctx, b);
}

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

/* -------------------------------------------------------------------- glTF */

static void check_material(const esi_material *a, const esi_material *b)
{
    assert_string_equal(b->name, a->name);
    assert_memory_equal(b->base_color, a->base_color, sizeof a->base_color);
    assert_memory_equal(b->emissive, a->emissive, sizeof a->emissive);
    assert_true(b->metallic == a->metallic && b->roughness == a->roughness && b->alpha_cutoff == a->alpha_cutoff);
    assert_int_equal(b->alpha_mode, a->alpha_mode);
    assert_int_equal(b->double_sided, a->double_sided);
    assert_int_equal(b->nearest, a->nearest);
    assert_int_equal(b->occlusion, a->occlusion);
}

static void gltf_keeps_everything(void **state)
{
    static const char *const names[] = {"a.glb", "b.gltf"};
    scene *s = *state;

    for (int i = 0; i < 2; i++) {
        esi_surface a, b;

        round_trip(&s->t, s->dir, names[i], full, NULL, &a, &b);
        same_shape(&a, &b, false, 1.0, 0.0);
        same_uvs(&a, &b, false, 0.0);
        assert_int_equal(b.mesh.n_vertices, a.mesh.n_vertices);
        for (int64_t v = 0; v < 3 * a.mesh.n_vertices; v++) assert_float_equal(b.normals[v], a.normals[v], 1e-7);
        for (int64_t v = 0; v < 4 * a.mesh.n_vertices; v++) assert_float_equal(b.tangents[v], a.tangents[v], 1e-7);
        assert_int_equal(b.n_materials, 1);
        check_material(&a.materials[0], &b.materials[0]);
        assert_int_equal(b.n_textures, 3);
        same_picture(&a.textures[0], &b.textures[b.materials[0].base_color_texture], 3);
        same_picture(&a.textures[1], &b.textures[b.materials[0].metallic_roughness_texture], 3);
        same_picture(&a.textures[2], &b.textures[b.materials[0].normal_texture], 3);
        release(&s->t, &a, &b);
    }
    assert_int_equal(test_dir_count(s->dir), 1 + 5);         /* a.glb; b.gltf, b.bin, three pictures */
}

static void gltf_materials_and_colors(void **state)
{
    scene *s = *state;
    esi_surface a, b;

    round_trip(&s->t, s->dir, "pair.glb", pair, NULL, &a, &b);
    same_shape(&a, &b, true, 1.0, 0.0);
    same_uvs(&a, &b, true, 0.0);
    assert_int_equal(b.mesh.n_vertices, a.mesh.n_vertices);  /* primitives share their vertices */
    assert_int_equal(b.n_materials, 2);
    check_material(&a.materials[0], &b.materials[0]);
    check_material(&a.materials[1], &b.materials[1]);
    for (int64_t f = 0; f < b.mesh.n_faces; f++) assert_int_equal(b.face_material[f], f >= b.mesh.n_faces - (a.mesh.n_faces + 4) / 5);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "painted.glb", painted, NULL, &a, &b);
    same_shape(&a, &b, false, 1.0, 0.0);
    same_colors(&a, &b);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "glassy.glb", glassy, NULL, &a, &b);
    check_material(&a.materials[0], &b.materials[0]);
    same_picture(&a.textures[0], &b.textures[b.materials[0].base_color_texture], 4);
    release(&s->t, &a, &b);
}

static void gltf_texture_formats(void **state)
{
    scene *s = *state;
    esi_export_options o = esi_export_options_default();
    esi_surface a, b;
    char path[1024];
    uint8_t *bytes;
    size_t size;
    int largest = 0;

    o.texture_format = ESI_TEXTURE_JPEG;
    round_trip(&s->t, s->dir, "jpeg.glb", full, &o, &a, &b);
    for (int i = 0; i < TORUS_SIDE * TORUS_SIDE * 3; i++)
        largest = ESI_MAX(largest, abs(a.textures[0].pixels[i] - b.textures[b.materials[0].base_color_texture].pixels[i]));
    assert_in_range(largest, 1, 24);             /* lossy, but the same picture */
    bytes = read_all(test_path(path, s->dir, "jpeg.glb"), &size);
    assert_non_null(strstr((char *)bytes + 20, "image/jpeg"));
    free(bytes);
    release(&s->t, &a, &b);

    o.texture_format = ESI_TEXTURE_WEBP;
    round_trip(&s->t, s->dir, "webp.gltf", full, &o, &a, &b);
    same_picture(&a.textures[0], &b.textures[b.materials[0].base_color_texture], 3);
    bytes = read_all(test_path(path, s->dir, "webp.gltf"), &size);
    assert_non_null(strstr((char *)bytes, "\"extensionsUsed\":[\"EXT_texture_webp\"]"));
    assert_null(strstr((char *)bytes, "extensionsRequired"));
    free(bytes);
    assert_int_equal(test_dir_count(s->dir), 1 + 2 + 6);     /* each picture as PNG and WebP */
    release(&s->t, &a, &b);
}

static void gltf_extras_and_size(void **state)
{
    static const char *const extras[] = {"seed", "7", "settings", "{\"faces\":[1,2]}", NULL};
    scene *s = *state;
    esi_export_options o = esi_export_options_default();
    esi_surface a, b;
    char path[1024];
    uint8_t *bytes;
    size_t size;
    esi_json *json;
    int64_t seed = 0, second = 0;

    o.extras = extras;
    o.size_mm = 50;
    round_trip(&s->t, s->dir, "e.gltf", plain, &o, &a, &b);
    same_shape(&a, &b, false, 0.05 / 0.8, 1e-8);             /* the torus is 0.8 wide */
    bytes = read_all(test_path(path, s->dir, "e.gltf"), &size);
    assert_int_equal(esi_json_parse(s->t.ctx, &json, bytes, size, "e.gltf", ESPALIER_ERR_INPUT), ESPALIER_OK);
    assert_true(esi_json_int(esi_json_path(json, "asset.extras.seed"), &seed) && seed == 7);
    assert_true(esi_json_int(esi_json_at(esi_json_path(json, "asset.extras.settings.faces"), 1), &second) && second == 2);
    esi_json_free(json);
    free(bytes);
    release(&s->t, &a, &b);
}

/* ------------------------------------------------------------ other formats */

static void obj_round_trip(void **state)
{
    scene *s = *state;
    esi_surface a, b;
    char path[1024];
    uint8_t *bytes;
    size_t size;

    round_trip(&s->t, s->dir, "a b.obj", full, NULL, &a, &b);
    same_shape(&a, &b, false, 1.0, 0.0);
    same_uvs(&a, &b, false, 1e-7);
    assert_int_equal(b.n_materials, 1);
    assert_true(b.materials[0].metallic == 1.0f && b.materials[0].roughness == 1.0f);
    same_picture(&a.textures[0], &b.textures[b.materials[0].base_color_texture], 3);
    same_picture(&a.textures[2], &b.textures[b.materials[0].normal_texture], 3);
    for (size_t i = 0; i < TORUS_SIDE * TORUS_SIDE; i++)      /* roughness and metal come back together; occlusion does not */
        assert_memory_equal(a.textures[1].pixels + 3 * i + 1, b.textures[b.materials[0].metallic_roughness_texture].pixels + 3 * i + 1, 2);
    bytes = read_all(test_path(path, s->dir, "a b.mtl"), &size);
    assert_null(strstr((char *)bytes, "map_d"));
    free(bytes);
    bytes = read_all(test_path(path, s->dir, "a b.obj"), &size);
    assert_non_null(strstr((char *)bytes, "\nv "));
    size = 0;
    for (char *c = (char *)bytes; (c = strstr(c, "\nv ")) != NULL; c++) size++;
    assert_int_equal(size, TORUS_U * TORUS_V);                /* seams of the texture are none of the mesh */
    free(bytes);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "painted.obj", painted, NULL, &a, &b);
    same_shape(&a, &b, false, 1.0, 0.0);
    same_colors(&a, &b);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "glassy.obj", glassy, NULL, &a, &b);
    same_picture(&a.textures[0], &b.textures[b.materials[0].base_color_texture], 4);
    assert_int_equal(b.materials[0].alpha_mode, ESI_ALPHA_BLEND);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "pair.obj", pair, NULL, &a, &b);
    same_shape(&a, &b, true, 1.0, 0.0);
    assert_int_equal(b.n_materials, 2);
    assert_float_equal(b.materials[1].base_color[0], 0.5, 0);
    assert_int_equal(b.face_material[b.mesh.n_faces - 1], 1);
    release(&s->t, &a, &b);
}

static void ply_and_stl_round_trip(void **state)
{
    scene *s = *state;
    esi_surface a, b;

    round_trip(&s->t, s->dir, "painted.ply", painted, NULL, &a, &b);
    same_shape(&a, &b, false, 1.0, 0.0);
    assert_int_equal(b.mesh.n_vertices, a.mesh.n_vertices);
    assert_memory_equal(b.mesh.faces, a.mesh.faces, (size_t)a.mesh.n_faces * 12);
    same_colors(&a, &b);
    release(&s->t, &a, &b);

    /* Colours of the texture at the vertex: the mean of the four texels around it; u = x / 12 of 32 texels of colour (8 x, 8 y, 5 x + 3 y).
     */
    round_trip(&s->t, s->dir, "sampled.ply", full, NULL, &a, &b);
    assert_non_null(b.colors);
    for (int64_t v = 0; v < b.mesh.n_vertices; v++) {
        const double x = (double)(v % (TORUS_U + 1)) / TORUS_U * 32 - 0.5, y = (double)(v / (TORUS_U + 1)) / TORUS_V * 32 - 0.5;

        if (x < 0 || y < 0 || x > 31 || y > 31) continue;
        assert_in_range(b.colors[4 * v] + 1, (int)(8 * x), (int)(8 * x) + 2);
        assert_in_range(b.colors[4 * v + 1] + 1, (int)(8 * y), (int)(8 * y) + 2);
    }
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "a.stl", full, NULL, &a, &b);
    same_shape(&a, &b, false, 1.0, 0.0);
    release(&s->t, &a, &b);
    esi_export_options o = esi_export_options_default();
    o.size_mm = 40;
    round_trip(&s->t, s->dir, "mm.STL", full, &o, &a, &b);
    same_shape(&a, &b, false, 40 / 0.8, 1e-5);
    release(&s->t, &a, &b);
}

static void threemf_round_trip(void **state)
{
    scene *s = *state;
    esi_surface a, b;
    esi_zip zip;
    char path[1024];
    uint8_t *bytes, *model;
    size_t size, model_size, n = 0;

    round_trip(&s->t, s->dir, "a.3mf", full, NULL, &a, &b);
    move_back(&a, &b, 100 / 0.8);
    same_shape(&a, &b, false, 100 / 0.8, 2e-5);               /* 100 mm when nothing is said */
    same_uvs(&a, &b, false, 1e-7);
    same_picture(&a.textures[0], &b.textures[b.materials[b.face_material[0]].base_color_texture], 3);
    bytes = read_all(test_path(path, s->dir, "a.3mf"), &size);
    assert_int_equal(esi_zip_open(s->t.ctx, &zip, bytes, size, "a.3mf"), ESPALIER_OK);
    assert_int_equal(zip.n_entries, 5);
    assert_int_equal(esi_zip_extract(s->t.ctx, &zip, esi_zip_find(&zip, "3D/3dmodel.model"), &model, &model_size, 1 << 20), ESPALIER_OK);
    assert_non_null(strstr((char *)model, "unit=\"millimeter\""));
    assert_non_null(strstr((char *)model, "pid=\"2\" pindex=\"0\">\n<mesh>"));     /* asked for where triangles have properties */
    for (char *c = (char *)model; (c = strstr(c, "<vertex ")) != NULL; c++) n++;
    assert_int_equal(n, TORUS_U * TORUS_V);                   /* closed for the printer */
    esi_free(s->t.ctx, model);
    esi_zip_close(s->t.ctx, &zip);
    free(bytes);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "painted.3mf", painted, NULL, &a, &b);
    same_colors(&a, &b);
    release(&s->t, &a, &b);

    round_trip(&s->t, s->dir, "pair.3mf", pair, NULL, &a, &b);
    move_back(&a, &b, 100 / 0.8);
    same_shape(&a, &b, true, 100 / 0.8, 2e-5);
    assert_float_equal(b.materials[b.face_material[b.mesh.n_faces - 1]].base_color[0], 0.5, 0.003);
    release(&s->t, &a, &b);
}

/* The numbers of "name = [...]" as doubles. */
static size_t numbers_of(const char *text, const char *name, double *out, size_t room)
{
    const char *at = strstr(text, name);
    size_t n = 0;

    assert_non_null(at);
    at = strchr(at, '=');
    while (*at != '\n' && n < room) {
        char *end;
        const double v = strtod(at, &end);

        if (end == at) {
            at++;
            continue;
        }
        out[n++] = v;
        at = end;
    }
    return n;
}

static void usdz_contents(void **state)
{
    scene *s = *state;
    esi_surface a;
    esi_zip zip;
    char path[1024];
    uint8_t *bytes, *stage;
    size_t size, stage_size;
    double *v = malloc(10000 * sizeof *v);

    assert_non_null(v);
    round_trip(&s->t, s->dir, "a.usdz", full, NULL, &a, NULL);
    bytes = read_all(test_path(path, s->dir, "a.usdz"), &size);
    assert_int_equal(esi_zip_open(s->t.ctx, &zip, bytes, size, "a.usdz"), ESPALIER_OK);
    assert_int_equal(zip.n_entries, 4);
    assert_memory_equal(zip.entries[0].name, "model.usda", 10);
    for (size_t i = 0; i < zip.n_entries; i++) {
        assert_false(zip.entries[i].deflated);
        assert_int_equal((zip.entries[i].bytes - bytes) % 64, 0);
    }
    assert_int_equal(esi_zip_extract(s->t.ctx, &zip, &zip.entries[0], &stage, &stage_size, 1 << 20), ESPALIER_OK);
    assert_memory_equal(stage, "#usda 1.0\n", 10);
    assert_int_equal(numbers_of((char *)stage, "faceVertexCounts", v, 10000), a.mesh.n_faces);
    assert_int_equal(numbers_of((char *)stage, "point3f[] points", v, 10000), 3 * TORUS_U * TORUS_V);
    assert_float_equal(v[0], (double)a.mesh.vertices[0], 0);
    assert_float_equal(v[1], (double)a.mesh.vertices[2], 0);          /* y up */
    assert_float_equal(v[2], -(double)a.mesh.vertices[1], 0);
    assert_int_equal(numbers_of((char *)stage, "primvars:st:indices", v, 10000), 3 * a.mesh.n_faces);
    for (int64_t i = 0; i < 3 * a.mesh.n_faces; i++) assert_int_equal((int32_t)v[i], a.mesh.faces[i]);
    assert_int_equal(numbers_of((char *)stage, "texCoord2f[] primvars:st", v, 10000), 2 * a.mesh.n_vertices);
    assert_float_equal(v[2], (double)a.uvs[2], 0);
    assert_float_equal(v[3], 1.0 - (double)a.uvs[3], 1e-7);
    assert_non_null(strstr((char *)stage, "upAxis = \"Y\""));
    assert_non_null(strstr((char *)stage, "inputs:file = @textures/0.png@"));
    esi_free(s->t.ctx, stage);
    esi_zip_close(s->t.ctx, &zip);
    free(bytes);
    free(v);
    esi_surface_free(s->t.ctx, &a);
}

/* ------------------------------------------------------------ other readers */

#ifdef TEST_ASSIMP
static void count_scene(const struct aiScene *found, unsigned *faces, float low[3], float high[3])
{
    *faces = 0;
    for (unsigned i = 0; i < found->mNumMeshes; i++) {
        const struct aiMesh *m = found->mMeshes[i];

        *faces += m->mNumFaces;
        for (unsigned f = 0; f < m->mNumFaces; f++) {
            for (unsigned k = 0; k < m->mFaces[f].mNumIndices; k++) {
                const struct aiVector3D p = m->mVertices[m->mFaces[f].mIndices[k]];
                const float v[3] = {p.x, p.y, p.z};

                for (int a = 0; a < 3; a++) {
                    low[a] = ESI_MIN(low[a], v[a]);
                    high[a] = ESI_MAX(high[a], v[a]);
                }
            }
        }
    }
}
#endif

/* Independent software: same bounds, same number of faces, and the colours where it knows them. */
static void assimp_reads_them(void **state)
{
#ifdef TEST_ASSIMP
    static const struct { const char *name; bool y_up; double scale; } files[] = {
        {"a.glb", true, 1}, {"a.gltf", true, 1}, {"a.obj", true, 1}, {"a.ply", false, 1}, {"a.stl", false, 1}, {"a.3mf", false, 125}};
    scene *s = *state;

    for (size_t i = 0; i < ESI_COUNT(files); i++) {
        static const double expect[2][3] = {{0.01 - 0.4, 0.02 - 0.4, 0.03 - 0.1}, {0.01 + 0.4, 0.02 + 0.4, 0.03 + 0.1}};
        float low[3] = {1e9f, 1e9f, 1e9f}, high[3] = {-1e9f, -1e9f, -1e9f};
        const struct aiScene *found;
        esi_surface a, b;
        char path[1024];
        unsigned faces;

        round_trip(&s->t, s->dir, files[i].name, painted, NULL, &a, &b);
        found = aiImportFile(test_path(path, s->dir, files[i].name), aiProcess_PreTransformVertices);
        if (!found) fail_msg("%s: %s", path, aiGetErrorString());
        count_scene(found, &faces, low, high);
        assert_int_equal(faces, a.mesh.n_faces);
        for (int k = 0; k < 3; k++) {
            const double x = files[i].y_up ? (k == 0 ? expect[0][0] : k == 1 ? expect[0][2] : -expect[1][1]) : expect[0][k];
            const double y = files[i].y_up ? (k == 0 ? expect[1][0] : k == 1 ? expect[1][2] : -expect[0][1]) : expect[1][k];

            /* 3MF begins at the corner of the printer's bed */
            const double at = strcmp(files[i].name, "a.3mf") == 0 ? x : 0.0;

            assert_float_equal((double)low[k], (x - at) * files[i].scale, 1e-6 * files[i].scale);
            assert_float_equal((double)high[k], (y - at) * files[i].scale, 1e-6 * files[i].scale);
        }
        if (!strcmp(files[i].name, "a.ply") || !strcmp(files[i].name, "a.obj")) assert_non_null(found->mMeshes[0]->mColors[0]);
        aiReleaseImport(found);
        release(&s->t, &a, &b);
    }
#else
    (void)state;
    printf("SKIPPED: this build has no assimp\n");
    skip();
#endif
}

/* ---------------------------------------------------------------- refusals */

static void refusals(void **state)
{
    static const char *const names[] = {"a.glb", "a.gltf", "a.obj", "a.ply", "a.stl", "a.3mf", "a.usdz"};
    scene *s = *state;
    esi_surface a;
    char path[1024];
    float kept;

    torus_make(s->t.ctx, &a, full);
    assert_int_equal(esi_surface_write(s->t.ctx, &a, test_path(path, s->dir, "a.bmp"), NULL), ESPALIER_ERR_ARG);
    assert_false(esi_surface_can_write("glb"));
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        test_path(path, s->dir, names[i]);
        kept = a.mesh.vertices[4];
        a.mesh.vertices[4] = NAN;
        esi_clear_error(s->t.ctx);
        assert_int_equal(esi_surface_write(s->t.ctx, &a, path, NULL), ESPALIER_ERR_SOUNDNESS);
        a.mesh.vertices[4] = kept;
        a.mesh.n_faces = 0;
        esi_clear_error(s->t.ctx);
        assert_int_equal(esi_surface_write(s->t.ctx, &a, path, NULL), ESPALIER_ERR_SOUNDNESS);
        a.mesh.n_faces = 2 * TORUS_U * TORUS_V;
        a.mesh.faces[7] = (int32_t)a.mesh.n_vertices;
        esi_clear_error(s->t.ctx);
        assert_int_equal(esi_surface_write(s->t.ctx, &a, path, NULL), ESPALIER_ERR_INTERNAL);
        a.mesh.faces[7] = 1;
        esi_clear_error(s->t.ctx);
        snprintf(path, sizeof path, "%s/nowhere/%s", s->dir, names[i]);
        assert_int_equal(esi_surface_write(s->t.ctx, &a, path, NULL), ESPALIER_ERR_OUTPUT);
        espalier_context_cancel(s->t.ctx);
        esi_clear_error(s->t.ctx);
        assert_int_equal(esi_surface_write(s->t.ctx, &a, test_path(path, s->dir, names[i]), NULL), ESPALIER_ERR_CANCELLED);
        atomic_store(&s->t.ctx->cancel, 0);
        assert_int_equal(test_dir_count(s->dir), 0);
    }
    esi_clear_error(s->t.ctx);
    esi_surface_free(s->t.ctx, &a);
}

/* A picture cannot be written (its name is taken by a directory): nothing else is there either. */
static void all_or_nothing(void **state)
{
    static const char *const names[][2] = {{"x.gltf", "x_1.png"}, {"x.obj", "x_0_color.png"}};
    scene *s = *state;
    esi_surface a;
    char path[1024];

    torus_make(s->t.ctx, &a, full);
    for (int i = 0; i < 2; i++) {
        char *inner = strdup(test_path(path, s->dir, names[i][1]));

        assert_int_equal(mkdir(inner, 0777), 0);
        esi_clear_error(s->t.ctx);
        assert_int_equal(esi_surface_write(s->t.ctx, &a, test_path(path, s->dir, names[i][0]), NULL), ESPALIER_ERR_OUTPUT);
        assert_int_equal(test_dir_count(s->dir), 1);
        assert_int_equal(rmdir(inner), 0);
        free(inner);
    }
    esi_clear_error(s->t.ctx);
    esi_surface_free(s->t.ctx, &a);
}

static void failing_allocations(void **state)
{
    static const char *const names[] = {"a.glb", "a.gltf", "a.obj", "a.ply", "a.stl", "a.3mf", "a.usdz"};
    (void)state;
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        test_base t;
        esi_surface a;
        char path[1024], *dir = test_dir_make();
        espalier_status st = ESPALIER_ERR_RESOURCE;
        uint64_t before;
        long n;

        test_base_open(&t, 1);
        torus_make(t.ctx, &a, full);
        before = espalier_context_memory_now(t.ctx);
        test_path(path, dir, names[i]);
        for (n = 1; st != ESPALIER_OK && n < 2000; n += n < 60 ? 1 : 7) {
            test_fail_at(&t.memory, n);
            st = esi_surface_write(t.ctx, &a, path, NULL);
            if (st != ESPALIER_OK) {
                assert_int_equal(st, ESPALIER_ERR_RESOURCE);
                assert_int_equal(test_dir_count(dir), 0);
            }
            esi_clear_error(t.ctx);
            assert_int_equal(espalier_context_memory_now(t.ctx), before);
        }
        assert_true(n > 4 && n < 2000);
        test_fail_at(&t.memory, 0);
        esi_surface_free(t.ctx, &a);
        test_base_close(&t);
        test_dir_remove(dir);
        free(dir);
    }
}

static void same_bytes_for_any_threads(void **state)
{
    static const char *const names[] = {"a.glb", "a.obj", "a.ply", "a.stl", "a.3mf", "a.usdz"};
    scene *s = *state;

    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        uint8_t *first = NULL, *bytes;
        size_t first_size = 0, size;
        char path[1024];

        for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
            test_base t;
            esi_surface a;

            test_base_open(&t, threads);
            torus_make(t.ctx, &a, full);
            assert_int_equal(esi_surface_write(t.ctx, &a, test_path(path, s->dir, names[i]), NULL), ESPALIER_OK);
            esi_surface_free(t.ctx, &a);
            test_base_close(&t);
            bytes = read_all(path, &size);
            if (!first) {
                first = bytes;
                first_size = size;
                continue;
            }
            assert_int_equal(size, first_size);
            assert_memory_equal(bytes, first, size);
            free(bytes);
        }
        free(first);
    }
}

static int write_samples(const char *dir)
{
    static const struct { const char *name; const torus_options *o; esi_texture_format format; } samples[] = {
        {"surface_plain.glb", &plain, ESI_TEXTURE_PNG}, {"surface_full.glb", &full, ESI_TEXTURE_PNG},
        {"surface_jpeg.glb", &full, ESI_TEXTURE_JPEG}, {"surface_webp.glb", &full, ESI_TEXTURE_WEBP},
        {"surface_colors.glb", &painted, ESI_TEXTURE_PNG}, {"surface_pair.glb", &pair, ESI_TEXTURE_PNG},
        {"surface_alpha.glb", &glassy, ESI_TEXTURE_PNG}, {"surface_files.gltf", &full, ESI_TEXTURE_WEBP}};
    static const char *const extras[] = {"seed", "7", "settings", "{\"faces\":300000}", NULL};
    test_base t;
    int failed = 0;

    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(samples); i++) {
        esi_export_options o = esi_export_options_default();
        esi_surface a;
        char path[1024];

        o.texture_format = samples[i].format;
        o.extras = extras;
        torus_make(t.ctx, &a, *samples[i].o);
        failed += esi_surface_write(t.ctx, &a, test_path(path, dir, samples[i].name), &o) != ESPALIER_OK;
        esi_surface_free(t.ctx, &a);
    }
    test_base_close(&t);
    return failed != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gltf_keeps_everything, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(gltf_materials_and_colors, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(gltf_texture_formats, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(gltf_extras_and_size, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(obj_round_trip, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(ply_and_stl_round_trip, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(threemf_round_trip, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(usdz_contents, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(assimp_reads_them, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(refusals, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(all_or_nothing, open_scene, close_scene),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test_setup_teardown(same_bytes_for_any_threads, open_scene, close_scene),
    };

    if (argc == 3 && strcmp(argv[1], "--samples") == 0) return write_samples(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
