/* SPDX-License-Identifier: MIT
 *
 * Exact orientation signs against integers, self-intersections against separating axes in integers.
 */
#include "support.h"

#include "damage_fixture.h"
#include "mesh/compare.h"
#include "mesh/predicates.h"

#include <math.h>

static int64_t random_below(uint64_t *seed, int64_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((*seed >> 33) % (uint64_t)n);
}

static int sign(int64_t x)
{
    return (x > 0) - (x < 0);
}

/* b + c - a lies in the plane of a, b, c; one step up from there decides by the sign of the normal's z. Coordinates of 22 bits, whose
 * products do not fit a double; scaled by powers of two that differ by axis, which changes no sign. */
static void orient3d(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        int64_t a[3], b[3], c[3];
        float fa[3], fb[3], fc[3], fd[3];
        const int shift[3] = {(int)random_below(&seed, 100) - 60, (int)random_below(&seed, 100) - 60, (int)random_below(&seed, 100) - 60};

        for (int k = 0; k < 3; k++) {
            a[k] = random_below(&seed, 1 << 22) - (1 << 21);
            b[k] = random_below(&seed, 1 << 22) - (1 << 21);
            c[k] = random_below(&seed, 1 << 22) - (1 << 21);
            fa[k] = ldexpf((float)a[k], shift[k]);
            fb[k] = ldexpf((float)b[k], shift[k]);
            fc[k] = ldexpf((float)c[k], shift[k]);
        }
        const int up = sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]));
        for (int64_t step = -1; step <= 1; step++) {
            for (int k = 0; k < 3; k++) fd[k] = ldexpf((float)(b[k] + c[k] - a[k] + (k == 2 ? step : 0)), shift[k]);
            assert_int_equal(esi_orient3d(fa, fb, fc, fd), -up * (int)step);
            assert_int_equal(esi_orient3d(fb, fa, fc, fd), up * (int)step);
            assert_int_equal(esi_orient3d(fb, fc, fd, fa), up * (int)step);
        }
    }
}

static void orient2d(void **state)
{
    uint64_t seed = 2;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        int64_t a[2], b[2];
        float fa[3] = {0}, fb[3] = {0}, fc[3] = {0};

        for (int k = 0; k < 2; k++) {
            a[k] = random_below(&seed, 1 << 21) - (1 << 20);
            b[k] = random_below(&seed, 1 << 21) - (1 << 20);
            fa[2 * k] = ldexpf((float)a[k], 20 - 70 * k);
            fb[2 * k] = ldexpf((float)b[k], 20 - 70 * k);
        }
        for (int64_t step = -1; step <= 1; step++) {        /* 3 b - 2 a lies on the line */
            fc[0] = ldexpf((float)(3 * b[0] - 2 * a[0]), 20);
            fc[2] = ldexpf((float)(3 * b[1] - 2 * a[1] + step), -50);
            assert_int_equal(esi_orient2d(fa, fb, fc, 0, 2), sign(b[0] - a[0]) * (int)step);
            assert_int_equal(esi_orient2d(fa, fb, fc, 2, 0), -sign(b[0] - a[0]) * (int)step);
        }
    }
}

/* Values of very different size: the sum of three products with bits 200 places apart. */
static void orient3d_far_apart(void **state)
{
    const float tiny = 1e-38f, big = 1e38f, zero[3] = {0, 0, 0};

    (void)state;
    assert_int_equal(esi_orient3d((float[]){big, 0, 0}, (float[]){0, big, 0}, (float[]){big, big, tiny}, zero), 1);
    assert_int_equal(esi_orient3d((float[]){big, 0, 0}, (float[]){0, big, 0}, (float[]){big, big, -tiny}, zero), -1);
    assert_int_equal(esi_orient3d((float[]){big, 0, 0}, (float[]){0, big, 0}, (float[]){big, big, 0}, zero), 0);
    assert_int_equal(esi_orient3d((float[]){big, tiny, 1}, (float[]){big, 2 * tiny, 1}, (float[]){-big, tiny, 1}, (float[]){1, 0, 1}), 0);
    /* 1e20 - 1e-20 does not fit a double: 2e20 * 1e-20 decides. */
    assert_int_equal(esi_orient3d((float[]){1e20f, 1e20f, 0}, (float[]){-1e20f, -1e20f, 0}, (float[]){0, 0, 1},
                                  (float[]){1e-20f, 0, 0}), 1);
    assert_int_equal(esi_orient2d((float[]){1e20f, 1e20f, 0}, (float[]){-1e20f, -1e20f, 0}, (float[]){1e-20f, 0, 0}, 0, 1), 1);
}

/* -------------------------------------------------- pairs, by separating axes */

typedef struct shape { int n; int64_t p[3][3]; } shape;        /* a segment or a triangle */

