/* SPDX-License-Identifier: MIT
 *
 * The bounding volume tree against searches through all faces in double: nearest points with their ties, lines and points for faces, bounds
 * and hints, facing faces, rays through insides, edges and corners, boxes.
 */
#include "support.h"

#include "mesh/bvh_packet.h"

#include <math.h>

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33);
}

static float random_float(void) { return (float)random_bits() / 2147483648.0f - 0.5f; }

/* ------------------------------------------------------------------- meshes */

static esi_mesh random_soup(espalier_context *ctx, int64_t faces, float size)
{
    esi_mesh m;

    assert_int_equal(esi_mesh_new(ctx, &m, 3 * faces, faces), ESPALIER_OK);
    for (int64_t f = 0; f < faces; f++) {
        const float centre[3] = {random_float(), random_float(), random_float()};

        for (int i = 0; i < 9; i++) m.vertices[9 * f + i] = centre[i % 3] + size * random_float();
        for (int i = 0; i < 3; i++) m.faces[3 * f + i] = (int32_t)(3 * f + i);
        if (f % 17 == 3) memcpy(m.vertices + 9 * f + 6, m.vertices + 9 * f + 3, 12);           /* a segment */
        if (f % 17 == 7) {                                                                  /* a point */
            memcpy(m.vertices + 9 * f + 6, m.vertices + 9 * f, 12);
            memcpy(m.vertices + 9 * f + 3, m.vertices + 9 * f, 12);
        }
        if (f % 17 == 11) {                                                                 /* three points on a line */
            for (int k = 0; k < 3; k++) m.vertices[9 * f + 6 + k] = 0.5f * (m.vertices[9 * f + k] + m.vertices[9 * f + 3 + k]);
        }
    }
    return m;
}

/* n by n by n shared vertices with two triangles per square on the six sides of a cube. */
static esi_mesh cube(espalier_context *ctx, int n)
{
    const int side = (n + 1) * (n + 1);
    esi_mesh m;
    int64_t f = 0;

    assert_int_equal(esi_mesh_new(ctx, &m, 6 * side, 12 * n * n), ESPALIER_OK);
    for (int s = 0; s < 6; s++) {
        for (int i = 0; i <= n; i++) {
            for (int j = 0; j <= n; j++) {
                float *v = m.vertices + 3 * (s * side + i * (n + 1) + j);

                v[s / 2] = s % 2 ? 0.5f : -0.5f;
                v[(s / 2 + 1) % 3] = (float)i / (float)n - 0.5f;
                v[(s / 2 + 2) % 3] = (float)j / (float)n - 0.5f;
            }
        }
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                const int32_t a = s * side + i * (n + 1) + j, b = a + n + 1, c = b + 1, d = a + 1;
                const int32_t out[2][3] = {{a, b, c}, {a, c, d}}, in[2][3] = {{a, c, b}, {a, d, c}};

                memcpy(m.faces + 3 * f, s % 2 ? out : in, sizeof out);
                f += 2;
            }
        }
    }
    return m;
}

/* ------------------------------------------------------------ plain searches */

static double dot(const double a[3], const double b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static double segment_distance2(const double p[3], const double a[3], const double b[3])
{
    double ab[3], d[3], t = 0.0;

    for (int k = 0; k < 3; k++) ab[k] = b[k] - a[k];
    for (int k = 0; k < 3; k++) t += (p[k] - a[k]) * ab[k];
    t = dot(ab, ab) > 0.0 ? t / dot(ab, ab) : 0.0;
    t = t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t;
    for (int k = 0; k < 3; k++) d[k] = a[k] + t * ab[k] - p[k];
    return dot(d, d);
}

static void corners_of(const esi_mesh *m, int64_t f, double v[3][3])
{
    for (int i = 0; i < 9; i++) v[i / 3][i % 3] = (double)m->vertices[3 * (int64_t)m->faces[3 * f + i / 3] + i % 3];
}

/* The plane's foot if it lies inside, else the nearest of the three sides: another way than the tree's. */
static double face_distance2(const esi_mesh *m, int64_t f, const double p[3])
{
    double v[3][3], e[3][3], n[3], best;
    bool inside;

    corners_of(m, f, v);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) e[i][k] = v[(i + 1) % 3][k] - v[i][k];
    }
    for (int k = 0; k < 3; k++) n[k] = e[0][(k + 1) % 3] * e[1][(k + 2) % 3] - e[0][(k + 2) % 3] * e[1][(k + 1) % 3];
    inside = dot(n, n) > 1e-26;
    for (int i = 0; i < 3 && inside; i++) {
        double c[3], r[3];

        for (int k = 0; k < 3; k++) r[k] = p[k] - v[i][k];
        for (int k = 0; k < 3; k++) c[k] = e[i][(k + 1) % 3] * r[(k + 2) % 3] - e[i][(k + 2) % 3] * r[(k + 1) % 3];
        inside = dot(c, n) >= 0.0;
    }
    if (inside) {
        double r[3];

        for (int k = 0; k < 3; k++) r[k] = p[k] - v[0][k];
        return dot(r, n) * dot(r, n) / dot(n, n);
    }
    best = segment_distance2(p, v[0], v[1]);
    best = fmin(best, segment_distance2(p, v[1], v[2]));
    return fmin(best, segment_distance2(p, v[2], v[0]));
}

