/* SPDX-License-Identifier: MIT
 *
 * test_voxelize.c: meshes to flexible dual grids. The reference mode has its golden cases; here is the exact mode: closed stays closed
 * wherever the mesh lies, flags against an independent inside test, round trips, and the usual hardness.
 */
#include "voxel_fixture.h"

#include "mesh/compare.h"
#include "mesh/topology.h"
#include "ply_fixture.h"
#include "shape_fixture.h"
#include "voxel/parity.h"
#include "voxel/voxelize.h"

static esi_dual_grid describe(const esi_voxelized *v, const esi_voxelize_options *o)
{
    esi_dual_grid g = {.coords = v->coords, .count = v->count, .local = v->local, .intersected = v->intersected};

    memcpy(g.aabb_min, o->aabb_min, sizeof g.aabb_min);
    memcpy(g.aabb_max, o->aabb_max, sizeof g.aabb_max);
    memcpy(g.grid, o->resolution, sizeof g.grid);
    return g;
}

/* Voxel faces with an odd number of flagged edges that have all four voxels; *dropped: flagged edges that have not. */
static int64_t odd_faces(espalier_context *ctx, const esi_voxelized *v, int64_t *dropped)
{
    esi_voxel_index index;
    esi_parity_grid grid;
    int64_t odd = -1;

    *dropped = 0;
    assert_int_equal(esi_voxel_index_build(ctx, &index, v->coords, v->count), ESPALIER_OK);
    assert_int_equal(esi_parity_grid_open(ctx, &grid, v->coords, v->count, &index, v->intersected), ESPALIER_OK);
    assert_int_equal(esi_parity_count_odd(ctx, &odd, &grid), ESPALIER_OK);
    for (int64_t i = 0; i < 3 * v->count; i++) *dropped += v->intersected[i] && !(grid.complete[i / 3] >> i % 3 & 1);
    esi_free(ctx, grid.complete);
    esi_voxel_index_free(ctx, &index);
    return odd;
}

static void check_rows(const esi_voxelized *v, const esi_voxelize_options *o)
{
    for (int64_t i = 0; i < v->count; i++) {
        const int32_t *c = v->coords + 4 * i;

        assert_int_equal(c[0], 0);
        if (i > 0) assert_true(memcmp(c, c - 4, 16) != 0);
        if (i > 0) assert_true(c[1] > c[-3] || (c[1] == c[-3] && (c[2] > c[-2] || (c[2] == c[-2] && c[3] > c[-1]))));
        for (int a = 0; a < 3; a++) {
            const double size = ((double)o->aabb_max[a] - (double)o->aabb_min[a]) / o->resolution[a];

            assert_true(c[1 + a] >= 0 && c[1 + a] < o->resolution[a]);
            assert_true(v->local[3 * i + a] >= 0.0f && v->local[3 * i + a] <= 1.0f);
            assert_true(fabs((double)v->vertices[3 * i + a] - ((double)c[1 + a] + (double)v->local[3 * i + a]) * size) <
                        2e-7 * ((double)o->aabb_max[a] - (double)o->aabb_min[a]));
        }
    }
}

/* Closed in, closed out: no odd face, no quad that lacks a voxel. */
static void check_closed(espalier_context *ctx, const esi_mesh *mesh, const esi_voxelize_options *o, const char *what)
{
    esi_voxelized v;
    int64_t odd, dropped;

    if (esi_voxelize(ctx, &v, mesh, o) != ESPALIER_OK) fail_msg("%s: %s", what, espalier_error_message(ctx));
    check_rows(&v, o);
    odd = odd_faces(ctx, &v, &dropped);
    if (odd != 0 || dropped != 0) {
        fail_msg("%s at %d: %lld odd faces, %lld quads lost", what, (int)o->resolution[0], (long long)odd, (long long)dropped);
    }
    esi_voxelized_free(ctx, &v);
}

