/* SPDX-License-Identifier: MIT
 *
 * Coverage of texel centres against an exact test of its own (centres moved by an infinitesimal right and a smaller one down, orientation
 * in 64-bit integers), partitions covered once, atlases by bands, charts without a centre, barycentrics.
 */
#include "mesh/raster.h"

#include "support.h"

#include <math.h>

enum { SIDE = 48, GRID = 256 };

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

typedef struct cover {
    int count[SIDE][SIDE], last;
    double corner[3][2];
} cover;

/* Counts, and checks the order and that the barycentrics give the centre. */
static void count_texel(void *arg, int32_t x, int32_t y, const double bary[3])
{
    cover *c = arg;
    double p[2] = {0, 0};

    assert_in_range(x, 0, SIDE - 1);
    assert_in_range(y, 0, SIDE - 1);
    assert_true(y * SIDE + x > c->last);
    c->last = y * SIDE + x;
    c->count[y][x]++;
    for (int k = 0; k < 3; k++) {
        assert_true(bary[k] >= 0.0 && bary[k] <= 1.0);
        p[0] += bary[k] * c->corner[k][0];
        p[1] += bary[k] * c->corner[k][1];
    }
    assert_true(fabs(p[0] - x - 0.5) < 1e-9 && fabs(p[1] - y - 0.5) < 1e-9);
}

/* Strictly inside after the centre moved by (2^-16, 2^-32) grid steps: no side is long enough to notice the size. */
static int sign_of_side(const int64_t a[2], const int64_t b[2], int64_t x, int64_t y)
{
    const int64_t one = INT64_C(1) << 32;
    const int64_t value = ((b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])) * one + (b[0] - a[0]) - (b[1] - a[1]) * 65536;

    return value > 0 ? 1 : value < 0 ? -1 : 0;
}

static bool covers(const int64_t g[3][2], int x, int y)
{
    const int64_t px = x * GRID + GRID / 2, py = y * GRID + GRID / 2;
    const int s = sign_of_side(g[0], g[1], px, py) + sign_of_side(g[1], g[2], px, py) + sign_of_side(g[2], g[0], px, py);
    const int64_t area = (g[1][0] - g[0][0]) * (g[2][1] - g[0][1]) - (g[1][1] - g[0][1]) * (g[2][0] - g[0][0]);

    return area != 0 && (s == 3 || s == -3);
}

static void run(cover *c, const int64_t g[3][2])
{
    for (int k = 0; k < 6; k++) c->corner[k / 2][k % 2] = (double)g[k / 2][k % 2] / GRID;
    c->last = -1;
    esi_raster_triangle((const double (*)[2])c->corner, SIDE, SIDE, count_texel, c);
}

static void random_triangles(void **state)
{
    uint64_t seed = 5;
    int64_t covered = 0, on_side = 0;

    (void)state;
    for (int n = 0; n < 6000; n++) {
        static cover c;
        const int64_t span = n % 4 == 0 ? 12 * GRID : n % 4 == 1 ? 96 * GRID : 60 * GRID;
        int64_t g[3][2];

        memset(&c, 0, sizeof c);
        for (int k = 0; k < 6; k++) {
            int64_t v = (int64_t)(next_random(&seed) % (uint64_t)span) - (n % 4 == 1 ? 24 * GRID : 0);

            if (n % 3 == 0) v -= v % GRID - GRID / 2;          /* corners on centres: many centres on sides */
            g[k / 2][k % 2] = v;
        }
        if (n % 7 == 0) g[1][1] = g[0][1];
        if (n % 11 == 0) g[2][0] = g[0][0];
        run(&c, (const int64_t (*)[2])g);
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                const bool wanted = covers((const int64_t (*)[2])g, x, y);

                if (c.count[y][x] != wanted) fail_msg("triangle %d, texel %d %d: %d", n, x, y, c.count[y][x]);
                covered += wanted;
                on_side += wanted && n % 3 == 0;
            }
        }
    }
    assert_true(covered > 500000 && on_side > 100000);
}