static double brute_distance(const esi_mesh *m, const float p[3])
{
    const double exact[3] = {(double)p[0], (double)p[1], (double)p[2]};
    double best = INFINITY;

    for (int64_t f = 0; f < m->n_faces; f++) best = fmin(best, face_distance2(m, f, exact));
    return sqrt(best);
}

static bool near_number(double a, double b) { return fabs(a - b) <= 1e-7 * fabs(b) + 1e-12; }

/* -------------------------------------------------------------------- nearest */

static void check_hit(const esi_mesh *m, const esi_bvh_hit *hit, const float p[3])
{
    double v[3][3], d2 = 0.0, sum = 0.0;

    assert_in_range(hit->face, 0, m->n_faces - 1);
    corners_of(m, hit->face, v);
    for (int i = 0; i < 3; i++) {
        assert_true(hit->bary[i] >= -1e-6f && hit->bary[i] <= 1.0f + 1e-6f);
        sum += (double)hit->bary[i];
    }
    assert_true(fabs(sum - 1.0) < 1e-6);
    for (int k = 0; k < 3; k++) {
        double at = 0.0;

        for (int i = 0; i < 3; i++) at += (double)hit->bary[i] * v[i][k];
        assert_true(fabs(at - (double)hit->point[k]) < 3e-7);
        d2 += ((double)hit->point[k] - (double)p[k]) * ((double)hit->point[k] - (double)p[k]);
    }
    assert_true(fabs(sqrt(d2) - sqrt((double)hit->distance2)) < 3e-7 + 1e-7 * sqrt(d2));
}