static void boxes_on_grid_planes(void **state)
{
    static const int resolutions[] = {5, 16, 24, 37, 64};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(resolutions); i++) {
        const int n = resolutions[i];
        const esi_voxelize_options o = esi_voxelize_options_default(n);
        esi_mesh mesh;

        /* From plane to plane, rounded to fp32 both ways; then the whole box. */
        for (int k = 1; k < n / 2; k += ESI_MAX(1, n / 12)) {
            const float low[3] = {(float)k / (float)n - 0.5f, (float)((double)k / n - 0.5), (float)k * (1.0f / (float)n) - 0.5f};
            const float high[3] = {-low[0], -low[1], (float)(n - k) / (float)n - 0.5f};

            shape_box(t.ctx, &mesh, low, high);
            check_closed(t.ctx, &mesh, &o, "box on planes");
            esi_mesh_free(t.ctx, &mesh);
        }
        shape_box(t.ctx, &mesh, (float[]){-0.5f, -0.5f, -0.5f}, (float[]){0.5f, 0.5f, 0.5f});
        check_closed(t.ctx, &mesh, &o, "the whole box");
        for (int v = 0; v < 24; v++) mesh.vertices[v] *= 1.0000002f;           /* rounded beyond it */
        check_closed(t.ctx, &mesh, &o, "a hair more than the box");
        esi_mesh_free(t.ctx, &mesh);
    }
    test_base_close(&t);
}

/* The inputs of the golden case that are closed, on several grids: aligned, rotated, nested, thin. */
static void golden_inputs_stay_closed(void **state)
{
    static const char *const names[] = {"sphere", "cube_offgrid", "cube_ongrid", "cube_ongrid24", "cube_rot", "torus", "nested_boxes",
                                        "thin_plate_axis"};
    esi_weight_file *file;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    file = golden_open(t.ctx, "mesh_to_dual_grid");
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        char key[64];
        float *vertices;
        int32_t *faces;
        int64_t n_vertices, n_faces;
        esi_mesh mesh;

        snprintf(key, sizeof key, "in.%s.vertices", names[i]);
        vertices = golden_f32(t.ctx, file, key);
        n_vertices = esi_weight_file_find(file, key)->shape[0];
        snprintf(key, sizeof key, "in.%s.faces", names[i]);
        faces = golden_i32(t.ctx, file, key, &n_faces);
        assert_int_equal(esi_mesh_copy(t.ctx, &mesh, vertices, n_vertices, faces, n_faces), ESPALIER_OK);
        for (int n = 16; n <= 128; n = n * 3 / 2) {
            const esi_voxelize_options o = esi_voxelize_options_default(n);

            check_closed(t.ctx, &mesh, &o, names[i]);
        }
        esi_mesh_free(t.ctx, &mesh);
        esi_free(t.ctx, vertices);
        esi_free(t.ctx, faces);
    }
    esi_weight_file_free(file);
    test_base_close(&t);
}

/* Side of a plane through three points, exact enough for points that are not on it. */
static double side(const float *a, const float *b, const float *c, const double p[3])
{
    double u[3], v[3], w[3];

    for (int i = 0; i < 3; i++) {
        u[i] = (double)b[i] - (double)a[i];
        v[i] = (double)c[i] - (double)a[i];
        w[i] = p[i] - (double)a[i];
    }
    return (u[1] * v[2] - u[2] * v[1]) * w[0] + (u[2] * v[0] - u[0] * v[2]) * w[1] + (u[0] * v[1] - u[1] * v[0]) * w[2];
}

static bool inside_tetrahedron(const float *v, const double p[3])
{
    static const int faces[4][4] = {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 3, 1}, {1, 2, 3, 0}};

    for (int f = 0; f < 4; f++) {
        const double *apex = (double[]){(double)v[3 * faces[f][3]], (double)v[3 * faces[f][3] + 1], (double)v[3 * faces[f][3] + 2]};
        const float *a = v + 3 * faces[f][0], *b = v + 3 * faces[f][1], *c = v + 3 * faces[f][2];

        if (side(a, b, c, p) * side(a, b, c, apex) <= 0.0) return false;
    }
    return true;
}