static void cross(int64_t out[3], const int64_t a[3], const int64_t b[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static bool separates(const int64_t axis[3], const shape *s, const shape *t)
{
    int64_t low[2] = {INT64_MAX, INT64_MAX}, high[2] = {INT64_MIN, INT64_MIN};

    for (int which = 0; which < 2; which++) {
        const shape *x = which ? t : s;

        for (int i = 0; i < x->n; i++) {
            const int64_t d = axis[0] * x->p[i][0] + axis[1] * x->p[i][1] + axis[2] * x->p[i][2];
            low[which] = ESI_MIN(low[which], d);
            high[which] = ESI_MAX(high[which], d);
        }
    }
    return high[0] < low[1] || high[1] < low[0];
}

static int sides(int64_t out[3][3], const shape *s)
{
    const int n = s->n == 3 ? 3 : 1;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) out[i][k] = s->p[(i + 1) % s->n][k] - s->p[i][k];
    return n;
}

/* Closed convex sets are apart if and only if some axis of this list shows it. */
static bool meet(const shape *s, const shape *t)
{
    int64_t e[3][3], f[3][3], normal[2][3] = {{0}}, axis[3];
    const int ne = sides(e, s), nf = sides(f, t);

    if (ne == 3) cross(normal[0], e[0], e[1]);
    if (nf == 3) cross(normal[1], f[0], f[1]);
    for (int which = 0; which < 2; which++) {
        if (separates(normal[which], s, t)) return false;
        for (int i = 0; i < ne; i++) {
            cross(axis, normal[which], e[i]);
            if (separates(axis, s, t)) return false;
        }
        for (int k = 0; k < nf; k++) {
            cross(axis, normal[which], f[k]);
            if (separates(axis, s, t)) return false;
        }
    }
    for (int i = 0; i < ne; i++) {
        for (int k = 0; k < nf; k++) {
            cross(axis, e[i], f[k]);
            if (separates(axis, s, t)) return false;
        }
    }
    return true;
}

static bool has_area(const shape *s)
{
    int64_t e[3][3], n[3];

    sides(e, s);
    cross(n, e[0], e[1]);
    return n[0] != 0 || n[1] != 0 || n[2] != 0;
}

static bool pair_counts(const shape *s, const shape *t)
{
    int common = 0, in_s = 0, in_t = 0;

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            if (memcmp(s->p[i], t->p[k], sizeof s->p[i]) == 0) common++, in_s = i, in_t = k;
    if (common == 0) return meet(s, t);
    if (common == 3) return true;
    if (common == 1) {
        shape far_s = {.n = 2}, far_t = {.n = 2};

        for (int i = 0; i < 2; i++) {
            memcpy(far_s.p[i], s->p[(in_s + 1 + i) % 3], sizeof far_s.p[i]);
            memcpy(far_t.p[i], t->p[(in_t + 1 + i) % 3], sizeof far_t.p[i]);
        }
        return meet(&far_s, t) || meet(&far_t, s);
    }
    /* An edge in common: the parts near it, cut off at the middles of the other sides, lie on one side of a line in the plane or not. */
    int64_t e[3][3], n[3], u[3], m[3];
    int third_s = -1, third_t = -1;
    for (int i = 0; i < 3; i++) {
        bool found_s = false, found_t = false;

        for (int k = 0; k < 3; k++) {
            found_s |= memcmp(s->p[i], t->p[k], sizeof s->p[i]) == 0;
            found_t |= memcmp(t->p[i], s->p[k], sizeof s->p[i]) == 0;
        }
        if (!found_s) third_s = i;
        if (!found_t) third_t = i;
    }
    sides(e, s);
    cross(n, e[0], e[1]);
    const int64_t *a = s->p[(third_s + 1) % 3], *b = s->p[(third_s + 2) % 3];
    int64_t height = 0, side_s = 0, side_t = 0;
    for (int k = 0; k < 3; k++) {
        height += n[k] * (t->p[third_t][k] - a[k]);
        u[k] = b[k] - a[k];
    }
    cross(m, n, u);
    for (int k = 0; k < 3; k++) {
        side_s += m[k] * (s->p[third_s][k] - a[k]);
        side_t += m[k] * (t->p[third_t][k] - a[k]);
    }
    return height == 0 && sign(side_s) == sign(side_t);
}

static shape shape_of(const esi_mesh *m, int64_t face)
{
    shape s = {.n = 3};

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) s.p[i][k] = (int64_t)m->vertices[3 * (int64_t)m->faces[3 * face + i] + k];
    return s;
}

