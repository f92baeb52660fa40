/* SPDX-License-Identifier: MIT
 *
 * Bit masks and the packing grid against plain loops over cells; the smallest turned box against all directions of pairs of points.
 */
#include "mesh/pack_chart.h"
#include "mesh/pack_grid.h"

#include "support.h"

#include <math.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static bool cell(const esi_pack_mask *m, int32_t x, int32_t y)
{
    if (x < 0 || y < 0 || x >= m->width || y >= m->height) return false;
    return m->words[(int64_t)y * m->stride + x / 64] >> (x % 64) & 1;
}

/* Blobs: discs and bars with holes. `kind` 0 = single cells too. */
static void random_mask(espalier_context *ctx, esi_pack_mask *m, uint64_t *seed, int32_t most)
{
    const int32_t w = 1 + (int32_t)(next_random(seed) % (uint64_t)most), h = 1 + (int32_t)(next_random(seed) % (uint64_t)most);
    const int32_t kind = (int32_t)(next_random(seed) % 4);

    assert_int_equal(esi_pack_mask_set(ctx, m, w, h), ESPALIER_OK);
    for (int32_t y = 0; y < h; y++) {
        for (int32_t x = 0; x < w; x++) {
            const double dx = (2 * x + 1.0) / w - 1, dy = (2 * y + 1.0) / h - 1, r = dx * dx + dy * dy;
            const bool on = kind == 0 ? next_random(seed) % 4 > 0 : kind == 1 ? r < 1 : kind == 2 ? r < 1 && r > 0.4 : dx < dy || x == 0;

            if (on) m->words[(int64_t)y * m->stride + x / 64] |= UINT64_C(1) << (x % 64);
        }
    }
}

static void masks(void **state)
{
    esi_pack_mask m = {0}, turned = {0}, back = {0}, grown = {0};
    uint64_t seed = 1;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int n = 0; n < 300; n++) {
        const int32_t by = n % 5 == 4 ? (int32_t)(next_random(&seed) % 90) : n % 5;

        random_mask(t.ctx, &m, &seed, n % 2 ? 20 : 200);
        assert_int_equal(esi_pack_mask_turn(t.ctx, &turned, &m), ESPALIER_OK);
        assert_int_equal(turned.width, m.height);
        assert_int_equal(turned.height, m.width);
        for (int32_t y = 0; y < m.height; y++) {
            for (int32_t x = 0; x < m.width; x++) assert_int_equal(cell(&turned, m.height - 1 - y, x), cell(&m, x, y));
        }
        for (int k = 0; k < 3; k++) {
            assert_int_equal(esi_pack_mask_turn(t.ctx, &back, &turned), ESPALIER_OK);
            const esi_pack_mask swap = back;

            back = turned;
            turned = swap;
        }
        assert_memory_equal(turned.words, m.words, (size_t)esi_pack_mask_words(m.width, m.height) * 8);
        if (n % 3) continue;
        assert_int_equal(esi_pack_mask_grow(t.ctx, &grown, &m, by), ESPALIER_OK);
        assert_int_equal(grown.width, m.width + 2 * by);
        assert_int_equal(grown.height, m.height + 2 * by);
        for (int32_t y = 0; y < grown.height; y++) {
            for (int32_t x = 0; x < grown.width; x++) {
                bool wanted = false;

                for (int32_t j = ESI_MAX(y - 2 * by, 0); j <= ESI_MIN(y, m.height - 1) && !wanted; j++) {
                    for (int32_t i = ESI_MAX(x - 2 * by, 0); i <= ESI_MIN(x, m.width - 1) && !wanted; i++) wanted = cell(&m, i, j);
                }
                if (cell(&grown, x, y) != wanted) fail_msg("mask %d grown by %d: %d %d", n, by, x, y);
            }
        }
        for (int32_t i = 0; i < grown.height; i++) {          /* nothing beyond the width */
            if (grown.width % 64) assert_true(grown.words[(int64_t)i * grown.stride + grown.stride - 1] >> (grown.width % 64) == 0);
        }
    }
    esi_pack_mask_free(t.ctx, &m);
    esi_pack_mask_free(t.ctx, &turned);
    esi_pack_mask_free(t.ctx, &back);
    esi_pack_mask_free(t.ctx, &grown);
    test_base_close(&t);
}

static bool room(const bool *taken, int32_t size, const esi_pack_mask *m, int32_t x, int32_t y)
{
    for (int32_t j = 0; j < m->height; j++) {
        for (int32_t i = 0; i < m->width; i++) {
            if (cell(m, i, j) && taken[(y + j) * size + x + i]) return false;
        }
    }
    return true;
}