enum { CELLS = 12 };

/* Is exactly one end of edge a of cell c inside? The outermost planes are 1/256 of a cell farther out: what lies there counts for the cell
 * within. Edges on the border of the grid have no four cells and count as not crossed. */
static bool edge_changes_side(const float *v, const int c[3], int a)
{
    bool inside[2];

    if (c[(a + 1) % 3] == CELLS - 1 || c[(a + 2) % 3] == CELLS - 1) return false;
    for (int end = 0; end < 2; end++) {
        double p[3] = {c[0] + 1.0, c[1] + 1.0, c[2] + 1.0};

        p[a] = c[a] + end;
        if (p[a] == 0.0) p[a] = -1.0 / 256.0;
        if (p[a] == CELLS) p[a] = CELLS + 1.0 / 256.0;
        for (int i = 0; i < 3; i++) p[i] = p[i] / CELLS - 0.5;
        inside[end] = inside_tetrahedron(v, p);
    }
    return inside[0] != inside[1];
}

/* Random tetrahedra, also far beyond the box: an edge is flagged exactly if one of its ends is inside and the other is not. A cell has a
 * row exactly if an edge around it is flagged. */
static void flags_are_changes_of_inside(void **state)
{
    static const int32_t faces[4][3] = {{0, 1, 2}, {0, 3, 1}, {0, 2, 3}, {1, 3, 2}};
    static bool changes[CELLS][CELLS][CELLS][3], row[CELLS][CELLS][CELLS];
    const esi_voxelize_options o = esi_voxelize_options_default(CELLS);
    uint64_t seed = 77;
    int64_t flagged = 0, clipped = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int round = 0; round < 200; round++) {
        const double spread = (double[]){0.4, 1.0, 3.0, 40.0}[round % 4];
        float v[12];
        esi_mesh mesh;
        esi_voxelized out;
        espalier_status st;
        int64_t rows = 0;

        for (int i = 0; i < 12; i++) v[i] = (float)(((double)test_random(&seed) / 4294967296.0 - 0.5) * 2.0 * spread);
        if (round % 4 == 3) memcpy(v, (float[]){-30.0f, 0.013f, -20.0f}, 12);
        assert_int_equal(esi_mesh_copy(t.ctx, &mesh, v, 4, faces[0], 4), ESPALIER_OK);
        memset(row, 0, sizeof row);
        for (int i = 0; i < CELLS * CELLS * CELLS * 3; i++) {
            const int a = i % 3, c[3] = {i / 3 / CELLS / CELLS, i / 3 / CELLS % CELLS, i / 3 % CELLS};

            changes[c[0]][c[1]][c[2]][a] = edge_changes_side(v, c, a);
            for (int k = 0; k < 4 && changes[c[0]][c[1]][c[2]][a]; k++) {
                int q[3] = {c[0], c[1], c[2]};

                q[(a + 1) % 3] += k & 1;
                q[(a + 2) % 3] += k >> 1;
                rows += !row[q[0]][q[1]][q[2]];
                row[q[0]][q[1]][q[2]] = true;
            }
        }
        st = esi_voxelize(t.ctx, &out, &mesh, &o);
        esi_mesh_free(t.ctx, &mesh);
        if (rows == 0) {
            assert_int_equal(st, ESPALIER_ERR_INPUT);
            esi_clear_error(t.ctx);
            continue;
        }
        if (st != ESPALIER_OK) fail_msg("%s", espalier_error_message(t.ctx));
        check_rows(&out, &o);
        assert_int_equal(out.count, rows);
        for (int64_t i = 0; i < out.count; i++) {
            const int32_t *c = out.coords + 4 * i + 1;

            assert_true(row[c[0]][c[1]][c[2]]);
            for (int a = 0; a < 3; a++) {
                assert_int_equal(out.intersected[3 * i + a], changes[c[0]][c[1]][c[2]][a]);
                flagged += out.intersected[3 * i + a];
            }
        }
        clipped += out.stats.clipped_faces;
        esi_voxelized_free(t.ctx, &out);
    }
    assert_true(flagged > 5000 && clipped > 100);
    test_base_close(&t);
}

