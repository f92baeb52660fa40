/* SPDX-License-Identifier: MIT
 *
 * Packing: no two charts within the padding of each other or of the border, judged by a separating-axis test of triangles against texels;
 * shapes and density kept; the scale near the best known one; thin charts; errors; threads.
 */
#include "mesh/pack.h"
#include "mesh/raster.h"

#include "ply_fixture.h"
#include "support.h"

#include <math.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static double unit_random(uint64_t *seed) { return (double)(next_random(seed) % 65536) / 65536.0; }

/* Charts by hand: flat faces, each with corners of its own. */
typedef struct sheet {
    esi_mesh mesh;
    esi_charts charts;
    int64_t room;
} sheet;

static void sheet_open(espalier_context *ctx, sheet *s, int64_t most_faces)
{
    memset(s, 0, sizeof *s);
    s->room = most_faces;
    assert_int_equal(esi_mesh_new(ctx, &s->mesh, 3 * most_faces, most_faces), ESPALIER_OK);
    s->mesh.n_faces = s->mesh.n_vertices = 0;
    s->charts.face_chart = esi_alloc(ctx, (size_t)most_faces, 4, "charts");
    s->charts.corner_uv = esi_alloc(ctx, (size_t)most_faces, 24, "charts");
}

static void sheet_close(espalier_context *ctx, sheet *s)
{
    esi_mesh_free(ctx, &s->mesh);
    esi_free(ctx, s->charts.face_chart);
    esi_free(ctx, s->charts.corner_uv);
}

/* A face of the newest chart. */
static void add_face(sheet *s, const double uv[3][2])
{
    const int64_t f = s->mesh.n_faces++;

    assert_true(f < s->room);
    for (int k = 0; k < 3; k++) {
        s->mesh.faces[3 * f + k] = (int32_t)s->mesh.n_vertices;
        for (int a = 0; a < 2; a++) {
            s->charts.corner_uv[6 * f + 2 * k + a] = (float)uv[k][a];
            s->mesh.vertices[3 * s->mesh.n_vertices + a] = (float)uv[k][a];
        }
        s->mesh.vertices[3 * s->mesh.n_vertices++ + 2] = 0.0f;
    }
    s->charts.face_chart[f] = s->charts.n_charts - 1;
}

static void add_box(sheet *s, double x, double y, double w, double h)
{
    add_face(s, (const double[3][2]){{x, y}, {x + w, y}, {x + w, y + h}});
    add_face(s, (const double[3][2]){{x, y}, {x + w, y + h}, {x, y + h}});
}

/* A wheel of triangles between two radii (inner 0: a disc), dented, turned, anywhere. */
static void add_wheel(sheet *s, uint64_t *seed, double outer, double inner)
{
    enum { SPOKES = 24 };
    const double aspect = 0.3 + 0.7 * unit_random(seed), turn = 6.28 * unit_random(seed);
    const double x = 10 * unit_random(seed), y = 10 * unit_random(seed);
    double rim[SPOKES][2], hub[SPOKES][2];

    s->charts.n_charts++;
    for (int i = 0; i < SPOKES; i++) {
        const double a = 6.283185307179586 * i / SPOKES, r = outer * (0.6 + 0.4 * unit_random(seed));
        const double p[2] = {r * cos(a), aspect * r * sin(a)}, q[2] = {inner * p[0], inner * p[1]};

        for (int k = 0; k < 2; k++) {
            rim[i][k] = k ? y + p[0] * sin(turn) + p[1] * cos(turn) : x + p[0] * cos(turn) - p[1] * sin(turn);
            hub[i][k] = k ? y + q[0] * sin(turn) + q[1] * cos(turn) : x + q[0] * cos(turn) - q[1] * sin(turn);
        }
    }
    for (int i = 0; i < SPOKES; i++) {
        const double *a = rim[i], *b = rim[(i + 1) % SPOKES], *c = hub[i], *d = hub[(i + 1) % SPOKES];

        add_face(s, (const double[3][2]){{a[0], a[1]}, {b[0], b[1]}, {c[0], c[1]}});
        if (inner > 0.0) add_face(s, (const double[3][2]){{c[0], c[1]}, {b[0], b[1]}, {d[0], d[1]}});
    }
}

