/* SPDX-License-Identifier: MIT
 *
 * 200 damaged meshes as assets without voxels through both ways of finishing. Remeshing gives closed surfaces whatever comes in, and they
 * stay closed and wound the same way through simplification and unwrapping; without remeshing, cleaning opens nothing.
 */
#include "damage_fixture.h"
#include "mesh_checks.h"

#include "mesh/clean.h"
#include "mesh/unwrap.h"
#include "pipeline/post.h"
#include "pipeline/report.h"
#include "pipeline/results.h"

#define MESHES 200

typedef struct fixture {
    test_base base;
    espalier_report *report;
    espalier_post_options options;
    esi_mesh damaged;
    espalier_mesh *mesh;
} fixture;

static void open_fixture(fixture *f)
{
    memset(f, 0, sizeof *f);
    test_base_open(&f->base, 2);
    assert_int_equal(espalier_report_create(f->base.ctx, &f->report), ESPALIER_OK);
    f->options = espalier_post_options_default();
    f->options.report = f->report;
    f->options.remesh_resolution = 32;
    f->options.faces = 600;
}

static void close_fixture(fixture *f)
{
    espalier_report_free(f->report);
    test_base_close(&f->base);
}

static void finish(fixture *f, int number)
{
    espalier_asset *asset;

    assert_int_equal(esi_asset_new(f->base.ctx, &asset), ESPALIER_OK);
    damage_make(f->base.ctx, &f->damaged, number, DAMAGE_ALL);
    asset->data.resolution = 32;
    asset->data.vertices = f->damaged.vertices;
    asset->data.faces = f->damaged.faces;
    asset->data.n_vertices = f->damaged.n_vertices;
    asset->data.n_faces = f->damaged.n_faces;
    if (espalier_post(f->base.ctx, &f->mesh, asset, &f->options) != ESPALIER_OK)
        fail_msg("mesh %d, mode %d: %s", number, (int)f->options.mode, espalier_error_message(f->base.ctx));
    espalier_asset_free(asset);
}

static void drop(fixture *f)
{
    espalier_mesh_free(f->mesh);
    f->mesh = NULL;
    esi_mesh_free(f->base.ctx, &f->damaged);
}

static const esi_mesh_metrics *metrics(const fixture *f, esi_post_step step)
{
    assert_true(f->report->post.step[step].has_metrics);
    return &f->report->post.step[step].metrics;
}

/* Counted by sorting, not by the library. */
static check_counts count_by_place(fixture *f, const esi_mesh *m)
{
    esi_mesh copy = check_copy(f->base.ctx, m);
    check_counts counts;

    assert_int_equal(esi_mesh_weld(f->base.ctx, &copy, NULL, NULL), ESPALIER_OK);
    counts = check_count_edges(&copy);
    esi_mesh_free(f->base.ctx, &copy);
    return counts;
}

/* With vertices doubled along seams; welding must bring back what was unwrapped. */
static void unwrap_stays_closed(fixture *f, const esi_mesh *m, int number)
{
    const esi_unwrap_options options = esi_unwrap_options_default(256);
    esi_unwrapped u = {0};
    esi_mesh split;
    check_counts counts;

    assert_int_equal(esi_mesh_unwrap(f->base.ctx, &u, m, &options), ESPALIER_OK);
    assert_int_equal(esi_mesh_new(f->base.ctx, &split, u.n_vertices, m->n_faces), ESPALIER_OK);
    memcpy(split.faces, u.faces, (size_t)m->n_faces * 12);
    for (int64_t v = 0; v < u.n_vertices; v++) memcpy(split.vertices + 3 * v, m->vertices + 3 * (int64_t)u.source[v], 12);
    counts = count_by_place(f, &split);
    if (counts.odd != 0 || counts.conflicts != 0) fail_msg("mesh %d: %lld odd edges after unwrapping", number, (long long)counts.odd);
    esi_unwrapped_free(f->base.ctx, &u);
    esi_mesh_free(f->base.ctx, &split);
}

