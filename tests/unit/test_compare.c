/* SPDX-License-Identifier: MIT
 *
 * Distances between meshes against integrals that can be done by hand.
 */
#include "support.h"

#include "damage_fixture.h"
#include "mesh/compare.h"

#define SAMPLES 100000

/* n x n quads over [0, width] x [0, 1] at height z. */
static esi_mesh sheet(espalier_context *ctx, int n, double width, double z)
{
    esi_mesh m;

    damage_grid(ctx, &m, n + 1, n + 1, false, false);
    for (int v = 0; v < (n + 1) * (n + 1); v++)
        memcpy(m.vertices + 3 * v, (float[]){(float)(width * (v / (n + 1)) / n), (float)(v % (n + 1)) / (float)n, (float)z}, 12);
    return m;
}

static esi_mesh_distance compare(espalier_context *ctx, const esi_mesh *a, const esi_mesh *b)
{
    esi_mesh_distance d;

    assert_int_equal(esi_mesh_compare(ctx, &d, a, b, SAMPLES), ESPALIER_OK);
    assert_int_equal(d.samples, SAMPLES);
    assert_true(d.hausdorff == ESI_MAX(d.max_ab, d.max_ba));
    assert_true(fabs(d.chamfer - d.mean_ab - d.mean_ba) < 1e-15);
    return d;
}

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance;
}

/* Sheets a quarter apart: every distance is a quarter, however the sheets are cut. */
static void parallel(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    esi_mesh a = sheet(t.ctx, 1, 1, 0.0), b = sheet(t.ctx, 7, 1, 0.25);
    const esi_mesh_distance d = compare(t.ctx, &a, &b);
    assert_true(near(d.mean_ab, 0.25, 1e-12) && near(d.mean_ba, 0.25, 1e-12));
    assert_true(d.max_ab == 0.25 && d.max_ba == 0.25);
    assert_true(near(d.rms_ab, 0.25, 1e-12) && near(d.rms_ba, 0.25, 1e-12));
    const esi_mesh_distance self = compare(t.ctx, &b, &b);
    assert_true(self.mean_ab < 1e-8 && self.hausdorff < 1e-7);
    esi_mesh_free(t.ctx, &a);
    esi_mesh_free(t.ctx, &b);
    test_base_close(&t);
}

/* [0, 1]^2 against its left half: from the whole, the mean of max(0, x - 1/2) is 1/8 and of its square 1/24; from the half nothing. */
static void one_sided(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int n = 1; n < 20; n += 9) {                      /* two faces, or many: points are spread evenly in both */
        esi_mesh whole = sheet(t.ctx, n, 1, 0.0), half = sheet(t.ctx, 5, 0.5, 0.0);
        const esi_mesh_distance d = compare(t.ctx, &whole, &half);

        assert_true(near(d.mean_ab, 0.125, 2e-4));
        assert_true(near(d.rms_ab, sqrt(1.0 / 24.0), 2e-4));
        assert_true(d.max_ab == 0.5 && d.max_ba < 1e-7 && d.mean_ba < 1e-8);
        esi_mesh_free(t.ctx, &whole);
        esi_mesh_free(t.ctx, &half);
    }
    test_base_close(&t);
}

/* Area counts, not the number of faces: a second sheet of 1/9 of the area, in many faces, is at height 1 above; a tenth of the points. */
static void by_area(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    esi_mesh base = sheet(t.ctx, 1, 1, 0.0), both = sheet(t.ctx, 1, 1, 0.0), patch = sheet(t.ctx, 20, 1.0 / 9.0, 1.0);
    damage_append(t.ctx, &both, &patch);
    const esi_mesh_distance d = compare(t.ctx, &both, &base);
    assert_true(near(d.mean_ab, 0.1, 1e-5));
    assert_true(d.max_ab == 1.0);
    esi_mesh_free(t.ctx, &base);
    esi_mesh_free(t.ctx, &both);
    esi_mesh_free(t.ctx, &patch);
    test_base_close(&t);
}

