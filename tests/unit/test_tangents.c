/* SPDX-License-Identifier: MIT
 *
 * Tangents against values by hand, against properties that MikkTSpace promises, and against numbers of an independent implementation of
 * the same paper.
 */
#include "support.h"

#include "mesh/bake.h"

#include <math.h>

static void assert_tangent(const float *t, double x, double y, double z, float w)
{
    if (fabs((double)t[0] - x) > 1e-6 || fabs((double)t[1] - y) > 1e-6 || fabs((double)t[2] - z) > 1e-6 || t[3] != w) {
        fail_msg("(%.8f %.8f %.8f, %g), not (%.8f %.8f %.8f, %g)", (double)t[0], (double)t[1], (double)t[2], (double)t[3], x, y, z,
                 (double)w);
    }
}

/* A square in the plane z = 0; u along x. In a picture (v downwards) it is seen upright when v falls with y: right-handed, w = 1. */
static void square(void **state)
{
    float positions[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0}, normals[] = {0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1};
    float uvs[4][8] = {{0, 1, 1, 1, 1, 0, 0, 0}, {0, 0, 1, 0, 1, 1, 0, 1}, {1, 1, 0, 1, 0, 0, 1, 0}, {0, 0, 0, 2, 1, 2, 1, 0}};
    static const double wanted[4][4] = {{1, 0, 0, 1}, {1, 0, 0, -1}, {-1, 0, 0, -1}, {0, 1, 0, 1}};
    int32_t faces[] = {0, 1, 2, 0, 2, 3};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 4; i++) {
        const esi_surface s = {.mesh = {positions, faces, 4, 2}, .normals = normals, .uvs = uvs[i]};
        float *out;

        assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_OK);
        for (int v = 0; v < 4; v++) assert_tangent(out + 4 * v, wanted[i][0], wanted[i][1], wanted[i][2], (float)wanted[i][3]);
        esi_free(t.ctx, out);
    }
    test_base_close(&t);
}

/* Two triangles with angles of 45 and 90 degrees at vertex 0. */
static void angle_weights(void **state)
{
    float positions[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, -1, 1, 0}, normals[] = {0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1};
    /* -v is "up": in the first face u = x and up = y. */
    float uvs[] = {0, 0, 1, 0, 1, -1, 1, 1};
    int32_t faces[] = {0, 1, 2, 0, 2, 3};
    const esi_surface s = {.mesh = {positions, faces, 4, 2}, .normals = normals, .uvs = uvs};
    const double first[2] = {1.0, 0.0}, angle[2] = {atan(1.0), 2.0 * atan(1.0)};
    double second[2], sum[2], length;
    float *out;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_OK);
    /* Second face: (1, 1) has (u, up) = (1, 1), (-1, 1) has (1, -1): u grows along (0, 1), up along (1, 0): left-handed, so each hand is
     * on its own: the second has more angle at vertex 0. */
    second[0] = 0.0;
    second[1] = 1.0;
    assert_tangent(out, second[0], second[1], 0.0, -1.0f);
    assert_tangent(out + 4, first[0], first[1], 0.0, 1.0f);
    assert_tangent(out + 12, 0.0, 1.0, 0.0, -1.0f);
    esi_free(t.ctx, out);

    /* With vertex 3 at (u, up) = (-1, 1) + a bend: both right-handed, u of the second along (1/2, 1/2) direction rotated. */
    uvs[6] = 0.0f;
    uvs[7] = -2.0f;                            /* (-1, 1) has (u, up) = (0, 2): u = (x + y) / 2 * 1 ..., gradient direction below */
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_OK);
    /* dP/du with up fixed: P = a (1, 1) + b (-1, 1), (u, up) = (a, a + 2b): du = 1, dup = 0 -> a = 1, b = -1/2: P = (1.5, 0.5). */
    length = sqrt(1.5 * 1.5 + 0.5 * 0.5);
    second[0] = 1.5 / length;
    second[1] = 0.5 / length;
    for (int k = 0; k < 2; k++) sum[k] = angle[0] * first[k] + angle[1] * second[k];
    length = sqrt(sum[0] * sum[0] + sum[1] * sum[1]);
    assert_tangent(out, sum[0] / length, sum[1] / length, 0.0, 1.0f);
    esi_free(t.ctx, out);
    test_base_close(&t);
}

/* Tangents are perpendicular to the vertex normal even where faces are not. */
static void flattened(void **state)
{
    float positions[] = {0, 0, 0, 1, 0, 0, 0, 1, 0}, normals[9], uvs[] = {0, 0, 1, 0, 0, -1};
    int32_t faces[] = {0, 1, 2};
    const esi_surface s = {.mesh = {positions, faces, 3, 1}, .normals = normals, .uvs = uvs};
    float *out;
    test_base t;

    (void)state;
    for (int v = 0; v < 3; v++) {
        normals[3 * v] = 0.6f;
        normals[3 * v + 1] = 0.0f;
        normals[3 * v + 2] = 0.8f;
    }
    test_base_open(&t, 1);
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_OK);
    for (int v = 0; v < 3; v++) assert_tangent(out + 4 * v, 0.8, 0.0, -0.6, 1.0f);
    esi_free(t.ctx, out);
    test_base_close(&t);
}

/* No area in the texture, none in space, no face at all: some unit vector in the normal's plane. */
static void degenerate(void **state)
{
    float positions[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 2, 2, 0, 0, 5}, normals[] = {0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0.6f, 0.8f, 0, 0, 0};
    float uvs[] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0, 0, 1, 1};
    int32_t faces[] = {0, 1, 2, 3, 3, 3};
    esi_surface s = {.mesh = {positions, faces, 5, 2}, .normals = normals, .uvs = uvs};
    float *out;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_OK);
    for (int v = 0; v < 5; v++) {
        const float *n = normals + 3 * v, *p = out + 4 * v;

        assert_true(fabsf(n[0] * p[0] + n[1] * p[1] + n[2] * p[2]) < 1e-6f);
        assert_true(fabsf(p[0] * p[0] + p[1] * p[1] + p[2] * p[2] - 1.0f) < 1e-6f);
        assert_true(p[3] == 1.0f);
    }
    esi_free(t.ctx, out);
    s.uvs = NULL;
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_ERR_INTERNAL);
    assert_null(out);
    esi_clear_error(t.ctx);
    s.uvs = uvs;
    for (long n = 1; n <= 2; n++) {
        test_fail_at(&t.memory, n);
        assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_ERR_RESOURCE);
        assert_null(out);
        esi_clear_error(t.ctx);
    }
    test_fail_at(&t.memory, 0);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_ERR_CANCELLED);
    esi_clear_error(t.ctx);
    test_base_close(&t);
}

#include "tangents_expected.h"

/* A bumpy grid with a bent parameterisation. */
static void independent_numbers(void **state)
{
    const esi_surface s = {.mesh = {tangents_positions, tangents_faces, TANGENTS_VERTICES, TANGENTS_FACES},
                           .normals = tangents_normals, .uvs = tangents_uvs};
    float *out;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_surface_tangents(t.ctx, &out, &s), ESPALIER_OK);
    for (int v = 0; v < TANGENTS_VERTICES; v++) {
        const double *e = tangents_wanted[v];

        assert_tangent(out + 4 * v, e[0], e[1], e[2], (float)e[3]);
    }
    esi_free(t.ctx, out);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(square),     cmocka_unit_test(angle_weights),       cmocka_unit_test(flattened),
        cmocka_unit_test(degenerate), cmocka_unit_test(independent_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