/* Shapes of all kinds, some thinner than a texel, some without area. */
static void make_mixture(espalier_context *ctx, sheet *s, int wheels, bool odd_ones, uint64_t seed)
{
    sheet_open(ctx, s, 48 * wheels + 100);
    for (int i = 0; i < wheels; i++) {
        add_wheel(s, &seed, i % 7 == 0 ? 2.0 : 0.2 + 0.8 * unit_random(&seed) * unit_random(&seed), i % 5 == 0 ? 0.7 : 0.0);
    }
    if (!odd_ones) return;
    s->charts.n_charts++;                                      /* an L, a U */
    add_box(s, 0, 0, 3, 0.5);
    add_box(s, 0, 0.5, 0.5, 2);
    s->charts.n_charts++;
    add_box(s, 0, 0, 3, 0.4);
    add_box(s, 0, 0.4, 0.4, 1.6);
    add_box(s, 2.6, 0.4, 0.4, 1.6);
    for (int i = 0; i < 6; i++) {                              /* needles, at an angle and straight; dots */
        const double l = i < 4 ? 1.5 : 1e-4, h = i % 2 ? 1e-3 : 1e-6;

        s->charts.n_charts++;
        if (i < 2) add_face(s, (const double[3][2]){{0, 0}, {l, l}, {l - h, l + h}});
        else add_face(s, (const double[3][2]){{0, 0}, {l, 0}, {0, i < 4 ? h : l}});
    }
    s->charts.n_charts++;                                      /* a line and a point: no area */
    add_face(s, (const double[3][2]){{0, 0}, {1, 1}, {0.5, 0.5}});
    s->charts.n_charts++;
    add_face(s, (const double[3][2]){{3, 3}, {3, 3}, {3, 3}});
}

/* ------------------------------------------------------------ judging */

/* Do the open texel square at (x, y) and the triangle have no line between them? */
static bool touches(double c[3][2], int x, int y)
{
    const double square[4][2] = {{x, y}, {x + 1, y}, {x + 1, y + 1}, {x, y + 1}};

    for (int axis = 0; axis < 5; axis++) {
        double n[2] = {axis == 0, axis == 1}, low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30};

        if (axis > 1) {
            n[0] = c[(axis - 1) % 3][1] - c[axis - 2][1];
            n[1] = c[axis - 2][0] - c[(axis - 1) % 3][0];
        }
        for (int k = 0; k < 7; k++) {
            const double *p = k < 3 ? c[k] : square[k - 3], d = n[0] * p[0] + n[1] * p[1];

            low[k >= 3] = fmin(low[k >= 3], d);
            high[k >= 3] = fmax(high[k >= 3], d);
        }
        if (high[0] < low[1] || high[1] < low[0]) return false;
    }
    return true;
}

static void count_centre(void *arg, int32_t x, int32_t y, const double bary[3])
{
    (void)x;
    (void)y;
    (void)bary;
    ++*(int64_t *)arg;
}