/* A jittered lattice cut into triangles of mixed winding: inside, every centre once. */
static void partition_once(void **state)
{
    enum { CELLS = 9 };
    uint64_t seed = 77;

    (void)state;
    for (int round = 0; round < 40; round++) {
        static cover c;
        int64_t p[CELLS + 1][CELLS + 1][2];

        memset(&c, 0, sizeof c);
        for (int j = 0; j <= CELLS; j++) {
            for (int i = 0; i <= CELLS; i++) {
                for (int a = 0; a < 2; a++) {
                    const int at = a == 0 ? i : j;
                    const bool inner = at > 0 && at < CELLS;
                    int64_t v = at * SIDE * GRID / CELLS + (inner ? (int64_t)(next_random(&seed) % 800) - 400 : 0);

                    if (round % 2 == 0 && inner) v -= v % (GRID / 2);
                    p[j][i][a] = v;
                }
            }
        }
        for (int j = 0; j < CELLS; j++) {
            for (int i = 0; i < CELLS; i++) {
                const int64_t *q[4] = {p[j][i], p[j][i + 1], p[j + 1][i + 1], p[j + 1][i]};
                const int turn = (int)(next_random(&seed) % 2);

                for (int t = 0; t < 2; t++) {
                    int64_t g[3][2];

                    memcpy(g[0], q[turn], 16);
                    memcpy(g[1 + t], q[turn + 1 + t], 16);
                    memcpy(g[2 - t], q[(turn + 2 + t) % 4], 16);
                    run(&c, (const int64_t (*)[2])g);
                }
            }
        }
        for (int i = 0; i < SIDE * SIDE; i++) assert_int_equal(c.count[i / SIDE][i % SIDE], 1);
    }
}

static void count_only(void *arg, int32_t x, int32_t y, const double bary[3])
{
    (void)x;
    (void)y;
    (void)bary;
    ++*(int64_t *)arg;
}

static int64_t texels(const double corner[3][2])
{
    int64_t n = 0;

    esi_raster_triangle(corner, SIDE, SIDE, count_only, &n);
    return n;
}

static void by_hand(void **state)
{
    /* top and left sides through centres belong, right and bottom ones do not */
    const double upper[3][2] = {{0.5, 0.5}, {4.5, 0.5}, {0.5, 4.5}}, lower[3][2] = {{4.5, 4.5}, {4.5, 0.5}, {0.5, 4.5}};
    const double line[3][2] = {{0, 0}, {10, 10}, {20, 20}}, point[3][2] = {{3.5, 3.5}, {3.5, 3.5}, {3.5, 3.5}};
    const double huge[3][2] = {{-1e12, -1e12}, {1e12, -1e12}, {0, 1e12}}, nan[3][2] = {{0, 0}, {(double)NAN, 0}, {9, 9}};
    const double outside[3][2] = {{50, 0}, {60, 0}, {50, 40}}, infinite[3][2] = {{0, 0}, {(double)INFINITY, 0}, {9, 9}};

    (void)state;
    assert_int_equal(texels(upper), 4 + 3 + 2 + 1);
    assert_int_equal(texels(lower), 3 + 2 + 1);
    assert_int_equal(texels(line), 0);
    assert_int_equal(texels(point), 0);
    assert_int_equal(texels(huge), SIDE * SIDE);
    assert_int_equal(texels(nan), 0);
    assert_int_equal(texels(infinite), 0);
    assert_int_equal(texels(outside), 0);
}

/* ------------------------------------------------------------ atlas */

enum { ATLAS = 200, FACES = 3000 };

typedef struct soup {
    float uvs[3 * FACES][2];
    int32_t faces[FACES][3], chart[FACES];
} soup;

