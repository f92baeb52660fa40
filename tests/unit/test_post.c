/* SPDX-License-Identifier: MIT
 *
 * Finishing raw assets of analytic shapes: what is closed stays or becomes closed, topology is that of the shape, volumes are those of
 * geometry, colours are those of the voxels.
 */
#include "support.h"

#include "pipeline/post.h"
#include "pipeline/report.h"
#include "pipeline/results.h"
#include "tools/shape_dump.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

typedef struct fixture {
    test_base base;
    shape_dump dump;
    espalier_asset *asset;
    espalier_report *report;
    espalier_mesh *mesh;
    espalier_post_options options;
} fixture;

static void open_shape(fixture *f, int threads, const shape_options *shape)
{
    memset(f, 0, sizeof *f);
    test_base_open(&f->base, threads);
    assert_int_equal(shape_dump_create(f->base.ctx, &f->dump, shape), ESPALIER_OK);
    assert_int_equal(esi_asset_new(f->base.ctx, &f->asset), ESPALIER_OK);
    f->asset->data = f->dump.asset;
    f->options = espalier_post_options_default();
    assert_int_equal(espalier_report_create(f->base.ctx, &f->report), ESPALIER_OK);
    f->options.report = f->report;
}

static espalier_status run(fixture *f)
{
    espalier_mesh_free(f->mesh);
    f->mesh = NULL;
    return espalier_post(f->base.ctx, &f->mesh, f->asset, &f->options);
}

static void must_run(fixture *f)
{
    if (run(f) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->base.ctx));
}

static void close_shape(fixture *f)
{
    espalier_mesh_free(f->mesh);
    espalier_report_free(f->report);
    espalier_asset_free(f->asset);
    shape_dump_free(f->base.ctx, &f->dump);
    test_base_close(&f->base);
}

static const esi_mesh_metrics *metrics(const fixture *f, esi_post_step step)
{
    assert_true(f->report->post.step[step].has_metrics);
    return &f->report->post.step[step].metrics;
}

/* Closed, outward, of this many parts and handles, through every step after the remeshing. */
static void assert_sound(const fixture *f, int64_t parts, double genus)
{
    const esi_post_step steps[] = {ESI_POST_REMESHED, ESI_POST_SIMPLIFIED, ESI_POST_BAKED};

    for (size_t i = 0; i < ESI_COUNT(steps); i++) {
        if (!f->report->post.step[steps[i]].has_metrics) continue;
        const esi_mesh_metrics *m = metrics(f, steps[i]);
        assert_int_equal(m->odd_edges, 0);
        assert_int_equal(m->nonmanifold_edges, 0);
        assert_int_equal(m->winding_conflicts, 0);
        assert_int_equal(m->face_components, parts);
        assert_int_equal(m->negative_components, 0);
        assert_true(m->genus == genus);
        assert_int_equal(m->zero_area_faces, 0);
    }
    assert_int_equal(f->report->post.remesh.flipped_after, 0);
    assert_int_equal(f->report->post.degenerate_left, 0);
}

static void closed_shapes(void **state)
{
    const struct {
        shape_kind kind;
        int64_t parts;
        double genus, volume;
    } cases[] = {
        {SHAPE_SPHERE, 1, 0, 4.0 / 3.0 * pi * 0.35 * 0.35 * 0.35},
        {SHAPE_TORUS, 1, 1, 2 * pi * pi * 0.3 * 0.1 * 0.1},
        {SHAPE_CUBE, 1, 0, 0.125},
    };
    (void)state;
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        fixture f;
        open_shape(&f, 2, &(shape_options){.kind = cases[i].kind, .resolution = 64, .alpha = 1});
        f.options.faces = 3000;
        must_run(&f);
        assert_sound(&f, cases[i].parts, cases[i].genus);
        const espalier_mesh_view v = espalier_mesh_get(f.mesh);
        assert_true(v.face_count <= 3000 && v.face_count >= 2999);
        /* Half a voxel is 2 % of these radii; a surface back on the original is much nearer than the band of one voxel. */
        const double volume = metrics(&f, ESI_POST_SIMPLIFIED)->volume;
        if (fabs(volume - cases[i].volume) > 0.02 * cases[i].volume) fail_msg("%s: volume %g", shape_name(cases[i].kind), volume);
        close_shape(&f);
    }
}

