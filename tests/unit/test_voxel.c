/* SPDX-License-Identifier: MIT
 *
 * Coordinate sets: order, ranges, occupancy, cascade, neighbour tables, subdivision, decision counts.
 */
#include "voxel_fixture.h"

#include "voxel/keys.h"
#include "voxel/voxel_index.h"

#include <math.h>

static void refused(espalier_context *ctx, espalier_status got, espalier_status wanted, const char *part)
{
    assert_int_equal(got, wanted);
    if (!strstr(espalier_error_message(ctx), part)) fail_msg("'%s' lacks '%s'", espalier_error_message(ctx), part);
    esi_clear_error(ctx);
}

static void keys(void **state)
{
    const int32_t rows[][4] = {{0, 0, 0, 0}, {0, 0, 0, 1},   {0, 0, 1, 0}, {0, 1, 0, 0}, {0, 131071, 131071, 131071},
                               {1, 0, 0, 0}, {8191, 5, 6, 7}};
    int32_t back[4];

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(rows); i++) {
        esi_key_unpack(back, esi_key_pack(rows[i]));
        assert_memory_equal(back, rows[i], sizeof back);
        if (i > 0) assert_true(esi_key_pack(rows[i - 1]) < esi_key_pack(rows[i]));
    }
}

static void ranges(void **state)
{
    const int32_t bad[][4] = {{-1, 0, 0, 0}, {0, -1, 0, 0}, {0, 0, INT32_MIN, 0}, {0, 0, 0, -7}, {8192, 0, 0, 0}, {0, 131072, 0, 0},
                              {0, 0, 0, INT32_MAX}};
    test_base t;
    esi_coords out;
    int32_t *table;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        refused(t.ctx, esi_coords_sort_unique(t.ctx, &out, bad[i], 1), ESPALIER_ERR_INTERNAL, "out of range");
        assert_null(out.rows);
        refused(t.ctx, esi_neighbor_table(t.ctx, &table, bad[i], 1), ESPALIER_ERR_INTERNAL, "out of range");
        assert_null(table);
    }
    refused(t.ctx, esi_coords_new(t.ctx, &out, -1), ESPALIER_ERR_INTERNAL, "negative");
    refused(t.ctx, esi_coords_new(t.ctx, &out, INT64_C(1) << 31), ESPALIER_ERR_RESOURCE, "2^31 - 1");
    refused(t.ctx, esi_neighbor_table(t.ctx, &table, bad[0], INT64_C(1) << 40), ESPALIER_ERR_RESOURCE, "2^31 - 1");
    test_base_close(&t);
}

static int compare_rows(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    for (int i = 0; i < 4; i++) {
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    }
    return 0;
}

static void sort_unique(void **state)
{
    enum { N = 5000 };
    static int32_t rows[N][4], sorted[N][4];
    uint64_t seed = 1;
    test_base t;
    esi_coords out;
    int64_t n = 0;

    (void)state;
    test_base_open(&t, 1);
    for (int wide = 0; wide < 2; wide++) {
        for (int i = 0; i < N; i++) {
            rows[i][0] = (int32_t)(test_random(&seed) % (wide ? 8192 : 2));
            for (int a = 1; a < 4; a++) rows[i][a] = (int32_t)(test_random(&seed) % (wide ? 131072 : 12));
        }
        memcpy(sorted, rows, sizeof rows);
        qsort(sorted, N, sizeof sorted[0], compare_rows);
        n = 0;
        for (int i = 0; i < N; i++) {
            if (n == 0 || compare_rows(sorted[n - 1], sorted[i]) != 0) memmove(sorted[n++], sorted[i], sizeof sorted[0]);
        }
        assert_int_equal(esi_coords_sort_unique(t.ctx, &out, rows[0], N), ESPALIER_OK);
        assert_int_equal(out.count, n);
        assert_memory_equal(out.rows, sorted, (size_t)n * sizeof sorted[0]);
        esi_coords_free(t.ctx, &out);
    }
    assert_int_equal(esi_coords_sort_unique(t.ctx, &out, NULL, 0), ESPALIER_OK);
    assert_int_equal(out.count, 0);
    esi_coords_free(t.ctx, &out);
    test_base_close(&t);
}