/* Every rule that holds for any result; charts from `rigid` on may have been widened. */
static void judge(const sheet *s, const float *uv, const esi_pack_options *o, const esi_pack_stats *stats)
{
    const int n = (int)o->atlas_size, padding = (int)ceil(o->padding);
    int32_t *owner = malloc(sizeof *owner * (size_t)n * (size_t)n);
    int64_t *centres = calloc((size_t)s->charts.n_charts, sizeof *centres);
    int32_t widened = 0;
    double area = 0.0;

    for (int i = 0; i < n * n; i++) owner[i] = -1;
    for (int64_t f = 0; f < s->mesh.n_faces; f++) {
        const int32_t chart = s->charts.face_chart[f];
        double c[3][2], low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30}, cross;

        for (int k = 0; k < 6; k++) {
            const double v = (double)uv[6 * f + k] * n;

            c[k / 2][k % 2] = v;
            low[k % 2] = fmin(low[k % 2], v);
            high[k % 2] = fmax(high[k % 2], v);
        }
        cross = (c[1][0] - c[0][0]) * (c[2][1] - c[0][1]) - (c[1][1] - c[0][1]) * (c[2][0] - c[0][0]);
        assert_true(cross > -1e-3);
        area += fabs(cross) / 2;
        esi_raster_triangle((const double (*)[2])c, n, n, count_centre, &centres[chart]);
        for (int y = (int)floor(low[1] - 1e-9); y <= (int)floor(high[1]); y++) {
            for (int x = (int)floor(low[0] - 1e-9); x <= (int)floor(high[0]); x++) {
                if (!touches(c, x, y)) continue;
                if (x < padding || y < padding || x >= n - padding || y >= n - padding) fail_msg("face %d at the border", (int)f);
                if (owner[y * n + x] >= 0 && owner[y * n + x] != chart) fail_msg("charts %d, %d meet", chart, owner[y * n + x]);
                owner[y * n + x] = chart;
            }
        }
    }
    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++) {
            const int32_t *o4 = owner + y * n + x;

            if (*o4 < 0) continue;
            if (x > 0 && y > 0 && x < n - 1 && y < n - 1 && o4[-1] == *o4 && o4[1] == *o4 && o4[-n] == *o4 && o4[n] == *o4) continue;
            for (int j = ESI_MAX(y - padding, 0); j <= ESI_MIN(y + padding, n - 1); j++) {
                for (int i = ESI_MAX(x - padding, 0); i <= ESI_MIN(x + padding, n - 1); i++) {
                    const int32_t other = owner[j * n + i];

                    if (other >= 0 && other != owner[y * n + x]) fail_msg("charts %d, %d at %d %d", other, owner[y * n + x], x, y);
                }
            }
        }
    }
    for (int32_t i = 0; i < s->charts.n_charts; i++) {
        if (centres[i] == 0) fail_msg("chart %d covers no centre", i);
    }
    /* every side has its length times the scale, but in widened charts */
    for (int64_t f = 0; f < s->mesh.n_faces; f++) {
        bool rigid = true;

        for (int k = 0; k < 3; k++) {
            const float *a = s->charts.corner_uv + 6 * f + 2 * k, *b = s->charts.corner_uv + 6 * f + 2 * ((k + 1) % 3);
            const float *p = uv + 6 * f + 2 * k, *q = uv + 6 * f + 2 * ((k + 1) % 3);
            const double before = hypot((double)b[0] - (double)a[0], (double)b[1] - (double)a[1]) * stats->texels_per_unit;
            const double after = hypot((double)q[0] - (double)p[0], (double)q[1] - (double)p[1]) * n;

            rigid = rigid && fabs(before - after) < 2e-3 + 1e-6 * before;
        }
        widened += !rigid && (f == 0 || s->charts.face_chart[f] != s->charts.face_chart[f - 1]);
    }
    assert_true(widened <= stats->enlarged_charts);
    assert_true(fabs(area / n / n - stats->utilisation) < 1e-5);
    free(owner);
    free(centres);
}