/* -------------------------------------------------------------- round trips */

/* Mesh -> grid -> mesh: closedness and Hausdorff distance in voxels. */
static void round_trip(espalier_context *ctx, const esi_mesh *mesh, int n, bool closed, double limit, const char *what)
{
    const esi_voxelize_options o = esi_voxelize_options_default(n);
    esi_voxelized v;
    esi_dual_grid g;
    esi_mesh back = {0};
    esi_mesh_distance d;
    esi_edges edges;
    int64_t odd = 0;

    if (esi_voxelize(ctx, &v, mesh, &o) != ESPALIER_OK) fail_msg("%s: %s", what, espalier_error_message(ctx));
    g = describe(&v, &o);
    assert_int_equal(esi_dual_grid_to_mesh(ctx, &g, &back.vertices, &back.faces, &back.n_faces), ESPALIER_OK);
    back.n_vertices = v.count;
    assert_int_equal(esi_edges_build(ctx, &edges, &back), ESPALIER_OK);
    for (int64_t i = 0; i < edges.count; i++) odd += edges.edges[i].count & 1;
    assert_int_equal(esi_mesh_compare(ctx, &d, mesh, &back, 100000), ESPALIER_OK);
    print_message("%s at %d: %lld faces, Hausdorff %.3f voxels, mean %.4f / %.4f, %lld odd edges, %lld of %lld crossings double\n", what, n,
                  (long long)back.n_faces, d.hausdorff * n, d.mean_ab * n, d.mean_ba * n, (long long)odd,
                  (long long)v.stats.double_crossings, (long long)v.stats.crossings);
    if (closed) assert_int_equal(odd, 0);
    assert_true(d.hausdorff * n <= limit);
    esi_edges_free(ctx, &edges);
    esi_mesh_free(ctx, &back);
    esi_voxelized_free(ctx, &v);
}

static void round_trips(void **state)
{
    const float low[3] = {-0.31f, -0.4f, -0.123f}, high[3] = {0.3f, 0.211f, 0.4001f};
    esi_mesh mesh;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    shape_box(t.ctx, &mesh, low, high);
    round_trip(t.ctx, &mesh, 256, true, 0.05, "box");                /* corners and edges are found again */
    esi_mesh_free(t.ctx, &mesh);
    shape_box(t.ctx, &mesh, (float[]){-0.5f, -0.5f, -0.5f}, (float[]){0.5f, 0.5f, 0.5f});
    round_trip(t.ctx, &mesh, 100, true, 0.05, "whole box");
    esi_mesh_free(t.ctx, &mesh);
    shape_torus(t.ctx, &mesh, 0.35, 0.1, 200, 80);
    round_trip(t.ctx, &mesh, 256, true, 0.5, "torus");
    esi_mesh_free(t.ctx, &mesh);
    shape_torus(t.ctx, &mesh, 0.4, 0.005, 300, 24);                  /* a ring 2.6 voxels thick */
    round_trip(t.ctx, &mesh, 256, true, 1.5, "thin ring");
    esi_mesh_free(t.ctx, &mesh);
    shape_sphere(t.ctx, &mesh, 0.45, 100, 60);
    round_trip(t.ctx, &mesh, 256, true, 0.5, "sphere");
    round_trip(t.ctx, &mesh, 1024, true, 0.5, "sphere");
    esi_mesh_free(t.ctx, &mesh);
    test_base_close(&t);
}