/* A hollow sphere with a ball in it: the wall of the cavity and the ball cannot be seen from outside. */
static void solid_is_one_skin(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_NESTED, .resolution = 64, .alpha = 1});
    f.options.solid = 1;
    f.options.faces = 4000;
    must_run(&f);
    assert_sound(&f, 1, 0);
    assert_true(fabs(metrics(&f, ESI_POST_SIMPLIFIED)->volume - 4.0 / 3.0 * pi * 0.064) < 0.02 * 4.0 / 3.0 * pi * 0.064);
    close_shape(&f);
}

/* The reference keeps both sides of the band: Euler characteristic 4 for a sphere, twice the faces. */
static void reference_keeps_both_shells(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 64, .alpha = 1});
    f.options.mode = ESPALIER_POST_REFERENCE;
    f.options.faces = 100000;
    f.options.texture_size = 256;
    must_run(&f);
    const esi_mesh_metrics *m = metrics(&f, ESI_POST_REMESHED);
    assert_int_equal(m->odd_edges, 0);
    assert_int_equal(m->face_components, 2);
    assert_int_equal(m->euler, 4);
    assert_int_equal(m->negative_components, 1);
    assert_int_equal(m->winding_conflicts, 0);
    close_shape(&f);
}

/* ------------------------------------------------------------- repair */

/* Wrong decisions within the margin: every one that leaves a trace is found. */
static void uncertain_flags_are_mended(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 64, .uncertain = 0.05, .alpha = 1});
    must_run(&f);
    assert_true(metrics(&f, ESI_POST_RAW)->odd_edges > 500);
    assert_int_equal(metrics(&f, ESI_POST_REPAIRED)->odd_edges, 0);
    assert_true(f.report->post.repair.flips > 100);
    assert_sound(&f, 1, 0);

    f.options.margin = 0;                                        /* without the repair the raw defects are still there */
    must_run(&f);
    assert_false(f.report->post.repaired);
    assert_true(metrics(&f, ESI_POST_CLEANED)->odd_edges > 0 || f.report->post.fill.filled > 0);
    close_shape(&f);
}

static void missing_voxels_come_back(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 64, .missing = 0.01, .alpha = 1});
    must_run(&f);
    const int64_t raw = metrics(&f, ESI_POST_RAW)->odd_edges, repaired = metrics(&f, ESI_POST_REPAIRED)->odd_edges;
    print_message("missing voxels: %lld -> %lld odd edges\n", (long long)raw, (long long)repaired);
    assert_true(raw > 400);
    assert_true(repaired * 10 < raw);
    assert_true(f.report->post.restored_voxels > 60);
    assert_sound(&f, 1, 0);
    close_shape(&f);
}

/* ------------------------------------------------------------- textures */

static void assert_texture_size(const fixture *f, uint32_t size)
{
    const esi_surface *s = &f->mesh->surface;
    assert_true(s->n_textures >= 2);
    for (int32_t i = 0; i < s->n_textures; i++) {
        assert_int_equal(s->textures[i].width, size);
        assert_int_equal(s->textures[i].height, size);
    }
}

static void a_constant_volume_bakes_constant(void **state)
{
    /* 0.75 0.375 0.25 opaque; no occlusion, roughness 0.625, metallic 0; to the nearest byte */
    static const uint8_t wanted[2][4] = {{191, 96, 64, 255}, {255, 159, 0, 0}};
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_TORUS, .resolution = 64, .constant = true, .alpha = 1});
    f.options.texture_size = 200;
    must_run(&f);
    assert_texture_size(&f, 200);
    for (int32_t i = 0; i < 2; i++) {
        const esi_texture *t = &f.mesh->surface.textures[i];
        for (size_t p = 0; p < (size_t)t->width * t->height; p++)
            for (uint32_t c = 0; c < t->channels; c++)
                if (t->pixels[p * t->channels + c] != wanted[i][c])
                    fail_msg("texture %d, texel %zu, channel %u: %d", (int)i, p, c, t->pixels[p * t->channels + c]);
    }
    assert_int_equal(f.mesh->surface.materials[0].alpha_mode, ESI_ALPHA_OPAQUE);
    close_shape(&f);
}