/* First place by plain search; false: none in the rows. */
static bool plain_find(const bool *taken, int32_t size, const esi_pack_mask *m, int32_t y_begin, int32_t y_end, int32_t *x, int32_t *y)
{
    for (*y = y_begin; *y <= y_end && *y + m->height <= size; ++*y) {
        for (*x = 0; *x + m->width <= size; ++*x) {
            if (room(taken, size, m, *x, *y)) return true;
        }
    }
    return false;
}

/* Shapes put into grids of several widths until nothing fits; some stick out. Levels are dropped as shapes get smaller. */
static void places(void **state)
{
    static const int32_t sizes[] = {1, 13, 63, 64, 65, 127, 200};
    uint64_t seed = 4, work = 0;
    int found = 0, refused = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t s = 0; s < ESI_COUNT(sizes); s++) {
        const int32_t size = sizes[s];
        bool *taken = calloc((size_t)size * (size_t)size, sizeof *taken);
        esi_pack_grid grid;
        esi_pack_shape shape = {0};
        esi_pack_mask m = {0};
        int32_t most = ESI_MAX(size / 2, 1);

        assert_int_equal(esi_pack_grid_new(t.ctx, &grid, size, most), ESPALIER_OK);
        for (int n = 0; n < 80; n++) {
            const int32_t y_begin = n % 4 == 0 ? (int32_t)(next_random(&seed) % (uint64_t)size) : 0;
            const int32_t y_end = n % 3 == 0 ? (int32_t)(next_random(&seed) % (uint64_t)size) : size;
            esi_pack_square square;
            int32_t x = -1, y = -1, px, py, levels = 1;
            bool ok;

            if (n % 20 == 19) most = ESI_MAX(most / 2, 1);
            random_mask(t.ctx, &m, &seed, most);
            assert_int_equal(esi_pack_shape_square(t.ctx, &shape, &m, &square), ESPALIER_OK);
            if (square.level < 0) continue;
            for (int32_t i = 0; i < 1 << (2 * square.level); i++) {
                assert_true(cell(&m, square.x + i % (1 << square.level), square.y + (i >> square.level)));
            }
            assert_int_equal(esi_pack_shape_set(t.ctx, &shape, &grid, &m, square), ESPALIER_OK);
            ok = esi_pack_grid_find(&grid, &shape, y_begin, y_end, &x, &y, &work);
            assert_int_equal(ok, plain_find(taken, size, &m, y_begin, y_end, &px, &py));
            found += ok;
            refused += !ok;
            if (ok) {
                assert_int_equal(x, px);
                assert_int_equal(y, py);
            } else if (n % 2) {                               /* over the edge and over others */
                x = (int32_t)(next_random(&seed) % (uint64_t)(size + m.width)) - m.width;
                y = (int32_t)(next_random(&seed) % (uint64_t)(size + m.height)) - m.height;
            } else {
                continue;
            }
            while ((2 << (levels - 1)) <= most) levels++;
            esi_pack_grid_take(&grid, &m, x, y, levels);
            for (int32_t j = ESI_MAX(y, 0); j < ESI_MIN(y + m.height, size); j++) {
                for (int32_t i = ESI_MAX(x, 0); i < ESI_MIN(x + m.width, size); i++) {
                    if (cell(&m, i - x, j - y)) taken[j * size + i] = true;
                }
            }
        }
        free(taken);
        esi_pack_grid_free(t.ctx, &grid);
        esi_pack_shape_free(t.ctx, &shape);
        esi_pack_mask_free(t.ctx, &m);
    }
    assert_true(found > 150 && refused > 50);
    test_base_close(&t);
}

/* The box with the smallest area has a side through two of the points with all others on one side. */
static double plain_box(double (*p)[2], int n, double c, double s)
{
    double low[2] = {1e30, 1e30}, high[2] = {-1e30, -1e30};

    for (int i = 0; i < n; i++) {
        const double q[2] = {c * p[i][0] + s * p[i][1], c * p[i][1] - s * p[i][0]};

        for (int k = 0; k < 2; k++) {
            low[k] = fmin(low[k], q[k]);
            high[k] = fmax(high[k], q[k]);
        }
    }
    return (high[0] - low[0]) * (high[1] - low[1]);
}

static void smallest_box(void **state)
{
    uint64_t seed = 8;

    (void)state;
    for (int round = 0; round < 200; round++) {
        enum { MOST = 40 };
        const int n = 1 + (int)(next_random(&seed) % MOST);
        double p[MOST][2], work[3 * MOST + 2][2], c, s, best = 1e30;

        for (int i = 0; i < 2 * n; i++) {
            p[i / 2][i % 2] = (double)(next_random(&seed) % 1000) / (i % 2 ? 1000.0 : 250.0);
            if (round % 3 == 0) p[i / 2][i % 2] = floor(p[i / 2][i % 2] * 4) / 4;
        }
        memcpy(work, p, sizeof p);
        esi_pack_smallest_box(work, n, &c, &s);
        assert_true(fabs(c * c + s * s - 1.0) < 1e-12);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                const double x = p[j][0] - p[i][0], y = p[j][1] - p[i][1], l = sqrt(x * x + y * y);

                if (l > 0) best = fmin(best, plain_box(p, n, x / l, y / l));
            }
        }
        if (best < 1e30) assert_true(plain_box(p, n, c, s) <= best * (1 + 1e-12) + 1e-14);
    }
}