static void make_soup(soup *s, uint64_t seed)
{
    for (int f = 0; f < FACES; f++) {
        const double cx = (double)(next_random(&seed) % 1000) / 1000.0, cy = (double)(next_random(&seed) % 1000) / 1000.0;

        s->chart[f] = f / 3;
        for (int k = 0; k < 3; k++) {
            s->faces[f][k] = 3 * f + k;
            s->uvs[3 * f + k][0] = (float)(cx + (double)(next_random(&seed) % 1000) / (f % 50 == 0 ? 2000.0 : 30000.0));
            s->uvs[3 * f + k][1] = (float)(cy + (double)(next_random(&seed) % 1000) / (f % 50 == 0 ? 2000.0 : 30000.0));
        }
    }
}

typedef struct plain { int32_t (*out)[ATLAS], face; } plain;

static void paint(void *arg, int32_t x, int32_t y, const double bary[3])
{
    const plain *p = arg;

    (void)bary;
    p->out[y][x] = p->face;
}

static void atlas(void **state)
{
    static soup s;
    static int32_t out[ATLAS][ATLAS], wanted[ATLAS][ATLAS], charted[ATLAS][ATLAS], again[ATLAS][ATLAS];
    bool seen[FACES / 3] = {false};
    int64_t given = 0;

    (void)state;
    make_soup(&s, 3);
    memset(wanted, 0xff, sizeof wanted);
    for (int f = 0; f < FACES; f++) {
        plain p = {wanted, f};
        double corner[3][2];

        for (int k = 0; k < 6; k++) corner[k / 2][k % 2] = (double)s.uvs[3 * f + k / 2][k % 2] * ATLAS;
        esi_raster_triangle((const double (*)[2])corner, ATLAS, ATLAS, paint, &p);
    }
    for (int i = 0; i < ATLAS * ATLAS; i++) {
        if (wanted[i / ATLAS][i % ATLAS] >= 0) seen[wanted[i / ATLAS][i % ATLAS] / 3] = true;
    }
    for (int threads = 1; threads <= 5; threads += threads) {
        test_base t;

        test_base_open(&t, threads == 4 ? 5 : threads);
        assert_int_equal(esi_raster_atlas(t.ctx, out[0], ATLAS, s.faces[0], FACES, s.uvs[0], NULL, 0), ESPALIER_OK);
        assert_memory_equal(out, wanted, sizeof out);
        assert_int_equal(esi_raster_atlas(t.ctx, again[0], ATLAS, s.faces[0], FACES, s.uvs[0], s.chart, FACES / 3), ESPALIER_OK);
        if (threads == 1) memcpy(charted, again, sizeof charted);
        assert_memory_equal(again, charted, sizeof again);
        test_base_close(&t);
    }
    /* what the charts got: only free texels, one each, for charts without any */
    for (int i = 0; i < ATLAS * ATLAS; i++) {
        const int32_t before = wanted[i / ATLAS][i % ATLAS], after = charted[i / ATLAS][i % ATLAS];

        if (before == after) continue;
        assert_int_equal(before, -1);
        assert_int_equal(after % 3, 0);
        assert_false(seen[after / 3]);
        seen[after / 3] = true;
        given++;
    }
    for (int c = 0; c < FACES / 3; c++) assert_true(seen[c]);
    assert_true(given > 10);
}

/* The nearest free centre, by search over all of them. */
static void charts_without_a_centre(void **state)
{
    const float uvs[][2] = {{0, 0}, {0.5f, 0}, {0, 1}, {0.5f, 1},                               /* the left half, two faces */
                            {0.26f, 0.4f}, {0.261f, 0.4f}, {0.26f, 0.401f},                     /* inside it: too far from a free one */
                            {0.47f, 0.3f}, {0.471f, 0.3f}, {0.47f, 0.301f},                     /* two texels inside it */
                            {0.999f, 0.999f}, {1, 1}, {1, 1},                                   /* without area, in the corner */
                            {0.75f, 0.75f}, {0.75f, 0.75f}, {0.75f, 0.75f}};
    const int32_t faces[][3] = {{0, 1, 2}, {1, 3, 2}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}, {13, 14, 15}};
    const int32_t chart[] = {0, 0, 1, 2, 3, 4};
    static int32_t out[100][100];
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_raster_atlas(t.ctx, out[0], 100, faces[0], 6, uvs[0], chart, 5), ESPALIER_OK);
    for (int y = 0; y < 100; y++) {
        for (int x = 0; x < 100; x++) {
            const int32_t wanted = x < 50 ? (x + 0.5) + (y + 0.5) / 2 < 50 ? 0 : 1
                                   : x == 50 && y == 30             ? 3
                                   : x == 99 && y == 99             ? 4
                                   : x == 74 && y == 74             ? 5
                                                                    : -1;

            if (out[y][x] != wanted) fail_msg("%d %d: %d", x, y, out[y][x]);
        }
    }
    assert_int_equal(esi_raster_atlas(t.ctx, out[0], 0, faces[0], 6, uvs[0], chart, 5), ESPALIER_ERR_INTERNAL);
    test_base_close(&t);
}

