/* SPDX-License-Identifier: MIT
 *
 * Voxelising, measuring, comparing and looking through the public functions: failing memory at every request, every memory budget,
 * cancelling, and the same bytes for any number of threads.
 */
#include "surface_fixture.h"

#include "pipeline/post.h"
#include "pipeline/results.h"

#include <espalier/inspect.h>
#include <math.h>

typedef struct fixture {
    test_base base;
    espalier_mesh *a, *b;
    uint64_t hash;                         /* of the latest result */
} fixture;

typedef espalier_status (*call_fn)(fixture *f);

static void open_fixture(fixture *f, int threads)
{
    memset(f, 0, sizeof *f);
    test_base_open(&f->base, threads);
    assert_int_equal(esi_mesh_object_new(f->base.ctx, &f->a), ESPALIER_OK);
    assert_int_equal(esi_mesh_object_new(f->base.ctx, &f->b), ESPALIER_OK);
    torus_make(f->base.ctx, &f->a->surface, (torus_options){.textures = true, .alpha = true, .two_materials = true});
    torus_make(f->base.ctx, &f->b->surface, (torus_options){.colors = true});
    for (int64_t i = 0; i < 3 * f->b->surface.mesh.n_vertices; i++) f->b->surface.mesh.vertices[i] *= 1.125f;
}

static void close_fixture(fixture *f)
{
    espalier_mesh_free(f->a);
    espalier_mesh_free(f->b);
    test_base_close(&f->base);
}

static void hash_bytes(fixture *f, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; p && i < size; i++) f->hash = (f->hash ^ p[i]) * 1099511628211u;
}

static espalier_status take_text(fixture *f, espalier_status st, char *json)
{
    if (st != ESPALIER_OK) {
        assert_null(json);
        return st;
    }
    hash_bytes(f, json, strlen(json));
    espalier_text_free(f->base.ctx, json);
    return st;
}

/* ------------------------------------------------------------- the calls */

static espalier_status voxelize(fixture *f, int reference)
{
    espalier_voxelize_options o = espalier_voxelize_options_default();
    espalier_asset *asset = NULL;

    o.resolution = 64;
    o.reference = reference;
    o.fit = !reference;
    espalier_status st = espalier_voxelize(f->base.ctx, &asset, f->a, &o);
    if (st != ESPALIER_OK) {
        assert_null(asset);
        return st;
    }
    const size_t n = (size_t)asset->data.n_voxels;
    assert_true(n > 0);
    assert_non_null(asset->data.attrs);
    hash_bytes(f, asset->coords, n * 16);
    hash_bytes(f, asset->local, n * 12);
    hash_bytes(f, asset->intersected, n * 3);
    hash_bytes(f, asset->attributes, n * 24);
    hash_bytes(f, asset->data.vertices, (size_t)asset->data.n_vertices * 12);
    hash_bytes(f, asset->data.faces, (size_t)asset->data.n_faces * 12);
    espalier_asset_free(asset);
    return st;
}

static espalier_status voxelize_ours(fixture *f) { return voxelize(f, 0); }
static espalier_status voxelize_reference(fixture *f) { return voxelize(f, 1); }

static espalier_status inspect(fixture *f)
{
    char *json = NULL;
    espalier_status st = espalier_mesh_inspect(f->base.ctx, f->a, 1, &json);
    return take_text(f, st, json);
}

static espalier_status compare(fixture *f)
{
    char *json = NULL;
    espalier_status st = espalier_mesh_compare(f->base.ctx, f->a, f->b, 5000, &json);
    return take_text(f, st, json);
}

static espalier_status render(fixture *f, const espalier_mesh *mesh, int backfaces)
{
    espalier_image image;
    espalier_status st = espalier_mesh_render(f->base.ctx, &image, mesh, 48, backfaces);

    if (st != ESPALIER_OK) {
        assert_null(image.pixels);
        return st;
    }
    hash_bytes(f, image.pixels, (size_t)image.width * image.height * image.channels);
    espalier_image_free(&image);
    return st;
}

static espalier_status render_textured(fixture *f) { return render(f, f->a, 0); }
static espalier_status render_colored(fixture *f) { return render(f, f->b, 1); }

static const struct { const char *name; call_fn call; } calls[] = {
    {"voxelize", voxelize_ours}, {"voxelize --reference", voxelize_reference}, {"inspect", inspect}, {"compare", compare},
    {"render textured", render_textured}, {"render coloured", render_colored},
};

/* ------------------------------------------------------------- promises */

static void threads_do_not_matter(void **state)
{
    static const int threads[] = {1, 2, 5};
    uint64_t first[ESI_COUNT(calls)];

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        for (size_t k = 0; k < ESI_COUNT(calls); k++) {
            fixture f;

            open_fixture(&f, threads[i]);
            if (calls[k].call(&f) != ESPALIER_OK) fail_msg("%s: %s", calls[k].name, espalier_error_message(f.base.ctx));
            if (i == 0) first[k] = f.hash;
            if (f.hash != first[k]) fail_msg("%s: %d threads give another result", calls[k].name, threads[i]);
            close_fixture(&f);
        }
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(calls); k++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n = 0;
        fixture f;

        open_fixture(&f, 1);
        const uint64_t before = espalier_context_memory_now(f.base.ctx);
        while (st != ESPALIER_OK) {
            test_fail_at(&f.base.memory, ++n);
            st = calls[k].call(&f);
            if (st != ESPALIER_OK && st != ESPALIER_ERR_RESOURCE) fail_msg("%s, request %ld: status %d", calls[k].name, n, (int)st);
            assert_int_equal(espalier_context_memory_now(f.base.ctx), before);
        }
        test_fail_at(&f.base.memory, 0);
        print_message("  %s: %ld requests\n", calls[k].name, n - 1);
        assert_true(n > 4);
        close_fixture(&f);
    }
}