/* Where does a texel of the atlas lie? Its first covering face's middle tells which plate it belongs to. */
static void plates_keep_their_colors(void **state)
{
    fixture f;
    int64_t seen[2] = {0, 0};
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_PLATES, .resolution = 64, .alpha = 1});
    f.options.texture_size = 512;
    must_run(&f);
    const esi_surface *s = &f.mesh->surface;
    const esi_texture *t = &s->textures[0];
    for (int64_t i = 0; i < s->mesh.n_faces; i++) {
        double z = 0, u = 0, v = 0;
        for (int k = 0; k < 3; k++) {
            const size_t at = (size_t)s->mesh.faces[3 * i + k];
            z += (double)s->mesh.vertices[3 * at + 2] / 3;
            u += (double)s->uvs[2 * at] / 3;
            v += (double)s->uvs[2 * at + 1] / 3;
        }
        const uint8_t *p = t->pixels + t->channels * ((size_t)(v * t->height) * t->width + (size_t)(u * t->width));
        const uint8_t red = z > 0 ? 255 : 0, blue = z > 0 ? 0 : 255;
        seen[z > 0]++;
        if (p[0] != red || p[1] != 0 || p[2] != blue) fail_msg("face %lld at z %g is %d %d %d", (long long)i, z, p[0], p[1], p[2]);
    }
    assert_true(seen[0] > 20 && seen[1] > 20);
    close_shape(&f);
}

static void alpha_by_coherent_share(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 64, .constant = true, .alpha = 0.3f});
    f.options.texture_size = 256;
    must_run(&f);
    assert_int_equal(f.mesh->surface.materials[0].alpha_mode, ESI_ALPHA_BLEND);
    f.options.alpha = ESPALIER_ALPHA_OPAQUE;
    must_run(&f);
    assert_int_equal(f.mesh->surface.materials[0].alpha_mode, ESI_ALPHA_OPAQUE);
    f.options.alpha = ESPALIER_ALPHA_MASK;
    must_run(&f);
    assert_int_equal(f.mesh->surface.materials[0].alpha_mode, ESI_ALPHA_MASK);
    close_shape(&f);
}

static void geometry_alone(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 32, .alpha = 1});
    f.options.texture_size = 0;
    must_run(&f);
    const espalier_mesh_view v = espalier_mesh_get(f.mesh);
    assert_null(v.uvs);
    assert_non_null(v.normals);
    assert_int_equal(v.texture_count, 0);
    f.asset->data.attrs = NULL;
    f.options.texture_size = -1;
    must_run(&f);
    assert_int_equal(espalier_mesh_get(f.mesh).texture_count, 0);
    close_shape(&f);
}

static void raw_mesh_with_colors(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 32, .constant = true, .alpha = 1});
    f.options.mode = ESPALIER_POST_NONE;
    must_run(&f);
    const espalier_mesh_view v = espalier_mesh_get(f.mesh);
    assert_int_equal(v.face_count, f.dump.asset.n_faces);
    for (int64_t i = 0; i < v.vertex_count; i++) {
        assert_int_equal(v.colors[4 * i], 191);
        assert_int_equal(v.colors[4 * i + 1], 96);
        assert_int_equal(v.colors[4 * i + 2], 64);
        assert_int_equal(v.colors[4 * i + 3], 255);
    }
    assert_true(fabsf(f.mesh->surface.materials[0].roughness - 0.625f) < 1e-6f);
    close_shape(&f);
}

/* ------------------------------------------------------------- promises */

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static uint64_t hash_mesh(const espalier_mesh *m)
{
    const esi_surface *s = &m->surface;
    uint64_t h = 14695981039346656037u;

    h = hash_bytes(h, s->mesh.vertices, (size_t)s->mesh.n_vertices * 12);
    h = hash_bytes(h, s->mesh.faces, (size_t)s->mesh.n_faces * 12);
    h = hash_bytes(h, s->normals, (size_t)s->mesh.n_vertices * 12);
    if (s->uvs) h = hash_bytes(h, s->uvs, (size_t)s->mesh.n_vertices * 8);
    for (int32_t i = 0; i < s->n_textures; i++)
        h = hash_bytes(h, s->textures[i].pixels, (size_t)s->textures[i].width * s->textures[i].height * s->textures[i].channels);
    return h;
}