static void barycentrics(void **state)
{
    const float uvs[][2] = {{0.125f, 0.125f}, {0.625f, 0.125f}, {0.125f, 0.625f}, {0.375f, 0.375f}};
    const int32_t face[] = {0, 1, 2}, turned[] = {2, 1, 0}, line[] = {0, 3, 3}, point[] = {3, 3, 3};
    double b[3];

    (void)state;
    esi_raster_barycentrics(b, uvs[0], face, 8, 1, 2);         /* (1.5, 2.5) of (1,1) (5,1) (1,5) */
    assert_true(b[0] == 0.5 && b[1] == 0.125 && b[2] == 0.375);
    esi_raster_barycentrics(b, uvs[0], turned, 8, 1, 2);
    assert_true(b[0] == 0.375 && b[1] == 0.125 && b[2] == 0.5);
    esi_raster_barycentrics(b, uvs[0], face, 8, 3, 7);         /* (3.5, 7.5) beyond the corner (1, 5): foot on the diagonal is (1, 5) */
    assert_true(b[0] == 0.0 && b[1] == 0.0 && b[2] == 1.0);
    esi_raster_barycentrics(b, uvs[0], face, 8, 4, 4);         /* (4.5, 4.5): foot (3, 3) */
    assert_true(b[0] == 0.0 && b[1] == 0.5 && b[2] == 0.5);
    esi_raster_barycentrics(b, uvs[0], face, 8, 2, 0);         /* (2.5, 0.5): foot (2.5, 1) */
    assert_true(b[0] == 0.625 && b[1] == 0.375 && b[2] == 0.0);
    esi_raster_barycentrics(b, uvs[0], line, 8, 1, 2);         /* (1.5, 2.5) on (1,1)-(3,3): foot (2, 2) */
    assert_true(b[0] == 0.5 && b[1] + b[2] == 0.5);
    esi_raster_barycentrics(b, uvs[0], point, 8, 1, 2);
    assert_true(b[0] + b[1] + b[2] == 1.0);
}

static void failures(void **state)
{
    static soup s;
    static int32_t out[ATLAS][ATLAS];
    espalier_status st = ESPALIER_ERR_RESOURCE;
    test_base t;
    long n;

    (void)state;
    make_soup(&s, 9);
    test_base_open(&t, 1);
    for (n = 1; st != ESPALIER_OK && n < 20; n++) {
        test_fail_at(&t.memory, n);
        st = esi_raster_atlas(t.ctx, out[0], ATLAS, s.faces[0], FACES, s.uvs[0], s.chart, FACES / 3);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    assert_int_equal(n, 5);
    test_fail_at(&t.memory, 0);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_raster_atlas(t.ctx, out[0], ATLAS, s.faces[0], FACES, s.uvs[0], s.chart, FACES / 3), ESPALIER_ERR_CANCELLED);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_triangles), cmocka_unit_test(partition_once),          cmocka_unit_test(by_hand),
        cmocka_unit_test(atlas),            cmocka_unit_test(charts_without_a_centre), cmocka_unit_test(barycentrics),
        cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