static void occupancy(void **state)
{
    static float logits[8 * 8 * 8];
    const int32_t fine[] = {0, 0, 0, 1, 0, 3, 4, 5, 0, 7, 7, 7}, coarse[] = {0, 0, 0, 0, 0, 1, 2, 2, 0, 3, 3, 3};
    test_base t;
    esi_coords out;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 512; i++) logits[i] = i % 2 ? -1.0f : 0.0f;           /* zero is not occupied */
    logits[1] = 1e-30f;
    logits[(3 * 8 + 4) * 8 + 5] = 2.0f;
    logits[511] = 3.0f;
    logits[100] = NAN;
    assert_int_equal(esi_coords_from_occupancy(t.ctx, &out, logits, 8, 8), ESPALIER_OK);
    assert_int_equal(out.count, 3);
    assert_memory_equal(out.rows, fine, sizeof fine);
    esi_coords_free(t.ctx, &out);
    assert_int_equal(esi_coords_from_occupancy(t.ctx, &out, logits, 8, 4), ESPALIER_OK);
    assert_int_equal(out.count, 3);
    assert_memory_equal(out.rows, coarse, sizeof coarse);
    esi_coords_free(t.ctx, &out);
    assert_int_equal(esi_coords_from_occupancy(t.ctx, &out, logits, 8, 1), ESPALIER_OK);
    assert_int_equal(out.count, 1);
    esi_coords_free(t.ctx, &out);
    for (int i = 0; i < 512; i++) logits[i] = -1.0f;
    assert_int_equal(esi_coords_from_occupancy(t.ctx, &out, logits, 8, 8), ESPALIER_OK);
    assert_int_equal(out.count, 0);
    esi_coords_free(t.ctx, &out);
    refused(t.ctx, esi_coords_from_occupancy(t.ctx, &out, logits, 8, 3), ESPALIER_ERR_INTERNAL, "reduce");
    refused(t.ctx, esi_coords_from_occupancy(t.ctx, &out, logits, 8, 16), ESPALIER_ERR_INTERNAL, "reduce");
    refused(t.ctx, esi_coords_from_occupancy(t.ctx, &out, logits, 8, 0), ESPALIER_ERR_INTERNAL, "reduce");
    test_base_close(&t);
}

/* ------------------------------------------------------------------ cascade */

typedef struct cascade_run { int64_t low, target, max_tokens, resolution; const char *out; } cascade_run;

static void check_cascade(espalier_context *ctx, const esi_weight_file *file, const char *in, const cascade_run *runs, size_t count)
{
    esi_coords fine = {0}, out;
    int64_t resolution, rows;

    fine.rows = golden_i32(ctx, file, in, &fine.count);
    for (size_t i = 0; i < count; i++) {
        int32_t *wanted = golden_i32(ctx, file, runs[i].out, &rows);

        assert_int_equal(esi_cascade_coords(ctx, &out, &resolution, &fine, runs[i].low, runs[i].target, runs[i].max_tokens), ESPALIER_OK);
        assert_int_equal(resolution, runs[i].resolution);
        assert_int_equal(out.count, rows);
        assert_memory_equal(out.rows, wanted, (size_t)rows * 16);
        esi_free(ctx, wanted);
        esi_coords_free(ctx, &out);
    }
    esi_coords_free(ctx, &fine);
}

static void cascade(void **state)
{
    static const cascade_run a[] = {{512, 1024, 49152, 1024, "out.coords_0"}, {512, 1024, 10, 1024, "out.coords_1"},
                                    {512, 1536, 49152, 1536, "out.coords_2"}, {512, 1536, 2637, 1408, "out.coords_3"},
                                    {512, 1536, 2638, 1536, "out.coords_4"},  {512, 1536, 2435, 1408, "out.coords_5"},
                                    {512, 1536, 2254, 1280, "out.coords_6"},  {512, 1536, 2011, 1152, "out.coords_7"},
                                    {512, 1536, 1713, 1024, "out.coords_8"},  {512, 1536, 3, 1024, "out.coords_9"}};
    static const cascade_run b[] = {{512, 1024, 49152, 1024, "out.coords_0"}, {512, 1024, 10, 1024, "out.coords_1"},
                                    {512, 1536, 49152, 1536, "out.coords_2"}, {512, 1536, 481, 1408, "out.coords_3"},
                                    {512, 1536, 482, 1536, "out.coords_4"},   {512, 1536, 429, 1408, "out.coords_5"},
                                    {512, 1536, 380, 1280, "out.coords_6"},   {512, 1536, 340, 1152, "out.coords_7"},
                                    {512, 1536, 269, 1024, "out.coords_8"},   {512, 1536, 3, 1024, "out.coords_9"}};
    static const cascade_run up[] = {{128, 256, 49152, 256, "out.cascade_coords_128_256"},
                                     {128, 384, 49152, 384, "out.cascade_coords_128_384"},
                                     {128, 384, 1, 256, "out.cascade_coords_128_256"}}; /* steps of low / 4 down to 2 * low */
    test_base t;
    esi_weight_file *file;

    (void)state;
    test_base_open(&t, 1);
    file = golden_open(t.ctx, "cascade_a");
    check_cascade(t.ctx, file, "in.hr_coords", a, ESI_COUNT(a));
    esi_weight_file_free(file);
    file = golden_open(t.ctx, "cascade_b");
    check_cascade(t.ctx, file, "in.hr_coords", b, ESI_COUNT(b));
    esi_weight_file_free(file);
    file = golden_open(t.ctx, "shape_upsample");
    check_cascade(t.ctx, file, "out.coords_up4", up, ESI_COUNT(up));
    esi_weight_file_free(file);
    test_base_close(&t);
}