/* Meshes that must not be copied into the repository lie beside it. */
static void real_meshes(void **state)
{
    static const struct {
        const char *name;
        bool closed;
    } meshes[] = {{"real_bunny", true}, {"real_armadillo", true}, {"real_elephant_with_holes", false}, {"real_mech_holes_shark", false}};
    int found = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(meshes); i++) {
        char path[1024];
        esi_mesh mesh = {0};

        snprintf(path, sizeof path, "%s/../../shared/golden/geometry/meshes/%s.ply", ESPALIER_TEST_DATA, meshes[i].name);
        if (!ply_fixture_read(t.ctx, &mesh, path)) continue;
        found++;
        round_trip(t.ctx, &mesh, 256, meshes[i].closed, 1.5, meshes[i].name);
        esi_mesh_free(t.ctx, &mesh);
    }
    if (!found) print_message("SKIPPED: no real meshes beside the source tree\n");
    test_base_close(&t);
}

/* -------------------------------------------------------------------- hardness */

static void threads_do_not_matter(void **state)
{
    uint8_t *first = NULL;
    size_t size = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        const esi_voxelize_options o = esi_voxelize_options_default(160);
        esi_voxelized v;
        esi_mesh mesh;
        uint8_t *bytes;
        test_base t;

        test_base_open(&t, (int[]){1, 2, 5}[i]);
        shape_torus(t.ctx, &mesh, 0.33, 0.2, 211, 97);               /* leaves the box */
        assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_OK);
        assert_true(v.stats.clipped_faces > 100 && v.count > 10000);
        bytes = malloc((size_t)v.count * 43);
        memcpy(bytes, v.coords, (size_t)v.count * 16);
        memcpy(bytes + v.count * 16, v.vertices, (size_t)v.count * 12);
        memcpy(bytes + v.count * 28, v.local, (size_t)v.count * 12);
        memcpy(bytes + v.count * 40, v.intersected, (size_t)v.count * 3);
        if (i > 0) assert_int_equal(size, (size_t)v.count * 43);
        if (i > 0) assert_memory_equal(bytes, first, size);
        size = (size_t)v.count * 43;
        free(first);
        first = bytes;
        esi_voxelized_free(t.ctx, &v);
        esi_mesh_free(t.ctx, &mesh);
        test_base_close(&t);
    }
    free(first);
}

/* The same faces with a vertex of their own for each corner: nothing is different, no seam becomes an open edge. */
static void seams_do_not_matter(void **state)
{
    const esi_voxelize_options o = esi_voxelize_options_default(64);
    esi_voxelized a, b;
    esi_mesh mesh, soup;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    shape_torus(t.ctx, &mesh, 0.3, 0.11, 40, 20);
    assert_int_equal(esi_mesh_new(t.ctx, &soup, 3 * mesh.n_faces, mesh.n_faces), ESPALIER_OK);
    for (int64_t i = 0; i < 3 * mesh.n_faces; i++) {
        memcpy(soup.vertices + 3 * i, mesh.vertices + 3 * mesh.faces[i], 12);
        soup.faces[i] = (int32_t)i;
    }
    assert_int_equal(esi_voxelize(t.ctx, &a, &mesh, &o), ESPALIER_OK);
    assert_int_equal(esi_voxelize(t.ctx, &b, &soup, &o), ESPALIER_OK);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.coords, b.coords, (size_t)a.count * 16);
    assert_memory_equal(a.local, b.local, (size_t)a.count * 12);
    assert_memory_equal(a.intersected, b.intersected, (size_t)a.count * 3);
    esi_voxelized_free(t.ctx, &a);
    esi_voxelized_free(t.ctx, &b);
    esi_mesh_free(t.ctx, &mesh);
    esi_mesh_free(t.ctx, &soup);
    test_base_close(&t);
}

