/* SPDX-License-Identifier: MIT
 *
 * Clusters against a plain rewrite of their definition (everything from scratch in every round) and the reference's counts; box charts by
 * what they promise: projections, positive, connected, nothing over anything else.
 */
#include "mesh/charts.h"
#include "mesh/raster.h"

#include "ply_fixture.h"
#include "support.h"

#include <math.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* A bumpy field of n x n squares; `closed` wraps it to a torus. */
static void make_field(espalier_context *ctx, esi_mesh *m, int n, double height, bool closed, uint64_t seed)
{
    const int side = closed ? n : n + 1;

    assert_int_equal(esi_mesh_new(ctx, m, side * side, 2 * n * n), ESPALIER_OK);
    for (int i = 0; i < side * side; i++) {
        const double a = 6.283185307179586 * (i % side) / side, b = 6.283185307179586 * (i / side) / side;
        const double bump = height * (double)(next_random(&seed) % 1000) / 1000.0, r = 0.3 + (0.12 + bump) * cos(b);

        m->vertices[3 * i] = closed ? (float)(r * cos(a)) : (float)(i % side) / (float)side;
        m->vertices[3 * i + 1] = closed ? (float)(r * sin(a)) : (float)(i / side) / (float)side;
        m->vertices[3 * i + 2] = closed ? (float)((0.12 + bump) * sin(b)) : (float)bump;
    }
    for (int i = 0; i < n * n; i++) {
        const int32_t x = i % n, y = i / n, x1 = (x + 1) % side, y1 = (y + 1) % side;
        const int32_t q[4] = {y * side + x, y * side + x1, y1 * side + x1, y1 * side + x};

        memcpy(m->faces + 6 * i, (int32_t[]){q[0], q[1], q[2], q[0], q[2], q[3]}, 24);
    }
}

/* ------------------------------------------------------------ clusters */

enum { MOST = 300 };

static void corner_normal(const esi_mesh *m, int f, double n[3], double *area)
{
    double p[3][3], l;

    for (int k = 0; k < 9; k++) p[k / 3][k % 3] = (double)m->vertices[3 * m->faces[3 * f + k / 3] + k % 3];
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;

        n[k] = (p[1][a] - p[0][a]) * (p[2][b] - p[0][b]) - (p[1][b] - p[0][b]) * (p[2][a] - p[0][a]);
    }
    l = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    *area = l / 2;
    for (int k = 0; k < 3; k++) n[k] /= l;
}

static double side_length(const esi_mesh *m, int f, int k)
{
    const float *p = m->vertices + 3 * m->faces[3 * f + k], *q = m->vertices + 3 * m->faces[3 * f + (k + 1) % 3];

    return sqrt(pow((double)p[0] - (double)q[0], 2) + pow((double)p[1] - (double)q[1], 2) + pow((double)p[2] - (double)q[2], 2));
}