static void cascade_limits(void **state)
{
    int32_t rows[] = {0, 511, 0, 0, 1, 3, 4, 5};
    esi_coords fine = {rows, 2}, out;
    int64_t resolution;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    refused(t.ctx, esi_cascade_coords(t.ctx, &out, &resolution, &fine, 511, 1024, 10), ESPALIER_ERR_INTERNAL, "outside the grid");
    refused(t.ctx, esi_cascade_coords(t.ctx, &out, &resolution, &fine, 0, 1024, 10), ESPALIER_ERR_INTERNAL, "cannot go");
    refused(t.ctx, esi_cascade_coords(t.ctx, &out, &resolution, &fine, 512, 15, 10), ESPALIER_ERR_INTERNAL, "cannot go");
    /* A target that steps of 128 never bring to 1024 still ends. */
    assert_int_equal(esi_cascade_coords(t.ctx, &out, &resolution, &fine, 512, 1200, 1), ESPALIER_OK);
    assert_int_equal(resolution, 1072);
    assert_int_equal(out.count, 2);
    esi_coords_free(t.ctx, &out);
    test_base_close(&t);
}

/* --------------------------------------------------------------- neighbours */

static void check_against_search(const int32_t *table, const int32_t *rows, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        const int32_t *r = rows + 4 * n;

        for (int tap = 0; tap < 27; tap++) {
            const int32_t wanted = test_find_row(rows, count, r[0], r[1] + tap / 9 - 1, r[2] + tap / 3 % 3 - 1, r[3] + tap % 3 - 1);

            if (table[27 * n + tap] != wanted) fail_msg("row %d tap %d: %d, not %d", (int)n, tap, table[27 * n + tap], wanted);
        }
    }
}

static void neighbors(void **state)
{
    static const struct { int32_t count, batches, low, side; } sets[] = {
        {1, 1, 0, 1},    {300, 1, 0, 7},      {900, 3, 0, 8},  {700, 1, 131072 - 9, 9}, {500, 2, 131072 - 4, 4},
        {600, 8192, 0, 3}, {800, 1, 1000, 60}, {700, 1, 3, 10}};
    static int32_t rows[4 * 900];
    uint64_t seed = 7;

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(sets); i++) {
        const int64_t count = test_random_rows(rows, sets[i].count, sets[i].batches, sets[i].low, sets[i].side, &seed);
        test_base t;
        int32_t *table = NULL;

        test_base_open(&t, 2);
        assert_int_equal(esi_neighbor_table(t.ctx, &table, rows, count), ESPALIER_OK);
        check_against_search(table, rows, count);
        esi_free(t.ctx, table);
        test_base_close(&t);
    }
}

static void neighbor_errors(void **state)
{
    const int32_t twice[] = {0, 1, 2, 3, 0, 5, 5, 5, 0, 1, 2, 3}, apart[] = {0, 1, 2, 3, 1, 1, 2, 3};
    int32_t *table = NULL;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    refused(t.ctx, esi_neighbor_table(t.ctx, &table, twice, 3), ESPALIER_ERR_INTERNAL, "occurs twice, again in row 2");
    assert_null(table);
    assert_int_equal(esi_neighbor_table(t.ctx, &table, apart, 2), ESPALIER_OK);        /* the same cell of two batches is fine */
    for (int tap = 0; tap < 27; tap++) assert_int_equal(table[27 + tap], tap == 13 ? 1 : -1);
    esi_free(t.ctx, table);
    assert_int_equal(esi_neighbor_table(t.ctx, &table, NULL, 0), ESPALIER_OK);
    assert_non_null(table);
    esi_free(t.ctx, table);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_neighbor_table(t.ctx, &table, apart, 2), ESPALIER_ERR_CANCELLED);
    assert_null(table);
    test_base_close(&t);
}