static void threads_do_not_matter(void **state)
{
    static const int threads[] = {1, 2, 5};
    uint64_t first[2] = {0, 0};
    (void)state;
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        fixture f;
        open_shape(&f, threads[i], &(shape_options){.kind = SHAPE_BUMPY, .resolution = 64, .uncertain = 0.03, .missing = 0.01, .alpha = 1});
        f.options.faces = 4000;
        f.options.texture_size = 256;
        f.options.normal_map = 1;
        f.options.occlusion_rays = 8;
        for (int mode = 0; mode < 2; mode++) {
            f.options.mode = (espalier_post_mode)mode;
            must_run(&f);
            if (i == 0) first[mode] = hash_mesh(f.mesh);
            assert_true(hash_mesh(f.mesh) == first[mode]);
        }
        close_shape(&f);
    }
}

/* 5000 -> 1000 -> 5000 faces from one asset: the third result is the first. */
static void the_asset_is_never_changed(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_TORUS, .resolution = 64, .uncertain = 0.02, .alpha = 1});
    const uint64_t before = hash_bytes(1, f.dump.vertices, (size_t)f.dump.asset.n_vertices * 12);
    f.options.texture_size = 128;
    f.options.faces = 5000;
    must_run(&f);
    const uint64_t first = hash_mesh(f.mesh);
    f.options.faces = 1000;
    must_run(&f);
    assert_true(espalier_mesh_get(f.mesh).face_count <= 1000);
    f.options.faces = 5000;
    must_run(&f);
    assert_true(hash_mesh(f.mesh) == first);
    assert_true(hash_bytes(1, f.dump.vertices, (size_t)f.dump.asset.n_vertices * 12) == before);
    close_shape(&f);
}

static void other_paths_stay_sound(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 32, .uncertain = 0.02, .alpha = 1});
    f.options.no_remesh = 1;
    f.options.faces = 1000;
    f.options.texture_size = 128;
    for (int mode = 0; mode < 2; mode++) {
        f.options.mode = (espalier_post_mode)mode;
        must_run(&f);
        const esi_mesh_metrics *m = metrics(&f, ESI_POST_SIMPLIFIED);
        assert_int_equal(m->winding_conflicts, 0);
        assert_true(m->faces > 0);
        if (mode == 0) assert_int_equal(m->odd_edges, 0);
    }
    f.options.mode = ESPALIER_POST_CLEAN;
    f.options.box_uv = 1;
    f.options.telea = 1;
    must_run(&f);
    assert_int_equal(f.report->post.uv.flipped_faces, 0);
    assert_int_equal(f.report->post.uv.overlapping_texels, 0);
    close_shape(&f);
}

/* ------------------------------------------------------------- refusals */

static void refuses(void **state)
{
    fixture f;
    int32_t saved;
    (void)state;
    open_shape(&f, 1, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 16, .alpha = 1});
    const espalier_post_options good = f.options;
    struct {
        size_t offset;
        double value;
        bool is_double;
    } bad[] = {
        {offsetof(espalier_post_options, faces), 0, false},       {offsetof(espalier_post_options, faces), 99, false},
        {offsetof(espalier_post_options, margin), 0.02, true},    {offsetof(espalier_post_options, margin), NAN, true},
        {offsetof(espalier_post_options, band), 0.4, true},       {offsetof(espalier_post_options, band), INFINITY, true},
        {offsetof(espalier_post_options, project), 1.5, true},    {offsetof(espalier_post_options, remove_floaters), 2, true},
        {offsetof(espalier_post_options, padding), 65, true},     {offsetof(espalier_post_options, fill_perimeter), 1e9, true},
    };
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        f.options = good;
        char *field = (char *)&f.options + bad[i].offset;
        if (bad[i].is_double)
            memcpy(field, &bad[i].value, sizeof(double));
        else
            memcpy(field, &(int64_t){(int64_t)bad[i].value}, sizeof(int64_t));
        assert_int_equal(run(&f), ESPALIER_ERR_ARG);
        assert_non_null(strstr(espalier_error_message(f.base.ctx), "post option"));
    }
    f.options = good;
    f.options.remesh_resolution = 63;
    assert_int_equal(run(&f), ESPALIER_ERR_ARG);
    f.options = good;
    f.options.texture_size = 15;
    assert_int_equal(run(&f), ESPALIER_ERR_ARG);
    f.options = good;
    f.options.no_remesh = f.options.solid = 1;
    assert_int_equal(run(&f), ESPALIER_ERR_ARG);

    f.options = good;                                            /* a voxel that occurs twice */
    saved = f.dump.coords[5];
    memcpy(f.dump.coords + 4, f.dump.coords, 16);
    assert_int_equal(run(&f), ESPALIER_ERR_INPUT);
    f.options.margin = 0;
    assert_int_equal(run(&f), ESPALIER_ERR_INPUT);
    f.dump.coords[5] = saved;
    f.asset->data.n_faces = 0;
    assert_int_equal(run(&f), ESPALIER_ERR_SOUNDNESS);
    close_shape(&f);
}