/* spec: section 6.1, nothing kept from round to round but the labels. */
static int plain_clusters(const esi_mesh *m, int32_t *label, int32_t *n_clusters)
{
    static double shared[MOST][MOST], normal[MOST][3], area[MOST];
    static bool linked[MOST][MOST];
    const int n_faces = (int)m->n_faces;
    int n = n_faces, rounds = 0;

    for (int f = 0; f < n_faces; f++) {
        corner_normal(m, f, normal[f], &area[f]);
        label[f] = f;
    }
    for (;; rounds++) {
        double axis[MOST][3] = {{0}}, half[MOST] = {0}, sum[MOST] = {0}, around[MOST] = {0}, cost[MOST];
        int pick[MOST][2], fresh[MOST], next = 0, merged = 0;

        memset(shared, 0, sizeof shared);
        memset(linked, 0, sizeof linked);
        for (int f = 0; f < n_faces; f++) {
            sum[label[f]] += area[f];
            for (int k = 0; k < 3; k++) axis[label[f]][k] += normal[f][k];
            for (int k = 0; k < 3; k++) {
                const int32_t a = m->faces[3 * f + k], b = m->faces[3 * f + (k + 1) % 3];
                int others = 0, other = -1;

                for (int g = 0; g < n_faces; g++) {
                    for (int j = 0; j < 3; j++) {
                        const int32_t c = m->faces[3 * g + j], d = m->faces[3 * g + (j + 1) % 3];

                        if (g == f || !((a == c && b == d) || (a == d && b == c))) continue;
                        others++;
                        other = g;
                    }
                }
                if (others != 1 || label[other] == label[f]) continue;
                shared[label[f]][label[other]] += side_length(m, f, k);
                linked[label[f]][label[other]] = true;
                around[label[f]] += side_length(m, f, k);
            }
        }
        for (int i = 0; i < n; i++) {
            const double l = sqrt(axis[i][0] * axis[i][0] + axis[i][1] * axis[i][1] + axis[i][2] * axis[i][2]);

            for (int k = 0; k < 3; k++) axis[i][k] /= l;
        }
        for (int f = 0; f < n_faces; f++) {
            const double *a = axis[label[f]], *b = normal[f];

            half[label[f]] = fmax(half[label[f]], acos(fmin(1.0, a[0] * b[0] + a[1] * b[1] + a[2] * b[2])));
        }
        for (int i = 0; i < n; i++) pick[i][0] = -1;
        for (int i = 0; i < n; i++) {
            for (int j = i + 1; j < n; j++) {
                const double cosine = axis[i][0] * axis[j][0] + axis[i][1] * axis[j][1] + axis[i][2] * axis[j][2];
                const double theta = acos(fmax(-1.0, fmin(1.0, cosine)));
                const double cone = (fmax(half[i], theta + half[j]) - fmin(-half[i], theta - half[j])) / 2, both = sum[i] + sum[j];
                const double c = cone + 0.1 * both + 1e-4 * pow(around[i] + around[j] - 2 * shared[i][j], 2) / both;

                if (!linked[i][j]) continue;
                for (int e = 0; e < 2; e++) {
                    const int at = e ? j : i;

                    if (pick[at][0] >= 0 && c >= cost[at]) continue;
                    pick[at][0] = i;
                    pick[at][1] = j;
                    cost[at] = c;
                }
            }
        }
        for (int i = 0; i < n; i++) {
            const int a = pick[i][0], b = pick[i][1];
            const bool match = a >= 0 && cost[i] <= 1.5707963267948966 && pick[a][0] == pick[b][0] && pick[a][1] == pick[b][1];

            merged += match && i == b;
            fresh[i] = match && i == b ? fresh[a] : next++;
        }
        for (int f = 0; f < n_faces; f++) label[f] = fresh[label[f]];
        n = next;
        if (merged == 0) break;
    }
    *n_clusters = n;
    return rounds;
}