/* Triangles in a small box of integers touch, share vertices and edges, and lie in common planes all the time. */
static void integer_soups(void **state)
{
    uint64_t seed = 3;
    test_base t;
    int64_t total = 0;

    (void)state;
    test_base_open(&t, 2);
    for (int round = 0; round < 300; round++) {
        enum { FACES = 40 };
        const int64_t side = 2 + round % 12;
        int64_t pairs = -1, faces = -1, expected_pairs = 0, expected_faces = 0;
        bool takes_part[FACES] = {false};
        esi_mesh m;

        assert_int_equal(esi_mesh_new(t.ctx, &m, 3 * FACES, FACES), ESPALIER_OK);
        for (int i = 0; i < 3 * FACES; i++) {
            m.faces[i] = i;
            for (int k = 0; k < 3; k++) m.vertices[3 * i + k] = (float)random_below(&seed, k == round % 4 ? 2 : side);
        }
        for (int f = 0; f < FACES; f++) {
            const shape a = shape_of(&m, f);

            for (int g = f + 1; g < FACES; g++) {
                const shape b = shape_of(&m, g);
                if (!has_area(&a) || !has_area(&b) || !pair_counts(&a, &b)) continue;
                expected_pairs++;
                takes_part[f] = takes_part[g] = true;
            }
        }
        for (int f = 0; f < FACES; f++) expected_faces += takes_part[f];
        assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m), ESPALIER_OK);
        assert_int_equal(pairs, expected_pairs);
        assert_int_equal(faces, expected_faces);
        total += pairs;
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(total > 10000);
    test_base_close(&t);
}

/* Sound shapes have none; two spheres through each other have a ring of them; a fold has one per edge; a T-junction by touching. */
static void shapes(void **state)
{
    static const float fold[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0.25f, 0.25f, 0}};
    static const int32_t fold_faces[2][3] = {{0, 1, 2}, {1, 0, 3}};
    test_base t;
    int64_t pairs, faces;
    esi_mesh m, other;

    (void)state;
    test_base_open(&t, 2);
    for (int shape_number = 0; shape_number < DAMAGE_SHAPES; shape_number++) {
        damage_shape(t.ctx, &m, shape_number, 20);
        assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m), ESPALIER_OK);
        assert_int_equal(pairs, 0);
        assert_int_equal(faces, 0);
        esi_mesh_free(t.ctx, &m);
    }
    damage_sphere(t.ctx, &m, 20, 0.3, 0, 0, 0, false);
    damage_sphere(t.ctx, &other, 20, 0.3, 0.2, 0.01, 0.02, false);
    damage_append(t.ctx, &m, &other);
    assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m), ESPALIER_OK);
    assert_true(faces > 60 && faces < 400 && pairs >= faces / 2);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &other);
    assert_int_equal(esi_mesh_copy(t.ctx, &m, fold[0], 4, fold_faces[0], 2), ESPALIER_OK);
    assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m), ESPALIER_OK);
    assert_int_equal(pairs, 1);
    assert_int_equal(faces, 2);
    m.vertices[11] = 1e-30f;                               /* bent by next to nothing: they meet in their edge only */
    assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, NULL, &m), ESPALIER_OK);
    assert_int_equal(pairs, 0);
    esi_mesh_free(t.ctx, &m);
    esi_mesh none = {0};
    assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &none), ESPALIER_OK);
    assert_int_equal(pairs, 0);
    test_base_close(&t);
}

static void threads_memory_cancel(void **state)
{
    static const int counts[3] = {1, 2, 5};
    int64_t first_pairs = 0, first_faces = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        test_base t;
        esi_mesh m, other;
        int64_t pairs, faces;

        test_base_open(&t, counts[i]);
        damage_torus(t.ctx, &m, 40, 0.3, 0.1);
        damage_sphere(t.ctx, &other, 40, 0.3, 0.1, 0.05, 0.02, false);
        damage_append(t.ctx, &m, &other);
        esi_mesh_free(t.ctx, &other);
        assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m), ESPALIER_OK);
        if (i == 0) first_pairs = pairs;
        if (i == 0) first_faces = faces;
        assert_true(pairs == first_pairs && faces == first_faces && pairs > 100);
        espalier_status st = ESPALIER_ERR_RESOURCE;
        for (long n = 1; st != ESPALIER_OK && n < 200; n++) {
            test_fail_at(&t.memory, n);
            st = esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m);
            test_fail_at(&t.memory, 0);
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            esi_clear_error(t.ctx);
        }
        assert_int_equal(st, ESPALIER_OK);
        espalier_context_cancel(t.ctx);
        assert_int_equal(esi_mesh_self_intersections(t.ctx, &pairs, &faces, &m), ESPALIER_ERR_CANCELLED);
        esi_mesh_free(t.ctx, &m);
        test_base_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orient3d), cmocka_unit_test(orient2d), cmocka_unit_test(orient3d_far_apart), cmocka_unit_test(integer_soups),
        cmocka_unit_test(shapes), cmocka_unit_test(threads_memory_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