/* Of an asset without voxels nobody has looked at the resolution before; and finite numbers may be too large to be squared. */
static void numbers_beyond_all_use(void **state)
{
    static const int64_t resolutions[] = {INT64_MIN, -1, 0, 131073, INT32_MAX, INT64_MAX};
    static const float places[] = {1.1e5f, -3e38f, 3e38f};
    fixture f;
    (void)state;
    open_shape(&f, 1, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 16, .alpha = 1});
    for (int k = 0; k < 3; k++) f.dump.local[300 + k] = 3e38f;    /* from which the repair makes vertices */
    assert_int_equal(run(&f), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(f.base.ctx), "reaches out"));
    f.asset->data.coords = NULL;
    f.asset->data.local = f.asset->data.attrs = f.asset->data.intersect_logits = f.asset->data.split_weight = NULL;
    f.asset->data.n_voxels = 0;
    for (int mode = 0; mode < 3; mode++) {
        f.options.mode = (espalier_post_mode)mode;
        for (size_t i = 0; i < ESI_COUNT(resolutions); i++) {
            f.asset->data.resolution = resolutions[i];
            assert_int_equal(run(&f), ESPALIER_ERR_INPUT);
            assert_non_null(strstr(espalier_error_message(f.base.ctx), "resolution"));
        }
        f.asset->data.resolution = 16;
        for (size_t i = 0; i < ESI_COUNT(places); i++) {
            const float kept = f.dump.vertices[7];
            f.dump.vertices[7] = places[i];
            assert_int_equal(run(&f), ESPALIER_ERR_INPUT);
            assert_non_null(strstr(espalier_error_message(f.base.ctx), "reaches out"));
            f.dump.vertices[7] = kept;
        }
        must_run(&f);
    }
    close_shape(&f);
}

static void every_vertex_is_nan(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 1, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 16, .alpha = 1});
    for (int64_t i = 0; i < 3 * f.dump.asset.n_vertices; i++) f.dump.vertices[i] = NAN;
    f.options.margin = 0;
    assert_int_equal(run(&f), ESPALIER_ERR_SOUNDNESS);
    close_shape(&f);
}

static int cancel_at(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)total;
    return done >= *(uint64_t *)user;
}

static void cancels_between_steps(void **state)
{
    fixture f;
    (void)state;
    open_shape(&f, 2, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 32, .alpha = 1});
    for (uint64_t percent = 0; percent <= 100; percent += 4) {
        espalier_context_set_progress(f.base.ctx, cancel_at, &percent);
        assert_int_equal(run(&f), ESPALIER_ERR_CANCELLED);
        espalier_context_reset_cancel(f.base.ctx);
    }
    close_shape(&f);
}

static void failing_allocations(void **state)
{
    fixture f;
    long n = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    (void)state;
    open_shape(&f, 1, &(shape_options){.kind = SHAPE_SPHERE, .resolution = 16, .uncertain = 0.05, .missing = 0.02, .alpha = 1});
    f.options.texture_size = 64;
    f.options.faces = 500;
    f.options.normal_map = 1;
    while (st != ESPALIER_OK) {
        test_fail_at(&f.base.memory, ++n);
        st = run(&f);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
    }
    assert_true(n > 100);
    test_fail_at(&f.base.memory, 0);
    close_shape(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_shapes),
        cmocka_unit_test(solid_is_one_skin),
        cmocka_unit_test(reference_keeps_both_shells),
        cmocka_unit_test(uncertain_flags_are_mended),
        cmocka_unit_test(missing_voxels_come_back),
        cmocka_unit_test(a_constant_volume_bakes_constant),
        cmocka_unit_test(plates_keep_their_colors),
        cmocka_unit_test(alpha_by_coherent_share),
        cmocka_unit_test(geometry_alone),
        cmocka_unit_test(raw_mesh_with_colors),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(the_asset_is_never_changed),
        cmocka_unit_test(other_paths_stay_sound),
        cmocka_unit_test(refuses),
        cmocka_unit_test(numbers_beyond_all_use),
        cmocka_unit_test(every_vertex_is_nan),
        cmocka_unit_test(cancels_between_steps),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