/* A sheet: its rim runs at its place, because open edges pull the vertices. */
static void open_sheet(void **state)
{
    const float v[4][3] = {{-0.307f, -0.211f, 0.013f}, {0.289f, -0.211f, 0.013f}, {0.289f, 0.377f, 0.013f}, {-0.307f, 0.377f, 0.013f}};
    const int32_t f[2][3] = {{0, 1, 2}, {0, 2, 3}};
    esi_voxelize_options o = esi_voxelize_options_default(32);
    double off[2] = {0.0, 0.0};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int k = 0; k < 2; k++) {
        esi_voxelized out;
        esi_mesh mesh;
        float low = 1.0f;

        o.boundary_weight = k == 0 ? 0.2 : 0.0;
        assert_int_equal(esi_mesh_copy(t.ctx, &mesh, v[0], 4, f[0], 2), ESPALIER_OK);
        assert_int_equal(esi_voxelize(t.ctx, &out, &mesh, &o), ESPALIER_OK);
        check_rows(&out, &o);
        for (int64_t i = 0; i < out.count; i++) {
            assert_true(fabsf(out.vertices[3 * i + 2] - 0.513f) < 1e-6f);
            low = out.vertices[3 * i] < low ? out.vertices[3 * i] : low;
        }
        off[k] = fabs((double)low - 0.193) * 32.0;
        esi_voxelized_free(t.ctx, &out);
        esi_mesh_free(t.ctx, &mesh);
    }
    assert_true(off[0] < 0.05 && off[1] > 0.1);
    test_base_close(&t);
}

/* Two sheets in one cell: crossed twice, not flagged, and counted. */
static void thin_sheets_are_counted(void **state)
{
    const esi_voxelize_options o = esi_voxelize_options_default(32);
    const float h = 1.0f / 32.0f;
    esi_voxelized v;
    esi_mesh mesh;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    shape_box(t.ctx, &mesh, (float[]){-5.5f * h, -5.5f * h, 0.25f * h}, (float[]){5.5f * h, 5.5f * h, 0.75f * h});
    assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_ERR_INPUT);         /* nothing of it is left */
    esi_clear_error(t.ctx);
    esi_mesh_free(t.ctx, &mesh);
    shape_box(t.ctx, &mesh, (float[]){-5.5f * h, -5.5f * h, 0.25f * h}, (float[]){5.5f * h, 5.5f * h, 1.75f * h});
    assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_OK);                /* lattice points inside: it stays */
    assert_int_equal(v.stats.crossings, 11 * 11 * 2 + 4 * 11);
    assert_int_equal(v.stats.double_crossings, 0);
    esi_voxelized_free(t.ctx, &v);
    esi_mesh_free(t.ctx, &mesh);
    /* A wedge: thick at one end. */
    shape_box(t.ctx, &mesh, (float[]){-5.5f * h, -5.5f * h, 0.25f * h}, (float[]){5.5f * h, 5.5f * h, 0.75f * h});
    for (int i = 0; i < 8; i++) {
        if (i & 1 && i & 4) mesh.vertices[3 * i + 2] = 3.0f * h;
    }
    assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_OK);
    assert_true(v.stats.double_crossings == 11);                     /* the first line of points, where the wedge is below one cell */
    esi_voxelized_free(t.ctx, &v);
    esi_mesh_free(t.ctx, &mesh);
    test_base_close(&t);
}

static void other_boxes(void **state)
{
    esi_voxelize_options o = esi_voxelize_options_default(32);
    esi_mesh mesh;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    o.resolution[0] = 50;
    o.resolution[2] = 21;
    memcpy(o.aabb_min, (float[]){10.0f, -3.0f, 0.5f}, 12);
    memcpy(o.aabb_max, (float[]){12.5f, -1.0f, 0.9f}, 12);
    shape_box(t.ctx, &mesh, (float[]){10.2f, -2.7f, 0.55f}, (float[]){12.1f, -1.3f, 0.85f});
    check_closed(t.ctx, &mesh, &o, "box far away");
    {
        esi_voxelized v;
        double worst = 0.0;

        assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_OK);
        /* Every vertex lies on the box. */
        for (int64_t i = 0; i < v.count; i++) {
            double nearest = 1.0;

            for (int a = 0; a < 3; a++) {
                const double p = (double)v.vertices[3 * i + a] + (double)o.aabb_min[a];

                nearest = fmin(nearest, fmin(fabs(p - (double)mesh.vertices[a]), fabs(p - (double)mesh.vertices[21 + a])));
            }
            worst = fmax(worst, nearest);
        }
        assert_true(worst < 2e-4);
        esi_voxelized_free(t.ctx, &v);
    }
    esi_mesh_free(t.ctx, &mesh);
    test_base_close(&t);
}