/* More than 2^20 rows, on 1, 2 and 5 threads: tap t and tap 26 - t mirror each other, the centre is the row, and taps lead to the right
 * cells. */
static void neighbors_of_a_large_shell(void **state)
{
    int32_t *first = NULL;
    esi_coords c;
    test_base t;
    int64_t present = 0;

    (void)state;
    test_base_open(&t, 1);
    test_shell(t.ctx, &c, 544);
    assert_true(c.count > 1 << 20);
    assert_int_equal(esi_neighbor_table(t.ctx, &first, c.rows, c.count), ESPALIER_OK);
    for (int64_t n = 0; n < c.count; n++) {
        for (int tap = 0; tap < 27; tap++) {
            const int32_t m = first[27 * n + tap];

            if (m < 0) continue;
            present++;
            if (first[27 * (int64_t)m + 26 - tap] != n) fail_msg("row %d tap %d is not mirrored", (int)n, tap);
            if (c.rows[4 * (int64_t)m + 1] != c.rows[4 * n + 1] + tap / 9 - 1 ||
                c.rows[4 * (int64_t)m + 2] != c.rows[4 * n + 2] + tap / 3 % 3 - 1 ||
                c.rows[4 * (int64_t)m + 3] != c.rows[4 * n + 3] + tap % 3 - 1)
                fail_msg("row %d tap %d leads to the wrong cell", (int)n, tap);
        }
        assert_int_equal(first[27 * n + 13], n);
    }
    assert_true(present > 9 * c.count);            /* a surface: about a dozen neighbours each */
    for (int threads = 2; threads <= 5; threads += 3) {
        int32_t *table = NULL;
        test_base other;

        test_base_open(&other, threads);
        assert_int_equal(esi_neighbor_table(other.ctx, &table, c.rows, c.count), ESPALIER_OK);
        assert_true(memcmp(table, first, (size_t)c.count * 108) == 0);
        esi_free(other.ctx, table);
        test_base_close(&other);
    }
    esi_free(t.ctx, first);
    esi_coords_free(t.ctx, &c);
    test_base_close(&t);
}

static void index_lookups(void **state)
{
    static int32_t rows[4 * 400];
    uint64_t seed = 3;
    const int64_t count = test_random_rows(rows, 400, 2, 0, 9, &seed);
    esi_voxel_index index;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_voxel_index_build(t.ctx, &index, rows, count), ESPALIER_OK);
    for (int32_t b = -1; b < 3; b++) {
        for (int32_t i = 0; i < 11 * 11 * 11; i++) {
            const int32_t x = i / 121 - 1, y = i / 11 % 11 - 1, z = i % 11 - 1;

            assert_int_equal(esi_voxel_index_find(&index, b, x, y, z), test_find_row(rows, count, b, x, y, z));
        }
    }
    assert_int_equal(esi_voxel_index_find(&index, 0, INT32_MAX, INT32_MIN, 0), -1);
    esi_voxel_index_free(t.ctx, &index);
    esi_voxel_index_free(t.ctx, &index);
    test_base_close(&t);
}

static void dense_neighbors(void **state)
{
    enum { R = 7 };
    static int32_t rows[R * R * R][4];
    int32_t *dense = NULL, *sparse = NULL;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < R * R * R; i++) {
        rows[i][1] = i / (R * R);
        rows[i][2] = i / R % R;
        rows[i][3] = i % R;
    }
    assert_int_equal(esi_dense_neighbor_table(t.ctx, &dense, R), ESPALIER_OK);
    assert_int_equal(esi_neighbor_table(t.ctx, &sparse, rows[0], R * R * R), ESPALIER_OK);
    assert_memory_equal(dense, sparse, R * R * R * 108);
    esi_free(t.ctx, dense);
    esi_free(t.ctx, sparse);
    refused(t.ctx, esi_dense_neighbor_table(t.ctx, &dense, 0), ESPALIER_ERR_INTERNAL, "dense volume");
    refused(t.ctx, esi_dense_neighbor_table(t.ctx, &dense, 1291), ESPALIER_ERR_INTERNAL, "dense volume");
    test_base_close(&t);
}