static void nearest_of_soup(void **state)
{
    static const float sizes[] = {0.02f, 0.3f, 1.0f};
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t s = 0; s < ESI_COUNT(sizes); s++) {
        esi_mesh m = random_soup(t.ctx, s == 0 ? 3000 : 400, sizes[s]);
        esi_bvh *bvh;

        assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
        for (int i = 0; i < 300; i++) {
            const float scale = i % 3 == 0 ? 1.0f : i % 3 == 1 ? 3.0f : 20.0f;
            const float p[3] = {scale * random_float(), scale * random_float(), scale * random_float()};
            const double expected = brute_distance(&m, p);
            const float d = (float)expected;
            esi_bvh_hit hit;

            assert_true(esi_bvh_closest(bvh, p, INFINITY, &hit));
            assert_true(near_number(sqrt((double)hit.distance2), expected));
            check_hit(&m, &hit, p);
            assert_true(esi_bvh_closest(bvh, p, d * 1.0001f, &hit));
            assert_false(esi_bvh_closest(bvh, p, d * 0.9999f, &hit));

            const float plain = esi_bvh_distance(bvh, p, INFINITY, INFINITY);
            assert_true(near_number((double)plain, expected));
            assert_true(esi_bvh_distance(bvh, p, INFINITY, d) == plain);               /* hints change nothing ... */
            assert_true(esi_bvh_distance(bvh, p, INFINITY, 1.5f * d) == plain);
            assert_true(esi_bvh_distance(bvh, p, INFINITY, 0.0f) == plain);            /* ... not even wrong ones */
            assert_true(esi_bvh_distance(bvh, p, d * 1.0001f, 2.0f * d) == plain);
            assert_true(isinf(esi_bvh_distance(bvh, p, d * 0.9999f, INFINITY)));
        }
        esi_bvh_free(t.ctx, bvh);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* Points on shared corners and edges have distance zero to several faces; and many copies of one face are all equally far. */
static void ties_go_to_the_lowest_face(void **state)
{
    test_base t;
    esi_mesh m, copies;
    esi_bvh *bvh;
    esi_bvh_hit hit;

    (void)state;
    test_base_open(&t, 1);
    m = cube(t.ctx, 8);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int64_t v = 0; v < m.n_vertices; v++) {
        const float *p = m.vertices + 3 * v;
        int32_t lowest = -1;

        for (int64_t f = 0; f < m.n_faces && lowest < 0; f++) {
            const double exact[3] = {(double)p[0], (double)p[1], (double)p[2]};
            if (face_distance2(&m, f, exact) == 0.0) lowest = (int32_t)f;
        }
        assert_true(esi_bvh_closest(bvh, p, 0.0f, &hit));
        assert_int_equal(hit.face, lowest);
        assert_true(hit.distance2 == 0.0f);
    }
    /* the middle is equally far from the six sides */
    assert_true(esi_bvh_closest(bvh, (const float[3]){0.0f, 0.0f, 0.0f}, INFINITY, &hit));
    assert_true(hit.distance2 == 0.25f);
    assert_true(hit.face < 2 * 8 * 8);
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);

    assert_int_equal(esi_mesh_new(t.ctx, &copies, 3, 5000), ESPALIER_OK);
    memcpy(copies.vertices, (const float[9]){0, 0, 0, 1, 0, 0, 0, 1, 0}, 36);
    for (int64_t f = 0; f < copies.n_faces; f++) memcpy(copies.faces + 3 * f, (const int32_t[3]){0, 1, 2}, 12);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &copies), ESPALIER_OK);
    for (int i = 0; i < 50; i++) {
        const float p[3] = {3.0f * random_float(), 3.0f * random_float(), random_float()};
        assert_true(esi_bvh_closest(bvh, p, INFINITY, &hit));
        assert_int_equal(hit.face, 0);
    }
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &copies);
    test_base_close(&t);
}