static void refusals(void **state)
{
    const float low[3] = {-0.3f, -0.3f, -0.3f}, high[3] = {0.3f, 0.3f, 0.3f};
    esi_mesh mesh, nothing = {0};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    shape_box(t.ctx, &mesh, low, high);
    for (int i = 0; i < 8; i++) {
        esi_voxelize_options o = esi_voxelize_options_default(16);
        esi_voxelized v;

        if (i == 0) o.resolution[1] = 0;
        if (i == 1) o.resolution[1] = 2049;
        if (i == 2) o.aabb_max[2] = o.aabb_min[2];
        if (i == 3) o.aabb_max[2] = (float)NAN;
        if (i == 4) o.regularization = (double)NAN;
        if (i == 5) o.aabb_min[0] = 1.0f, o.aabb_max[0] = 2.0f;         /* beside the mesh */
        o.reference = i == 7;
        assert_int_equal(esi_voxelize(t.ctx, &v, i >= 6 ? &nothing : &mesh, &o), ESPALIER_ERR_INPUT);
        assert_null(v.coords);
        esi_clear_error(t.ctx);
    }
    {
        esi_voxelize_options o = esi_voxelize_options_default(1);      /* one cell has no inner edge */
        esi_voxelized v;

        assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_ERR_INPUT);
        esi_clear_error(t.ctx);
    }
    /* What is not finite or very far away is left out. */
    {
        const esi_voxelize_options o = esi_voxelize_options_default(16);
        esi_voxelized v;

        mesh.vertices[0] = (float)NAN;
        mesh.vertices[4] = 3e38f;
        mesh.vertices[8] = -3e38f;
        if (esi_voxelize(t.ctx, &v, &mesh, &o) == ESPALIER_OK) check_rows(&v, &o);
        esi_clear_error(t.ctx);
        esi_voxelized_free(t.ctx, &v);
    }
    esi_mesh_free(t.ctx, &mesh);
    test_base_close(&t);
}

static void failing_allocations(void **state)
{
    for (int part = 0; part < 3; part++) {
        esi_voxelize_options o = esi_voxelize_options_default(20);
        espalier_status st = ESPALIER_ERR_RESOURCE;
        esi_mesh mesh;
        esi_voxelized v;
        uint64_t held;
        test_base t;
        long n;

        (void)state;
        test_base_open(&t, part == 1 ? 2 : 1);
        o.reference = part == 2;
        shape_torus(t.ctx, &mesh, 0.4, 0.15, 30, 12);               /* part of it is cut off */
        mesh.n_faces -= 5;
        held = espalier_context_memory_now(t.ctx);
        for (n = 1; st != ESPALIER_OK && n < 400; n++) {
            test_fail_at(&t.memory, n);
            st = esi_voxelize(t.ctx, &v, &mesh, &o);
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            if (st != ESPALIER_OK) assert_null(v.coords);
            esi_clear_error(t.ctx);
            esi_voxelized_free(t.ctx, &v);
            assert_int_equal(espalier_context_memory_now(t.ctx), held);
        }
        assert_true(n > 10 && n < 400);
        test_fail_at(&t.memory, 0);
        espalier_context_cancel(t.ctx);
        assert_int_equal(esi_voxelize(t.ctx, &v, &mesh, &o), ESPALIER_ERR_CANCELLED);
        esi_clear_error(t.ctx);
        esi_mesh_free(t.ctx, &mesh);
        test_base_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_on_grid_planes), cmocka_unit_test(golden_inputs_stay_closed), cmocka_unit_test(flags_are_changes_of_inside),
        cmocka_unit_test(round_trips),          cmocka_unit_test(real_meshes),               cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(seams_do_not_matter),  cmocka_unit_test(open_sheet),                cmocka_unit_test(thin_sheets_are_counted),
        cmocka_unit_test(other_boxes),          cmocka_unit_test(refusals),                  cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