static void remeshing_closes(void **state)
{
    int64_t raw_odd = 0, faces = 0;
    fixture f;

    (void)state;
    open_fixture(&f);
    for (int mode = 0; mode < 2; mode++) {
        f.options.mode = (espalier_post_mode)mode;
        f.options.remesh_resolution = mode == 0 ? 32 : 16;           /* the reference's simplification is slow */
        for (int i = 0; i < MESHES; i++) {
            const esi_post_step steps[] = {ESI_POST_REMESHED, ESI_POST_SIMPLIFIED};
            check_counts counts;

            finish(&f, i);
            raw_odd += metrics(&f, ESI_POST_RAW)->odd_edges;
            assert_true(metrics(&f, ESI_POST_CLEANED)->odd_edges <= metrics(&f, ESI_POST_RAW)->odd_edges);
            for (size_t k = 0; k < ESI_COUNT(steps); k++) {
                const esi_mesh_metrics *m = metrics(&f, steps[k]);

                if (m->odd_edges == 0 && m->winding_conflicts == 0) continue;
                fail_msg("mesh %d, mode %d, step %zu: %lld odd edges, %lld conflicts", i, mode, k, (long long)m->odd_edges,
                         (long long)m->winding_conflicts);
            }
            counts = count_by_place(&f, &f.mesh->surface.mesh);
            assert_int_equal(counts.odd, 0);
            assert_int_equal(counts.conflicts, 0);
            if (mode == 0) assert_int_equal(counts.nonmanifold, 0);
            assert_true(f.mesh->surface.mesh.n_faces <= 600 || mode == 1);
            if (i % 4 == 0) unwrap_stays_closed(&f, &f.mesh->surface.mesh, i);
            faces += f.mesh->surface.mesh.n_faces;
            drop(&f);
        }
    }
    print_message("  %lld odd edges in, %lld faces out\n", (long long)raw_odd, (long long)faces);
    assert_true(raw_odd > 5000 && faces > 50000);
    close_fixture(&f);
}

/* The raw mesh's own triangles: rims may stay, and only the deletion of small parts, which may hang on others' edges, makes new ones. */
static void nothing_opens_without_remeshing(void **state)
{
    int64_t closed = 0, open = 0, deletions = 0;
    fixture f;

    (void)state;
    open_fixture(&f);
    f.options.no_remesh = 1;
    f.options.faces = 200;
    for (int i = 0; i < MESHES; i++) {
        int64_t odd, deleted;

        finish(&f, i);
        odd = count_by_place(&f, &f.mesh->surface.mesh).odd;
        deleted = f.report->post.small_faces;
        deletions += deleted > 0;
        if (odd > metrics(&f, ESI_POST_CLEANED)->odd_edges + 3 * deleted)
            fail_msg("mesh %d: %lld odd edges after %lld", i, (long long)odd, (long long)metrics(&f, ESI_POST_CLEANED)->odd_edges);
        assert_true(metrics(&f, ESI_POST_CLEANED)->odd_edges <= metrics(&f, ESI_POST_RAW)->odd_edges);
        assert_int_equal(check_count_edges(&f.mesh->surface.mesh).conflicts, 0);
        closed += odd == 0;
        open += odd != 0;
        drop(&f);
    }
    print_message("  %lld closed, %lld open; small parts deleted in %lld\n", (long long)closed, (long long)open, (long long)deletions);
    assert_true(closed > 20 && open > 20 && deletions < MESHES / 4);
    close_fixture(&f);
}

/* Three vertices per face, as .stl has them: nothing to fill, nothing to open. */
static void faces_with_corners_of_their_own(void **state)
{
    espalier_asset *asset;
    esi_mesh whole, apart;
    fixture f;

    (void)state;
    open_fixture(&f);
    f.options.no_remesh = 1;
    f.options.faces = 100000;
    damage_shape(f.base.ctx, &whole, DAMAGE_TORUS, 20);
    assert_int_equal(esi_mesh_new(f.base.ctx, &apart, 3 * whole.n_faces, whole.n_faces), ESPALIER_OK);
    for (int32_t i = 0; i < 3 * whole.n_faces; i++) {
        memcpy(apart.vertices + 3 * (int64_t)i, whole.vertices + 3 * (int64_t)whole.faces[i], 12);
        apart.faces[i] = i;
    }
    assert_int_equal(esi_asset_new(f.base.ctx, &asset), ESPALIER_OK);
    asset->data = (esi_asset){.resolution = 32, .vertices = apart.vertices, .faces = apart.faces, .n_vertices = apart.n_vertices,
                              .n_faces = apart.n_faces};
    assert_int_equal(espalier_post(f.base.ctx, &f.mesh, asset, &f.options), ESPALIER_OK);
    assert_int_equal(f.mesh->surface.mesh.n_faces, whole.n_faces);
    assert_int_equal(f.mesh->surface.mesh.n_vertices, whole.n_vertices);
    assert_int_equal(check_count_edges(&f.mesh->surface.mesh).odd, 0);
    espalier_mesh_free(f.mesh);
    espalier_asset_free(asset);
    esi_mesh_free(f.base.ctx, &whole);
    esi_mesh_free(f.base.ctx, &apart);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remeshing_closes),
        cmocka_unit_test(nothing_opens_without_remeshing),
        cmocka_unit_test(faces_with_corners_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