/* From nothing to more than enough: ERR_RESOURCE or the same bytes. */
static void every_budget(void **state)
{
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(calls); k++) {
        int refused = 0, done = 0;
        fixture f;

        open_fixture(&f, 1);                         /* with more, the peak depends on what runs at the same time */
        assert_int_equal(calls[k].call(&f), ESPALIER_OK);
        const uint64_t wanted = f.hash, now = espalier_context_memory_now(f.base.ctx), peak = espalier_context_memory_peak(f.base.ctx);
        for (int step = 1; step <= 24; step++) {
            espalier_context_set_memory_budget(f.base.ctx, now + (peak - now) * (uint64_t)step / 20);
            f.hash = 0;
            const espalier_status st = calls[k].call(&f);
            refused += st == ESPALIER_ERR_RESOURCE;
            done += st == ESPALIER_OK;
            if (st == ESPALIER_OK) assert_true(f.hash == wanted);
            assert_int_equal(espalier_context_memory_now(f.base.ctx), now);
        }
        assert_int_equal(refused + done, 24);
        if (done < 4 || refused < 1)                 /* pictures are on no account: the peak itself may be too little */
            fail_msg("%s: %d done, %d refused; %llu to %llu bytes", calls[k].name, done, refused, (unsigned long long)now,
                     (unsigned long long)peak);
        close_fixture(&f);
    }
}

static void cancelled_from_the_start(void **state)
{
    (void)state;
    for (size_t k = 0; k < ESI_COUNT(calls); k++) {
        fixture f;

        open_fixture(&f, 2);
        const uint64_t before = espalier_context_memory_now(f.base.ctx);
        espalier_context_cancel(f.base.ctx);
        if (calls[k].call(&f) != ESPALIER_ERR_CANCELLED) fail_msg("%s: not cancelled", calls[k].name);
        espalier_context_reset_cancel(f.base.ctx);
        assert_int_equal(espalier_context_memory_now(f.base.ctx), before);
        assert_int_equal(calls[k].call(&f), ESPALIER_OK);
        close_fixture(&f);
    }
}

/* ------------------------------------------------------------- strange meshes */

/* Whatever the numbers are: an answer or a reason, never a crash. */
static void strange_coordinates(void **state)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e30f, 1e15f, 1e5f, 1e-30f, 1e-45f, 0.5f, 0.0f};

    (void)state;
    for (size_t v = 0; v < ESI_COUNT(values); v++) {
        for (int all = 0; all < 2; all++) {
            for (size_t k = 0; k < ESI_COUNT(calls); k++) {
                fixture f;

                open_fixture(&f, 1);
                esi_surface *s = &f.a->surface;
                for (int64_t i = all ? 0 : 31; i < (all ? 3 * s->mesh.n_vertices : 33); i++) s->mesh.vertices[i] = values[v];
                s->uvs[9] = values[v];
                if (k < 2 && all) {                                  /* nothing, or nothing inside the cube */
                    const espalier_voxelize_options o = espalier_voxelize_options_default();
                    espalier_asset *asset = NULL;
                    const espalier_status st = espalier_voxelize(f.base.ctx, &asset, f.a, &o);
                    if (st == ESPALIER_OK) espalier_asset_free(asset);
                    assert_true(st == ESPALIER_OK || st == ESPALIER_ERR_INPUT || st == ESPALIER_ERR_RESOURCE);
                } else {
                    const espalier_status st = calls[k].call(&f);
                    if (st != ESPALIER_OK && st != ESPALIER_ERR_INPUT && st != ESPALIER_ERR_RESOURCE)
                        fail_msg("%s with %g: %s", calls[k].name, (double)values[v], espalier_error_message(f.base.ctx));
                }
                close_fixture(&f);
            }
        }
    }
}

static void refusals(void **state)
{
    espalier_voxelize_options o = espalier_voxelize_options_default();
    espalier_asset *asset;
    espalier_image image;
    char *json;
    fixture f;

    (void)state;
    open_fixture(&f, 1);
    for (int32_t i = 0; i < 2; i++) {
        o.resolution = i ? 2049 : 63;
        assert_int_equal(espalier_voxelize(f.base.ctx, &asset, f.a, &o), ESPALIER_ERR_ARG);
        assert_int_equal(espalier_mesh_render(f.base.ctx, &image, f.a, i ? 4097 : 15, 0), ESPALIER_ERR_ARG);
        assert_int_equal(espalier_mesh_compare(f.base.ctx, f.a, f.b, i ? 100000001 : 999, &json), ESPALIER_ERR_ARG);
    }
    o = espalier_voxelize_options_default();
    o.struct_size--;
    assert_int_equal(espalier_voxelize(f.base.ctx, &asset, f.a, &o), ESPALIER_ERR_ARG);
    o.struct_size++;
    const int64_t faces = f.a->surface.mesh.n_faces;
    f.a->surface.mesh.n_faces = 0;
    assert_int_equal(espalier_voxelize(f.base.ctx, &asset, f.a, &o), ESPALIER_ERR_INPUT);
    assert_int_equal(espalier_mesh_compare(f.base.ctx, f.a, f.b, 1000, &json), ESPALIER_ERR_INPUT);
    f.a->surface.mesh.n_faces = faces;
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter), cmocka_unit_test(failing_allocations), cmocka_unit_test(every_budget),
        cmocka_unit_test(cancelled_from_the_start), cmocka_unit_test(strange_coordinates), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