static void facing_faces_only(void **state)
{
    test_base t;
    esi_mesh m;
    esi_bvh *bvh;
    esi_bvh_hit hit;

    (void)state;
    test_base_open(&t, 1);
    m = cube(t.ctx, 4);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int axis = 0; axis < 3; axis++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            float facing[3] = {0}, p[3] = {0.1f, -0.2f, 0.3f};

            facing[axis] = (float)sign;
            assert_true(esi_bvh_closest_facing(bvh, p, facing, 0.5f, INFINITY, &hit));
            assert_true(hit.point[axis] == 0.5f * (float)sign);
            assert_true(esi_bvh_closest_facing(bvh, p, facing, 1.0f, INFINITY, &hit));
            assert_false(esi_bvh_closest_facing(bvh, p, facing, 1.001f, INFINITY, &hit));
            assert_false(esi_bvh_closest_facing(bvh, p, facing, 0.5f, 0.1f, &hit));
        }
    }
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);

    m = random_soup(t.ctx, 500, 0.3f);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int i = 0; i < 100; i++) {
        const float p[3] = {random_float(), random_float(), random_float()}, facing[3] = {0.6f, 0.0f, 0.8f};
        const double exact[3] = {(double)p[0], (double)p[1], (double)p[2]}, direction[3] = {(double)0.6f, 0.0, (double)0.8f};
        double best = INFINITY;

        for (int64_t f = 0; f < m.n_faces; f++) {
            double v[3][3], ab[3], ac[3], n[3];

            corners_of(&m, f, v);
            for (int k = 0; k < 3; k++) {
                ab[k] = v[1][k] - v[0][k];
                ac[k] = v[2][k] - v[0][k];
            }
            for (int k = 0; k < 3; k++) n[k] = ab[(k + 1) % 3] * ac[(k + 2) % 3] - ab[(k + 2) % 3] * ac[(k + 1) % 3];
            if (dot(n, n) < 1e-20 || dot(n, direction) < 0.25 * sqrt(dot(n, n))) continue;
            best = fmin(best, face_distance2(&m, f, exact));
        }
        assert_true(esi_bvh_closest_facing(bvh, p, facing, 0.25f, INFINITY, &hit));
        assert_true(near_number(sqrt((double)hit.distance2), sqrt(best)));
    }
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Packets give the bits of single queries, whatever the seeds, with a list of what is nearby and without, or with too much nearby. */
static void packets_equal_single_queries(void **state)
{
    static bvh_nearby nearby;
    test_base t;
    int listed = 0, unlisted = 0;

    (void)state;
    test_base_open(&t, 1);
    for (int mesh = 0; mesh < 3; mesh++) {
        esi_mesh m = mesh == 0 ? cube(t.ctx, 20) : random_soup(t.ctx, mesh == 1 ? 4000 : 100, mesh == 1 ? 0.05f : 0.5f);
        esi_bvh *bvh;

        assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
        for (int i = 0; i < 1000; i++) {
            const float step = i % 2 ? 0.02f : 0.2f, most = i % 3 ? 0.05f : INFINITY;
            float low[3], high[3];
            bvh_packet p = {.n = 0}, q, any;

            for (int k = 0; k < 3; k++) low[k] = 1.2f * random_float();
            for (int k = 0; k < 3; k++) high[k] = low[k] + step;
            for (int k = 0; k < 8 - i % 8; k++) {
                const float at[3] = {k & 1 ? high[0] : low[0], k & 2 ? high[1] : low[1], k & 4 ? high[2] : low[2]};
                bvh_packet_add(&p, at, i % 5 == 0 ? -1 : (int32_t)(random_bits() % (uint32_t)m.n_faces));
            }
            q = any = p;
            bvh_packet_measure(bvh, NULL, &p, most);
            const float all = esi_bvh_distance(bvh, low, INFINITY, INFINITY) + 1.8f * step;      /* no point is farther from the surface */
            bvh_nearby_find(&nearby, bvh, low, high, most < all ? most : all);
            listed += nearby.n > 0;
            unlisted += nearby.n == 0;
            bvh_packet_measure(bvh, &nearby, &q, most);
            bvh_packet_within(bvh, most < all ? &nearby : NULL, &any, 0.05f);
            for (int k = 0; k < p.n; k++) {
                const float single = esi_bvh_distance(bvh, p.point[k], most, INFINITY);
                const float near = esi_bvh_distance(bvh, p.point[k], 0.05f, INFINITY);

                assert_true(p.distance[k] == single);
                assert_true(q.distance[k] == single);
                if (single < INFINITY) {
                    int32_t seed = -1;

                    assert_true(bvh_distance_from(bvh, p.point[k], most, &seed) == single);
                    seed = p.seed[k];
                    assert_true(bvh_distance_from(bvh, p.point[k], single, &seed) == single);
                }
                assert_true((any.distance[k] < INFINITY) == (near < INFINITY));
                assert_true(any.distance[k] >= near);
            }
        }
        esi_bvh_free(t.ctx, bvh);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(listed > 100 && unlisted > 100);
    test_base_close(&t);
}

/* ----------------------------------------------------------------------- rays */

static void rays_of_soup(void **state)
{
    test_base t;
    esi_mesh m;
    esi_bvh *bvh;
    int64_t met = 0;

    (void)state;
    test_base_open(&t, 1);
    m = random_soup(t.ctx, 600, 0.4f);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int i = 0; i < 500; i++) {
        const float o[3] = {random_float(), random_float(), random_float()};
        float d[3] = {random_float(), random_float(), random_float()};
        int64_t all = 0, sum = 0, number = 0, within = 0;

        if (i % 5 == 0) d[i % 3] = 0.0f;
        if (i % 25 == 0) d[0] = d[1] = 0.0f;
        for (int64_t f = 0; f < m.n_faces; f++) {              /* Moeller and Trumbore */
            double v[3][3], e1[3], e2[3], p[3], q[3], s[3], det, at;
            const double dd[3] = {(double)d[0], (double)d[1], (double)d[2]};

            corners_of(&m, f, v);
            for (int k = 0; k < 3; k++) {
                e1[k] = v[1][k] - v[0][k];
                e2[k] = v[2][k] - v[0][k];
                s[k] = (double)o[k] - v[0][k];
            }
            for (int k = 0; k < 3; k++) {
                p[k] = dd[(k + 1) % 3] * e2[(k + 2) % 3] - dd[(k + 2) % 3] * e2[(k + 1) % 3];
                q[k] = s[(k + 1) % 3] * e1[(k + 2) % 3] - s[(k + 2) % 3] * e1[(k + 1) % 3];
            }
            det = dot(e1, p);
            if (det == 0.0 || dot(s, p) / det < 0.0 || dot(dd, q) / det < 0.0 || (dot(s, p) + dot(dd, q)) / det > 1.0) continue;
            at = dot(e2, q) / det;
            if (!(at > 0.0)) continue;
            number++;
            within += at > 0.125 && at < 0.75;
            sum += det < 0.0 ? 1 : -1;                         /* det = -n . d */
        }
        assert_int_equal(esi_bvh_ray_crossings(bvh, o, d, &all), sum);
        assert_int_equal(all, number);
        assert_int_equal(esi_bvh_ray_any(bvh, o, d, 0.0f, INFINITY), number > 0);
        assert_int_equal(esi_bvh_ray_any(bvh, o, d, 0.125f, 0.75f), within > 0);
        met += number;
    }
    assert_true(met > 1000);
    assert_false(esi_bvh_ray_any(bvh, (const float[3]){0, 0, 0}, (const float[3]){0, 0, 0}, 0.0f, INFINITY));
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* From inside a closed mesh exactly one crossing more leaves than enters, also straight through its edges and corners. */
static void rays_through_edges_and_corners(void **state)
{
    test_base t;
    esi_mesh m;
    esi_bvh *bvh;

    (void)state;
    test_base_open(&t, 1);
    m = cube(t.ctx, 4);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int x = -6; x <= 6; x++) {
        for (int y = -6; y <= 6; y++) {
            for (int z = -6; z <= 6; z++) {
                const float d[3] = {(float)x / 8.0f, (float)y / 8.0f, (float)z / 8.0f}, inside[3] = {0.125f, 0.0f, 0.25f};
                const float outside[3] = {inside[0] - 4.0f * d[0], inside[1] - 4.0f * d[1], inside[2] - 4.0f * d[2]};
                int64_t all;

                if (!x && !y && !z) continue;
                assert_int_equal(esi_bvh_ray_crossings(bvh, inside, d, &all), 1);
                assert_int_equal(all, 1);
                if (fabsf(outside[0]) > 0.5f || fabsf(outside[1]) > 0.5f || fabsf(outside[2]) > 0.5f) {
                    assert_int_equal(esi_bvh_ray_crossings(bvh, outside, d, &all), 0);
                    assert_int_equal(all, 2);
                }
            }
        }
    }
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* --------------------------------------------------------------------- boxes */

typedef struct found { uint8_t *seen; int64_t number, limit; } found;

static bool note_face(void *arg, int32_t face)
{
    found *f = arg;

    assert_int_equal(f->seen[face], 0);
    f->seen[face] = 1;
    return ++f->number < f->limit;
}

static void boxes_overlap(void **state)
{
    test_base t;
    esi_mesh m;
    esi_bvh *bvh;

    (void)state;
    test_base_open(&t, 1);
    m = random_soup(t.ctx, 700, 0.1f);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int i = 0; i < 200; i++) {
        uint8_t seen[700] = {0};
        found f = {seen, 0, INT64_MAX};
        int64_t expected = 0;
        float min[3], max[3];

        for (int k = 0; k < 3; k++) {
            min[k] = random_float();
            max[k] = min[k] + (i % 4 ? 0.2f : 0.0f) * (random_float() + 0.5f);
        }
        esi_bvh_overlap(bvh, min, max, note_face, &f);
        for (int64_t face = 0; face < m.n_faces; face++) {
            double v[3][3];
            bool apart = false;

            corners_of(&m, face, v);
            for (int k = 0; k < 3; k++) {
                apart |= fmin(fmin(v[0][k], v[1][k]), v[2][k]) > (double)max[k];
                apart |= fmax(fmax(v[0][k], v[1][k]), v[2][k]) < (double)min[k];
            }
            assert_int_equal(seen[face], !apart);
            expected += !apart;
        }
        assert_int_equal(f.number, expected);
        if (expected > 1) {
            memset(seen, 0, sizeof seen);
            f = (found){seen, 0, 1};
            esi_bvh_overlap(bvh, min, max, note_face, &f);
            assert_int_equal(f.number, 1);
        }
    }
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* -------------------------------------------------------- many, threads, failures */

static void many_at_once(void **state)
{
    enum { COUNT = 9000 };
    static const int threads[] = {1, 2, 5};
    float *points = malloc(COUNT * 12), *distances = malloc(COUNT * 4);
    esi_bvh_hit *hits = malloc(COUNT * sizeof *hits), *first = malloc(COUNT * sizeof *first);

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        test_base t;
        esi_mesh m;
        esi_bvh *bvh;

        random_state = 77;
        for (int k = 0; k < 3 * COUNT; k++) points[k] = 1.5f * random_float();
        test_base_open(&t, threads[i]);
        m = random_soup(t.ctx, 100000, 0.01f);           /* several tasks */
        assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
        memset(hits, 0, COUNT * sizeof *hits);
        assert_int_equal(esi_bvh_closest_many(t.ctx, bvh, points, COUNT, 0.02f, distances, hits), ESPALIER_OK);
        for (int k = 0; k < COUNT; k++) {
            esi_bvh_hit hit;

            if (!esi_bvh_closest(bvh, points + 3 * k, 0.02f, &hit)) {
                assert_int_equal(hits[k].face, -1);
                assert_true(isinf(distances[k]));
                continue;
            }
            assert_memory_equal(&hit, &hits[k], sizeof hit);
            assert_true(distances[k] == sqrtf(hit.distance2));
        }
        if (i == 0) memcpy(first, hits, COUNT * sizeof *hits);
        assert_memory_equal(first, hits, COUNT * sizeof *hits);
        esi_bvh_free(t.ctx, bvh);
        esi_mesh_free(t.ctx, &m);
        test_base_close(&t);
    }
    free(points);
    free(distances);
    free(hits);
    free(first);
}