/* -------------------------------------------------------------- subdivision */

/* The reference's own chain of scales: decisions are recovered from parents and children, and must give back the children in their order.
 * */
static void subdivide_golden(void **state)
{
    static const char *const names[] = {"in.coords", "out.coords_up1", "out.coords_up2", "out.coords_up3", "out.coords_up4"};
    esi_weight_file *file;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    file = golden_open(t.ctx, "shape_upsample");
    for (size_t level = 0; level + 1 < ESI_COUNT(names); level++) {
        esi_coords parents = {0}, children;
        int64_t n_wanted;
        int32_t *wanted, *index = NULL;
        float *logits;
        esi_voxel_index find;

        parents.rows = golden_i32(t.ctx, file, names[level], &parents.count);
        wanted = golden_i32(t.ctx, file, names[level + 1], &n_wanted);
        logits = esi_alloc(t.ctx, (size_t)parents.count * 8, sizeof *logits, "logits");
        for (int64_t i = 0; i < parents.count * 8; i++) logits[i] = i % 3 ? 0.0f : -1.0f;
        assert_int_equal(esi_voxel_index_build(t.ctx, &find, parents.rows, parents.count), ESPALIER_OK);
        for (int64_t i = 0; i < n_wanted; i++) {
            const int32_t *c = wanted + 4 * i;
            const int32_t parent = esi_voxel_index_find(&find, c[0], c[1] / 2, c[2] / 2, c[3] / 2);

            assert_true(parent >= 0);
            logits[8 * parent + (c[1] & 1) + 2 * (c[2] & 1) + 4 * (c[3] & 1)] = 0.5f;
        }
        assert_int_equal(esi_subdivide(t.ctx, &children, &index, &parents, logits), ESPALIER_OK);
        assert_int_equal(children.count, n_wanted);
        assert_memory_equal(children.rows, wanted, (size_t)n_wanted * 16);
        for (int64_t i = 0; i < n_wanted; i++) {
            const int32_t *c = wanted + 4 * i, *p = parents.rows + 4 * (index[i] / 8), k = index[i] % 8;

            assert_true(c[1] == 2 * p[1] + (k & 1) && c[2] == 2 * p[2] + (k >> 1 & 1) && c[3] == 2 * p[3] + (k >> 2));
        }
        esi_voxel_index_free(t.ctx, &find);
        esi_free(t.ctx, index);
        esi_free(t.ctx, logits);
        esi_free(t.ctx, wanted);
        esi_coords_free(t.ctx, &children);
        esi_coords_free(t.ctx, &parents);
    }
    esi_weight_file_free(file);
    test_base_close(&t);
}

static void subdivide_limits(void **state)
{
    int32_t rows[] = {2, 3, 4, 5, 0, 65535, 0, 0, 0, 65536, 0, 0};
    float logits[24] = {0};
    const int32_t wanted[] = {2, 7, 8, 10, 2, 6, 9, 11};
    esi_coords parents = {rows, 1}, children;
    int32_t *index;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    logits[0] = -0.0f;
    logits[1] = 1e-38f;
    logits[2] = NAN;
    logits[6] = INFINITY;
    assert_int_equal(esi_subdivide(t.ctx, &children, &index, &parents, logits), ESPALIER_OK);
    assert_int_equal(children.count, 2);
    assert_memory_equal(children.rows, wanted, sizeof wanted);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], 6);
    esi_free(t.ctx, index);
    esi_coords_free(t.ctx, &children);
    /* The largest coordinate that still has children, and the next one. */
    parents.count = 2;
    logits[9] = 1.0f;
    assert_int_equal(esi_subdivide(t.ctx, &children, &index, &parents, logits), ESPALIER_OK);
    assert_int_equal(children.rows[9], 131071);
    esi_free(t.ctx, index);
    esi_coords_free(t.ctx, &children);
    parents.count = 3;
    logits[16] = 1.0f;
    refused(t.ctx, esi_subdivide(t.ctx, &children, &index, &parents, logits), ESPALIER_ERR_INTERNAL, "row 2 cannot be subdivided");
    assert_null(index);
    assert_null(children.rows);
    /* Nobody has children. */
    memset(logits, 0, sizeof logits);
    assert_int_equal(esi_subdivide(t.ctx, &children, &index, &parents, logits), ESPALIER_OK);
    assert_int_equal(children.count, 0);
    esi_free(t.ctx, index);
    esi_coords_free(t.ctx, &children);
    test_base_close(&t);
}