/* Rounding puts points on a slanted line to either side of it, so that both chains of the hull may keep them. */
static void smallest_box_of_a_line(void **state)
{
    uint64_t seed = 9;
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int n = 3 + round;
        const double slope = (double)(1 + next_random(&seed) % 997) / 991.0, length = sqrt(1.0 + slope * slope);
        double (*points)[2] = malloc((size_t)(3 * n + 2) * sizeof *points), c, s;

        for (int i = 0; i < n; i++) {
            points[i][0] = (double)(next_random(&seed) % 1000003) / 7.0;
            points[i][1] = slope * points[i][0] + 0.1;
        }
        esi_pack_smallest_box(points, n, &c, &s);
        assert_true(fabs(c * slope - s) / length < 1e-6 || fabs(c + s * slope) / length < 1e-6);
        free(points);
    }
}

/* Outlines of box charts of a bumpy torus give the cells that all their faces give, with holes, at several scales and sizes of cells. */
static void cells_by_outline(void **state)
{
    enum { N = 60 };
    esi_pack_mask by_faces = {0}, by_outline = {0}, scratch = {0};
    esi_pack_charts packed;
    esi_charts charts;
    uint64_t seed = 12, set = 0;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    assert_int_equal(esi_mesh_new(t.ctx, &m, N * N, 2 * N * N), ESPALIER_OK);
    for (int i = 0; i < N * N; i++) {
        const double a = 6.283185307179586 * (i % N) / N, b = 6.283185307179586 * (i / N) / N;
        const double tube = 0.12 + 0.02 * (double)(next_random(&seed) % 1000) / 1000.0, r = 0.3 + tube * cos(b);
        const int32_t q[4] = {i, i - i % N + (i + 1) % N, (i - i % N + (i + 1) % N + N) % (N * N), (i + N) % (N * N)};

        m.vertices[3 * i] = (float)(r * cos(a));
        m.vertices[3 * i + 1] = (float)(r * sin(a));
        m.vertices[3 * i + 2] = (float)(tube * sin(b));
        memcpy(m.faces + 6 * i, (int32_t[]){q[0], q[1], q[2], q[0], q[2], q[3]}, 24);
    }
    assert_int_equal(esi_charts_box(t.ctx, &charts, &m), ESPALIER_OK);
    assert_int_equal(esi_pack_charts_prepare(t.ctx, &packed, &charts, &m, true), ESPALIER_OK);
    assert_true(packed.n > 5 && packed.border_start[packed.n] < 3 * m.n_faces / 2);
    for (int round = 0; round < 12; round++) {
        const int32_t cell_size = 1 + round % 3;

        assert_int_equal(esi_pack_charts_fit(t.ctx, &packed, 11.0 + 97.0 * round), ESPALIER_OK);
        for (int32_t i = 0; i < packed.n; i++) {
            const int32_t w = (packed.charts[i].width + cell_size - 1) / cell_size;
            const int32_t h = (packed.charts[i].height + cell_size - 1) / cell_size;

            assert_int_equal(esi_pack_mask_set(t.ctx, &by_faces, w, h), ESPALIER_OK);
            assert_int_equal(esi_pack_mask_set(t.ctx, &by_outline, w, h), ESPALIER_OK);
            assert_int_equal(esi_pack_chart_cells(t.ctx, &packed, i, &by_faces, cell_size, &scratch, true), ESPALIER_OK);
            assert_int_equal(esi_pack_chart_cells(t.ctx, &packed, i, &by_outline, cell_size, &scratch, false), ESPALIER_OK);
            assert_memory_equal(by_faces.words, by_outline.words, (size_t)esi_pack_mask_words(w, h) * 8);
            for (int64_t k = 0; k < esi_pack_mask_words(w, h); k++) set += by_faces.words[k] != 0;
        }
    }
    assert_true(set > 10000);
    esi_pack_mask_free(t.ctx, &by_faces);
    esi_pack_mask_free(t.ctx, &by_outline);
    esi_pack_mask_free(t.ctx, &scratch);
    esi_pack_charts_free(t.ctx, &packed);
    esi_charts_free(t.ctx, &charts);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks), cmocka_unit_test(places), cmocka_unit_test(smallest_box),
                                       cmocka_unit_test(smallest_box_of_a_line),
                                       cmocka_unit_test(cells_by_outline)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