static void clusters_by_definition(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int n = 1; n <= 12; n++) {
        int32_t *cluster, wanted[MOST], n_clusters, n_wanted;
        int rounds, wanted_rounds;
        esi_mesh m;

        make_field(t.ctx, &m, n, n % 3 == 0 ? 0.02 : 0.15, n > 3 && n % 2 == 0, (uint64_t)n);
        if (n % 4 == 1 && n > 1) {                             /* without face 1 */
            m.n_faces--;
            memmove(m.faces + 3, m.faces + 6, (size_t)(m.n_faces - 1) * 12);
        }
        wanted_rounds = plain_clusters(&m, wanted, &n_wanted);
        assert_int_equal(esi_cluster_faces(t.ctx, &cluster, &n_clusters, &rounds, &m), ESPALIER_OK);
        assert_int_equal(n_clusters, n_wanted);
        assert_int_equal(rounds, wanted_rounds);
        assert_memory_equal(cluster, wanted, (size_t)m.n_faces * 4);
        esi_free(t.ctx, cluster);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static bool read_mesh(espalier_context *ctx, esi_mesh *m, const char *name)
{
    char path[1024];

    memset(m, 0, sizeof *m);
    snprintf(path, sizeof path, ESPALIER_TEST_DATA "/../../shared/golden/geometry/meshes/%s.ply", name);
    if (ply_fixture_read(ctx, m, path)) return true;
    print_message("SKIPPED: %s is not there\n", path);
    esi_mesh_free(ctx, m);
    return false;
}

static void clusters_of_the_reference(void **state)
{
    static const struct { const char *name; int32_t clusters; int rounds; } meshes[] = {
        {"real_bunny", 37, 73},  {"real_armadillo", 100, 38},    {"real_elephant_with_holes", 64, 36}, {"real_mech_holes_shark", 14, 43},
        {"sphere", 6, -1},       {"sphere_flipped", 893, -1},    {"sphere_debris", 66, -1},            {"sphere_missing_fans", 5, -1},
        {"t_junction", 2, -1},   {"cubes_shared_edge", 6, -1},   {"nonmanifold_fan3", 3, -1},          {"nested_shells", 12, -1}};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(meshes); i++) {
        int32_t *cluster, n;
        int rounds;
        esi_mesh m;

        if (!read_mesh(t.ctx, &m, meshes[i].name)) continue;
        assert_int_equal(esi_cluster_faces(t.ctx, &cluster, &n, &rounds, &m), ESPALIER_OK);
        assert_int_equal(n, meshes[i].clusters);
        if (meshes[i].rounds > 0) assert_int_equal(rounds, meshes[i].rounds);
        for (int64_t f = 0, highest = -1; f < m.n_faces; f++) {        /* numbered by their lowest face */
            assert_true(cluster[f] >= 0 && cluster[f] <= highest + 1);
            highest = ESI_MAX(highest, cluster[f]);
        }
        esi_free(t.ctx, cluster);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* ------------------------------------------------------------ box charts */

static void count_texel(void *arg, int32_t x, int32_t y, const double bary[3])
{
    (void)bary;
    ++((uint8_t *)arg)[1024 * y + x];
}

/* Each chart: a scaled projection along one axis, positive, of equal area, connected, and without overlap at 1024 texels. */
static void judge_box(espalier_context *ctx, const esi_mesh *m, const esi_charts *c)
{
    uint8_t *count = calloc(1024, 1024);
    int32_t *parent = malloc((size_t)m->n_faces * 4), *opposite, lowest = 0;
    int64_t overlaps = 0, covered = 0;

    assert_int_equal(esi_opposite_corners(ctx, &opposite, m), ESPALIER_OK);
    for (int64_t f = 0; f < m->n_faces; f++) parent[f] = (int32_t)f;
    for (int64_t i = 0; i < 3 * m->n_faces; i++) {
        if (opposite[i] >= 0 && c->face_chart[i / 3] == c->face_chart[opposite[i] / 3]) {
            esi_union_join(parent, (int32_t)(i / 3), opposite[i] / 3);
        }
    }
    for (int64_t f = 0; f < m->n_faces; f++) {
        assert_true(c->face_chart[f] <= lowest);
        if (parent[f] == f) assert_int_equal(c->face_chart[f], lowest++);      /* one piece each, numbered by the lowest face */
    }
    assert_int_equal(lowest, c->n_charts);
    for (int32_t chart = 0; chart < c->n_charts; chart++) {
        double low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30}, area = 0, flat = 0, scale;

        for (int64_t f = 0; f < m->n_faces; f++) {
            const float *q = c->corner_uv + 6 * f;
            double n[3], a;

            if (c->face_chart[f] != chart) continue;
            for (int k = 0; k < 6; k++) {
                low[k % 2] = fmin(low[k % 2], (double)q[k]);
                high[k % 2] = fmax(high[k % 2], (double)q[k]);
            }
            corner_normal(m, (int)f, n, &a);
            area += a;
            flat += ((double)q[2] - (double)q[0]) * ((double)q[5] - (double)q[1]) / 2;
            flat -= ((double)q[3] - (double)q[1]) * ((double)q[4] - (double)q[0]) / 2;
        }
        assert_true(fabs(flat - area) <= 1e-5 * area);
        scale = 1000 / fmax(fmax(high[0] - low[0], high[1] - low[1]), 1e-30);
        memset(count, 0, 1024 * 1024);
        for (int64_t f = 0; f < m->n_faces; f++) {
            double corner[3][2];

            if (c->face_chart[f] != chart) continue;
            for (int k = 0; k < 6; k++) corner[k / 2][k % 2] = ((double)c->corner_uv[6 * f + k] - low[k % 2]) * scale;
            assert_true((corner[1][0] - corner[0][0]) * (corner[2][1] - corner[0][1]) >=
                        (corner[1][1] - corner[0][1]) * (corner[2][0] - corner[0][0]) - 0.01);
            esi_raster_triangle((const double (*)[2])corner, 1024, 1024, count_texel, count);
        }
        for (int i = 0; i < 1024 * 1024; i++) {
            covered += count[i] > 0;
            overlaps += count[i] > 1;
        }
    }
    assert_true(covered > 1000);
    assert_true(overlaps == 0);
    esi_free(ctx, opposite);
    free(parent);
    free(count);
}

/* A ramp that winds around an axis twice: every normal looks up, and it lies over itself. */
static void make_helix(espalier_context *ctx, esi_mesh *m, int steps)
{
    assert_int_equal(esi_mesh_new(ctx, m, 2 * (steps + 1), 2 * steps), ESPALIER_OK);
    for (int i = 0; i <= steps; i++) {
        const double a = 2 * 6.283185307179586 * i / steps;

        for (int k = 0; k < 2; k++) {
            m->vertices[6 * i + 3 * k] = (float)((k ? 0.5 : 0.2) * cos(a));
            m->vertices[6 * i + 3 * k + 1] = (float)((k ? 0.5 : 0.2) * sin(a));
            m->vertices[6 * i + 3 * k + 2] = (float)(0.03 * a);
        }
    }
    for (int i = 0; i < steps; i++) {
        const int32_t a = 2 * i;

        memcpy(m->faces + 6 * i, (int32_t[]){a, a + 1, a + 3, a, a + 3, a + 2}, 24);
    }
}

static void box_charts(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 7; i++) {
        esi_charts c;
        esi_mesh m;

        if (i == 0) make_helix(t.ctx, &m, 200);
        else if (i < 5) make_field(t.ctx, &m, 6 + 6 * i, i == 1 ? 0.01 : 0.05, i % 2 == 0, (uint64_t)i);
        else if (!read_mesh(t.ctx, &m, i == 5 ? "sphere" : "real_mech_holes_shark")) continue;
        assert_int_equal(esi_charts_box(t.ctx, &c, &m), ESPALIER_OK);
        judge_box(t.ctx, &m, &c);
        if (i == 0) {
            assert_int_equal(c.n_charts, 2);
            assert_int_equal(c.split_charts, 1);
        }
        if (i == 5) assert_int_equal(c.n_charts, 6);
        esi_charts_free(t.ctx, &c);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static void failures(void **state)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    uint64_t before;
    esi_mesh m;
    test_base t;
    long n;

    (void)state;
    test_base_open(&t, 1);
    make_field(t.ctx, &m, 10, 0.05, true, 3);
    before = espalier_context_memory_now(t.ctx);
    for (n = 1; st != ESPALIER_OK && n < 200; n++) {
        int32_t *cluster = NULL, n_clusters;
        esi_charts c = {0};

        test_fail_at(&t.memory, n);
        st = esi_cluster_faces(t.ctx, &cluster, &n_clusters, NULL, &m);
        if (st == ESPALIER_OK) st = esi_charts_box(t.ctx, &c, &m);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_free(t.ctx, cluster);
        esi_charts_free(t.ctx, &c);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), before);
    }
    assert_true(n > 25 && n < 200);
    test_fail_at(&t.memory, 0);
    espalier_context_cancel(t.ctx);
    for (int i = 0; i < 2; i++) {
        int32_t *cluster, n_clusters;
        esi_charts c;

        if (i == 0) assert_int_equal(esi_cluster_faces(t.ctx, &cluster, &n_clusters, NULL, &m), ESPALIER_ERR_CANCELLED);
        else assert_int_equal(esi_charts_box(t.ctx, &c, &m), ESPALIER_ERR_CANCELLED);
        esi_clear_error(t.ctx);
    }
    espalier_context_reset_cancel(t.ctx);
    m.n_faces = 0;
    for (int i = 0; i < 2; i++) {
        int32_t *cluster = NULL, n_clusters = 0;
        esi_charts c = {0};

        if (i == 0) assert_int_equal(esi_cluster_faces(t.ctx, &cluster, &n_clusters, NULL, &m), ESPALIER_OK);
        else assert_int_equal(esi_charts_box(t.ctx, &c, &m), ESPALIER_OK);
        assert_int_equal(n_clusters + c.n_charts, 0);
        esi_free(t.ctx, cluster);
        esi_charts_free(t.ctx, &c);
    }
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clusters_by_definition), cmocka_unit_test(clusters_of_the_reference),
                                       cmocka_unit_test(box_charts), cmocka_unit_test(failures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