/* A spike that no sample hits counts by its tip; a vertex that no face names does not. */
static void vertices_count(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    esi_mesh flat = sheet(t.ctx, 4, 1, 0.0), spiked = sheet(t.ctx, 4, 1, 0.0);
    const int32_t tip = damage_vertex(t.ctx, &spiked, 0.5, 0.5, 3.0);
    damage_vertex(t.ctx, &spiked, 0, 0, 100);
    const int32_t foot = damage_vertex(t.ctx, &spiked, 0.5, 0.5, 0.0);
    damage_face(t.ctx, &spiked, tip, foot, foot);          /* no area: no sample falls on it */
    const esi_mesh_distance d = compare(t.ctx, &spiked, &flat);
    assert_true(d.max_ab == 3.0);
    assert_true(d.mean_ab < 1e-8);
    esi_mesh_free(t.ctx, &flat);
    esi_mesh_free(t.ctx, &spiked);
    test_base_close(&t);
}

/* Concentric spheres: distance 0.05 but for the flatness of the faces, s = pi^2 / 2 r / n^2 / 2 at most for rings of angle pi / n. */
static void spheres(void **state)
{
    test_base t;
    esi_mesh a, b;

    (void)state;
    test_base_open(&t, 2);
    damage_sphere(t.ctx, &a, 100, 0.40, 0, 0, 0, false);
    damage_sphere(t.ctx, &b, 100, 0.45, 0, 0, 0, false);
    const esi_mesh_distance d = compare(t.ctx, &a, &b);
    assert_true(near(d.mean_ab, 0.05, 2e-4) && near(d.mean_ba, 0.05, 2e-4) && near(d.hausdorff, 0.05, 3e-4));
    esi_mesh_free(t.ctx, &a);
    esi_mesh_free(t.ctx, &b);
    test_base_close(&t);
}

static void no_area_no_faces(void **state)
{
    test_base t;
    esi_mesh none = {0};
    esi_mesh_distance d;

    (void)state;
    test_base_open(&t, 1);
    esi_mesh flat = sheet(t.ctx, 2, 1, 0.0), line = sheet(t.ctx, 2, 0, 2.0);
    assert_int_equal(esi_mesh_compare(t.ctx, &d, &flat, &none, 10), ESPALIER_ERR_INPUT);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_mesh_compare(t.ctx, &d, &none, &flat, 10), ESPALIER_ERR_INPUT);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_mesh_compare(t.ctx, &d, &line, &flat, 1000), ESPALIER_OK);
    assert_true(near(d.mean_ab, 2.0, 1e-6) && d.max_ab == 2.0);
    esi_mesh_free(t.ctx, &flat);
    esi_mesh_free(t.ctx, &line);
    test_base_close(&t);
}

static void threads_memory_cancel(void **state)
{
    static const int counts[3] = {1, 2, 5};
    esi_mesh_distance d[3];
    test_base t;
    esi_mesh a, b;

    (void)state;
    for (int i = 0; i < 3; i++) {
        test_base_open(&t, counts[i]);
        damage_torus(t.ctx, &a, 30, 0.3, 0.1);
        damage_sphere(t.ctx, &b, 30, 0.4, 0, 0, 0, false);
        assert_int_equal(esi_mesh_compare(t.ctx, &d[i], &a, &b, 200000), ESPALIER_OK);
        assert_memory_equal(&d[i], &d[0], sizeof d[0]);
        if (i == 2) {
            espalier_status st = ESPALIER_ERR_RESOURCE;
            long n = 0;

            while (st != ESPALIER_OK && n < 200) {
                test_fail_at(&t.memory, ++n);
                st = esi_mesh_compare(t.ctx, &d[0], &a, &b, 1000);
                test_fail_at(&t.memory, 0);
                if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
                esi_clear_error(t.ctx);
            }
            assert_true(st == ESPALIER_OK && n > 8);
            espalier_context_cancel(t.ctx);
            assert_int_equal(esi_mesh_compare(t.ctx, &d[0], &a, &b, 1000), ESPALIER_ERR_CANCELLED);
        }
        esi_mesh_free(t.ctx, &a);
        esi_mesh_free(t.ctx, &b);
        test_base_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parallel), cmocka_unit_test(one_sided), cmocka_unit_test(by_area), cmocka_unit_test(vertices_count),
        cmocka_unit_test(spheres), cmocka_unit_test(no_area_no_faces), cmocka_unit_test(threads_memory_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