static double pack_and_judge(espalier_context *ctx, const sheet *s, const esi_pack_options *o, esi_pack_stats *stats)
{
    float *uv = NULL;

    if (esi_charts_pack(ctx, &uv, &s->charts, &s->mesh, o, stats) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    judge(s, uv, o, stats);
    esi_free(ctx, uv);
    return stats->texels_per_unit;
}

/* ------------------------------------------------------------ tests */

static void mixtures(void **state)
{
    static const esi_pack_options options[] = {{256, 2, true}, {333, 1, true},  {100, 0, true}, {512, 2.5, true},
                                               {300, 5, true}, {256, 2, false}, {64, 1, true}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(options); i++) {
        esi_pack_stats stats;
        sheet s;

        make_mixture(t.ctx, &s, 30, true, 10 + i);
        pack_and_judge(t.ctx, &s, &options[i], &stats);
        assert_in_range(stats.enlarged_charts, 2, 8);
        sheet_close(t.ctx, &s);
    }
    test_base_close(&t);
}

/* What is reached on dented discs and rings: a floor against getting worse. */
static void fills_the_square(void **state)
{
    esi_pack_stats stats;
    test_base t;
    sheet s;

    (void)state;
    test_base_open(&t, 2);
    make_mixture(t.ctx, &s, 120, false, 3);
    pack_and_judge(t.ctx, &s, &(esi_pack_options){1024, 2, true}, &stats);
    assert_true(stats.utilisation > 0.60);
    assert_int_equal(stats.enlarged_charts, 0);
    sheet_close(t.ctx, &s);
    test_base_close(&t);
}

/* Equal squares in rows: the best scale is known. */
static void known_best(void **state)
{
    static const struct { int rows; uint32_t size; double padding; } cases[] = {
        {8, 512, 0}, {8, 512, 2}, {1, 256, 2}, {5, 1000, 3}, {20, 300, 1}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        const int rows = cases[i].rows;
        const double inner = cases[i].size - 2 * cases[i].padding, best = floor((inner + cases[i].padding) / rows) - cases[i].padding;
        esi_pack_stats stats;
        double scale;
        sheet s;

        sheet_open(t.ctx, &s, 2 * rows * rows);
        for (int k = 0; k < rows * rows; k++) {
            s.charts.n_charts++;
            add_box(&s, k, 0.3 * k, 1, 1);
        }
        scale = pack_and_judge(t.ctx, &s, &(esi_pack_options){cases[i].size, cases[i].padding, true}, &stats);
        assert_true(scale <= best && scale > 0.985 * best);
        sheet_close(t.ctx, &s);
    }
    /* a frame with a block that just goes into its hole, whatever the order */
    for (int first = 0; first < 2; first++) {
        esi_pack_stats stats;
        sheet s;

        sheet_open(t.ctx, &s, 20);
        for (int k = 0; k < 2; k++) {
            s.charts.n_charts++;
            if (k == first) {
                add_box(&s, 0, 0, 10, 2);
                add_box(&s, 0, 8, 10, 2);
                add_box(&s, 0, 2, 2, 6);
                add_box(&s, 8, 2, 2, 6);
            } else {
                add_box(&s, 0, 0, 5, 5.5);
            }
        }
        assert_true(pack_and_judge(t.ctx, &s, &(esi_pack_options){512, 2, true}, &stats) > 50.0);
        sheet_close(t.ctx, &s);
    }
    test_base_close(&t);
}

/* Turned rectangles go straight: without rotation they take twice the room. */
static void rotation(void **state)
{
    esi_pack_stats turned, straight;
    test_base t;
    sheet s;

    (void)state;
    test_base_open(&t, 1);
    sheet_open(t.ctx, &s, 200);
    for (int i = 0; i < 20; i++) {
        const double d = i % 2 ? 1 : -1;

        s.charts.n_charts++;
        add_face(&s, (const double[3][2]){{0, 0}, {3, 3 * d}, {2.5 , 3 * d + 0.5 * d}});
        if (d < 0) {
            float *c = s.charts.corner_uv + 6 * (s.mesh.n_faces - 1), swap[2] = {c[0], c[1]};

            memcpy(c, c + 2, 8);
            memcpy(c + 2, swap, 8);
        }
    }
    pack_and_judge(t.ctx, &s, &(esi_pack_options){256, 1, true}, &turned);
    pack_and_judge(t.ctx, &s, &(esi_pack_options){256, 1, false}, &straight);
    assert_true(turned.texels_per_unit > 1.05 * straight.texels_per_unit);
    sheet_close(t.ctx, &s);
    test_base_close(&t);
}

static void threads(void **state)
{
    const esi_pack_options o = {512, 2, true};
    float *wanted = NULL;
    sheet s;
    size_t bytes = 0;

    (void)state;
    for (int threads_used = 1; threads_used <= 5; threads_used += threads_used == 1 ? 1 : 3) {
        float *uv;
        test_base t;

        test_base_open(&t, threads_used);
        make_mixture(t.ctx, &s, 150, true, 77);
        bytes = (size_t)s.mesh.n_faces * 24;
        assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &o, NULL), ESPALIER_OK);
        if (!wanted) {
            wanted = malloc(bytes);
            memcpy(wanted, uv, bytes);
        }
        assert_memory_equal(uv, wanted, bytes);
        esi_free(t.ctx, uv);
        sheet_close(t.ctx, &s);
        test_base_close(&t);
    }
    free(wanted);
}

/* 60,000 charts of very different size: refused in 16 texels and one below the size asked for, accepted at that size; bounded work. */
static void many_charts(void **state)
{
    enum { N = 60000 };
    esi_pack_stats stats;
    uint64_t seed = 5;
    const char *message;
    char *size;
    uint32_t least;
    float *uv;
    test_base t;
    sheet s;

    (void)state;
    test_base_open(&t, 2);
    sheet_open(t.ctx, &s, N);
    for (int i = 0; i < N; i++) {
        const double w = 0.01 + unit_random(&seed), h = 0.01 + unit_random(&seed);

        s.charts.n_charts++;
        add_face(&s, (const double[3][2]){{0, 0}, {w, 0}, {0.3 * w, h}});
    }
    assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &(esi_pack_options){16, 1, true}, NULL), ESPALIER_ERR_ARG);
    assert_null(uv);
    message = espalier_error_message(t.ctx);
    assert_non_null(strstr(message, "16 texels"));
    assert_non_null(strstr(message, "60000 charts"));
    size = strstr(message, "ask for ");
    assert_non_null(size);
    least = (uint32_t)atoi(size + 8);
    assert_int_equal(least, 2 * 245 + 1);                     /* 245 rows of 245, a texel each, free texels around */
    esi_clear_error(t.ctx);
    assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &(esi_pack_options){least - 2, 1, true}, NULL), ESPALIER_ERR_ARG);
    esi_clear_error(t.ctx);
    pack_and_judge(t.ctx, &s, &(esi_pack_options){least, 1, true}, &stats);
    pack_and_judge(t.ctx, &s, &(esi_pack_options){1000, 1, true}, &stats);
    assert_true(stats.utilisation > 0.1);
    sheet_close(t.ctx, &s);
    test_base_close(&t);
}