static void no_faces_no_memory_cancelled(void **state)
{
    test_base t;
    esi_mesh m, none = {0};
    esi_bvh *bvh = NULL;
    long n = 0;

    (void)state;
    test_base_open(&t, 2);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &none), ESPALIER_ERR_INTERNAL);
    assert_null(bvh);
    esi_bvh_free(t.ctx, NULL);
    esi_clear_error(t.ctx);
    m = random_soup(t.ctx, 70000, 0.01f);
    do {
        test_fail_at(&t.memory, ++n);
        const espalier_status st = esi_bvh_build(t.ctx, &bvh, &m);
        test_fail_at(&t.memory, 0);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_true((st == ESPALIER_OK) == (bvh != NULL));
        esi_clear_error(t.ctx);
    } while (!bvh && n < 1000);
    assert_true(n > 10);
    esi_bvh_free(t.ctx, bvh);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_ERR_CANCELLED);
    assert_null(bvh);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Centres that halve towards a corner would make a path of one face per node. */
static void uneven_spacing(void **state)
{
    test_base t;
    esi_mesh m;
    esi_bvh *bvh;
    esi_bvh_hit hit;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_new(t.ctx, &m, 3 * 600, 600), ESPALIER_OK);
    for (int64_t f = 0; f < 600; f++) {
        const float at = ldexpf(1.0f, -(int)(f % 120)) * (float)(1 + f / 120);

        for (int i = 0; i < 3; i++) {
            m.faces[3 * f + i] = (int32_t)(3 * f + i);
            for (int k = 0; k < 3; k++) m.vertices[9 * f + 3 * i + k] = at * (i == k ? 1.5f : 1.0f);
        }
    }
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &m), ESPALIER_OK);
    for (int i = 0; i < 200; i++) {
        const float p[3] = {ldexpf(1.0f, -i / 2), ldexpf(1.5f, -i / 2), ldexpf(1.0f, -i / 3)};

        assert_true(esi_bvh_closest(bvh, p, INFINITY, &hit));
        assert_true(near_number(sqrt((double)hit.distance2), brute_distance(&m, p)));
    }
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_of_soup),
        cmocka_unit_test(ties_go_to_the_lowest_face),
        cmocka_unit_test(facing_faces_only),
        cmocka_unit_test(packets_equal_single_queries),
        cmocka_unit_test(rays_of_soup),
        cmocka_unit_test(rays_through_edges_and_corners),
        cmocka_unit_test(boxes_overlap),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(no_faces_no_memory_cancelled),
        cmocka_unit_test(uneven_spacing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