static void lineage_release(void **state)
{
    const int32_t rows[] = {0, 1, 2, 3};
    esi_lineage l = {.levels = 2};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_coords_copy(t.ctx, &l.level[0].coords, rows, 1), ESPALIER_OK);
    assert_memory_equal(l.level[0].coords.rows, rows, sizeof rows);
    l.level[0].subdivision_logits = esi_alloc(t.ctx, 8, 4, "logits");
    l.level[1].index = esi_alloc(t.ctx, 1, 4, "index");
    esi_lineage_free(t.ctx, &l);
    assert_int_equal(l.levels, 0);
    esi_lineage_free(t.ctx, &l);
    esi_lineage_free(t.ctx, NULL);
    test_base_close(&t);
}

/* ---------------------------------------------------------------- decisions */

static void decisions(void **state)
{
    const float first[] = {NAN, 1.0f, -2.0f, 0.0f, 1e-4f, -1e-3f, 0.0099f}, second[] = {-5e-5f};
    esi_decision_stats s = {0};

    (void)state;
    esi_decision_stats_add(&s, first, 0);
    assert_int_equal(s.count, 0);
    esi_decision_stats_add(&s, first, 3);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.yes, 1);
    assert_int_equal(s.within_1e2, 0);
    assert_true(s.min_abs == 1.0);
    esi_decision_stats_add(&s, second, 1);
    assert_true(s.min_abs == (double)5e-5f);
    esi_decision_stats_add(&s, first + 3, 4);
    assert_int_equal(s.count, 8);
    assert_int_equal(s.yes, 3);
    assert_int_equal(s.within_1e4, 3);
    assert_int_equal(s.within_1e3, 4);
    assert_int_equal(s.within_1e2, 5);
    assert_true(s.min_abs == 0.0);
}

/* ------------------------------------------------------ failing allocations */

static espalier_status everything(espalier_context *ctx, const int32_t *rows, int64_t count)
{
    esi_coords c = {0}, children = {0};
    int32_t *table = NULL, *index = NULL;
    int64_t resolution;
    espalier_status st = esi_coords_sort_unique(ctx, &c, rows, count);

    if (st == ESPALIER_OK) st = esi_neighbor_table(ctx, &table, c.rows, c.count);
    if (st == ESPALIER_OK) {
        float logits[8 * 64];

        for (int i = 0; i < 8 * 64; i++) logits[i] = 1.0f;
        st = esi_subdivide(ctx, &children, &index, &c, logits);
    }
    esi_coords_free(ctx, &c);
    if (st == ESPALIER_OK) st = esi_cascade_coords(ctx, &c, &resolution, &children, 512, 1024, 100);
    esi_coords_free(ctx, &c);
    if (st == ESPALIER_OK) {
        const float volume[] = {1, 1, 1, 1, 1, 1, 1, 1};

        st = esi_coords_from_occupancy(ctx, &c, volume, 2, 1);
    }
    esi_free(ctx, table);
    if (st == ESPALIER_OK) st = esi_dense_neighbor_table(ctx, &table, 3);
    else table = NULL;
    esi_free(ctx, table);
    esi_free(ctx, index);
    esi_coords_free(ctx, &children);
    esi_coords_free(ctx, &c);
    return st;
}

static void failing_allocations(void **state)
{
    static int32_t rows[4 * 64];
    uint64_t seed = 5;
    const int64_t count = test_random_rows(rows, 64, 1, 0, 8, &seed);
    espalier_status st = ESPALIER_ERR_RESOURCE;
    test_base t;
    long n;

    (void)state;
    test_base_open(&t, 2);
    for (n = 1; st != ESPALIER_OK && n < 100; n++) {
        test_fail_at(&t.memory, n);
        st = everything(t.ctx, rows, count);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    assert_true(n > 12 && n < 100);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),           cmocka_unit_test(ranges),
        cmocka_unit_test(sort_unique),    cmocka_unit_test(occupancy),
        cmocka_unit_test(cascade),        cmocka_unit_test(cascade_limits),
        cmocka_unit_test(neighbors),      cmocka_unit_test(neighbor_errors),
        cmocka_unit_test(index_lookups),  cmocka_unit_test(neighbors_of_a_large_shell),
        cmocka_unit_test(dense_neighbors), cmocka_unit_test(subdivide_golden),
        cmocka_unit_test(subdivide_limits), cmocka_unit_test(lineage_release),
        cmocka_unit_test(decisions),      cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