static void refusals(void **state)
{
    const esi_pack_options bad[] = {{15, 2, true}, {16385, 2, true}, {64, 32, true}, {64, -1, true}, {64, (double)NAN, true}};
    esi_pack_stats stats;
    float *uv;
    test_base t;
    sheet s;

    (void)state;
    test_base_open(&t, 1);
    make_mixture(t.ctx, &s, 3, false, 1);
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &bad[i], &stats), ESPALIER_ERR_ARG);
        assert_true(strlen(espalier_error_message(t.ctx)) > 0);
        assert_null(uv);
        esi_clear_error(t.ctx);
    }
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &(esi_pack_options){64, 2, true}, &stats), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(t.ctx);
    esi_clear_error(t.ctx);
    s.mesh.n_faces = 0;                                        /* nothing to do; charts without faces */
    assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &(esi_pack_options){64, 2, true}, &stats), ESPALIER_OK);
    esi_free(t.ctx, uv);
    s.charts.n_charts = 0;
    assert_int_equal(esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &(esi_pack_options){64, 2, true}, &stats), ESPALIER_OK);
    esi_free(t.ctx, uv);
    sheet_close(t.ctx, &s);
    test_base_close(&t);
}

static void failing_allocations(void **state)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    test_base t;
    sheet s;
    long n;
    uint64_t before;

    (void)state;
    test_base_open(&t, 1);
    make_mixture(t.ctx, &s, 10, true, 6);
    before = espalier_context_memory_now(t.ctx);
    for (n = 1; st != ESPALIER_OK && n < 5000; n++) {
        float *uv;

        test_fail_at(&t.memory, n);
        st = esi_charts_pack(t.ctx, &uv, &s.charts, &s.mesh, &(esi_pack_options){64, 1, true}, NULL);
        if (st != ESPALIER_OK) {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_null(uv);
        }
        esi_free(t.ctx, uv);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), before);
    }
    assert_true(n > 30 && n < 5000);
    test_fail_at(&t.memory, 0);
    sheet_close(t.ctx, &s);
    test_base_close(&t);
}

/* The meshes that may not be copied: charts by projection and by flattening fill at least this much. */
static void real_meshes(void **state)
{
    static const struct { const char *name; double box, flat; } meshes[] = {
        {"bunny", 0.70, 0.68}, {"armadillo", 0.68, 0.68}, {"elephant_with_holes", 0.65, 0.65}, {"mech_holes_shark", 0.68, 0.65}};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(meshes); i++) {
        const esi_chart_options chart_options = esi_chart_options_default();
        char path[1024];
        esi_pack_stats stats;

        snprintf(path, sizeof path, ESPALIER_TEST_DATA "/../../shared/golden/geometry/meshes/real_%s.ply", meshes[i].name);
        for (int flat = 0; flat < 2; flat++) {
            sheet s = {0};

            if (!ply_fixture_read(t.ctx, &s.mesh, path)) {
                print_message("SKIPPED: %s is not there\n", path);
                esi_mesh_free(t.ctx, &s.mesh);
                continue;
            }
            if (flat) assert_int_equal(esi_charts_create(t.ctx, &s.charts, &s.mesh, &chart_options), ESPALIER_OK);
            else assert_int_equal(esi_charts_box(t.ctx, &s.charts, &s.mesh), ESPALIER_OK);
            pack_and_judge(t.ctx, &s, &(esi_pack_options){1024, 2, true}, &stats);
            print_message("%s: %d charts, %.4f of the square\n", meshes[i].name, s.charts.n_charts, stats.utilisation);
            assert_true(stats.utilisation >= (flat ? meshes[i].flat : meshes[i].box));
            esi_charts_free(t.ctx, &s.charts);
            esi_mesh_free(t.ctx, &s.mesh);
        }
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtures),    cmocka_unit_test(fills_the_square),    cmocka_unit_test(known_best),
        cmocka_unit_test(rotation),    cmocka_unit_test(threads),             cmocka_unit_test(many_charts),
        cmocka_unit_test(refusals),    cmocka_unit_test(failing_allocations), cmocka_unit_test(real_meshes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
