/* SPDX-License-Identifier: MIT
 *
 * kind_mesh_metrics.c: what repairs, clustering, remeshing and simplification make of a set of meshes, in numbers. The expected file has
 * groups of numbers for each mesh; each group here computes all its numbers, and every stored one must be among them. Meshes that are not
 * beside the case are skipped, and said so.
 */
#include "kinds.h"

#include "formats/surface_io.h"
#include "mesh/charts.h"
#include "mesh/clean.h"
#include "mesh/compare.h"
#include "mesh/metrics.h"
#include "mesh/remesh.h"
#include "mesh/simplify.h"

#include <math.h>
#include <stdlib.h>

/* ---------------------------------------------------------- expected numbers */

/* One mesh of the case, while its groups are computed. */
typedef struct subject {
    golden_case *c;
    const char *name;
    const char *group;
    const esi_json *wanted;        /* of the group */
    esi_mesh mesh;                 /* as read */
    esi_mesh remeshed;             /* by the remesh group, for the one that simplifies it */
} subject;

/* Tolerances are named "group.field", "group", or "default". */
static const esi_json *tolerance_of(const subject *s, const char *field)
{
    const esi_json *table = esi_json_get(s->c->config, "tolerance");
    const esi_json *t = field ? esi_json_get(table, golden_name(s->c, "%s.%s", s->group, field)) : NULL;

    if (!t) t = esi_json_get(table, s->group);
    return t ? t : esi_json_get(table, "default");
}

static bool within(const esi_json *tolerance, double ours, double expected, bool *skip)
{
    bool good = esi_json_size(tolerance) > 0;

    *skip = false;
    for (size_t i = 0; i < esi_json_size(tolerance); i++) {
        const esi_json *value = NULL;
        const char *keyword = esi_json_key_at(tolerance, i, &value);
        double limit = 0.0;

        if (strcmp(keyword, "skip") == 0) *skip = true;
        else if (strcmp(keyword, "exact") == 0) good &= ours == expected;
        else if (strcmp(keyword, "max_rel") == 0 && esi_json_double(value, &limit)) good &= fabs(ours - expected) <= limit * fabs(expected);
        else if (strcmp(keyword, "max_abs") == 0 && esi_json_double(value, &limit)) good &= fabs(ours - expected) <= limit;
        else good = false;
    }
    return good;
}

static void check_number(const subject *s, const char *field, double ours, const esi_json *stored)
{
    const char *what = golden_name(s->c, "%s: %s%s%s", s->name, s->group, field ? "." : "", field ? field : "");
    double expected = (double)NAN, off;
    bool skip, good;

    esi_json_double(stored, &expected);
    good = within(tolerance_of(s, field), ours, expected, &skip);
    off = fabs(ours - expected);
    golden_add_result(s->c, what, expected != 0 ? off / fabs(expected) : off, off, skip ? GOLDEN_SKIP : good ? GOLDEN_PASS : GOLDEN_FAIL,
                      good || skip ? NULL : golden_name(s->c, "%.9g, expected %.9g", ours, expected));
}

typedef struct number {
    const char *field;
    double value;
} number;

/* Every stored field of the group must be one of ours. */
static void check_fields(const subject *s, const number *ours, size_t count)
{
    for (size_t i = 0; i < esi_json_size(s->wanted); i++) {
        const esi_json *stored = NULL;
        const char *field = esi_json_key_at(s->wanted, i, &stored);
        size_t k = 0;

        while (k < count && strcmp(ours[k].field, field) != 0) k++;
        if (k < count) check_number(s, field, ours[k].value, stored);
        else golden_expect(s->c, golden_name(s->c, "%s: %s.%s", s->name, s->group, field), false, "has no code");
    }
}

/* -------------------------------------------------------------- measuring */

static int compare_ints(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* The expected numbers count a side from a vertex to itself as an edge; we do not. */
static void add_self_edges(golden_case *c, const esi_mesh *mesh, esi_mesh_metrics *m)
{
    int32_t *selves = golden_alloc(c, (size_t)mesh->n_faces, 3 * sizeof *selves);
    int64_t n = 0, next;

    for (int64_t i = 0; i < 3 * mesh->n_faces; i++)
        if (mesh->faces[i] == mesh->faces[i % 3 == 2 ? i - 2 : i + 1]) selves[n++] = mesh->faces[i];
    qsort(selves, (size_t)n, sizeof *selves, compare_ints);
    for (int64_t i = 0; i < n; i = next) {
        for (next = i + 1; next < n && selves[next] == selves[i]; next++) {}
        m->edges++;
        m->euler--;
        m->boundary_edges += next - i == 1;
        m->boundary_chains += next - i == 1;
        m->odd_edges += (next - i) & 1;
        m->nonmanifold_edges += next - i > 2;
    }
}

static espalier_status measure(golden_case *c, const esi_mesh *mesh, esi_mesh_metrics *m)
{
    espalier_status st = esi_mesh_metrics_compute(c->ctx, m, mesh, 0.03);

    if (st == ESPALIER_OK) add_self_edges(c, mesh, m);
    return st;
}

#define MAX_NUMBERS 24

/* `extra` after the numbers that all groups share. */
static espalier_status check_mesh(const subject *s, const esi_mesh *mesh, const number *extra, size_t n_extra)
{
    number all[MAX_NUMBERS];
    esi_mesh_metrics m;
    espalier_status st = measure(s->c, mesh, &m);
    const number shared[] = {
        {"V", (double)m.vertices}, {"F", (double)m.faces}, {"E", (double)m.edges}, {"boundary", (double)m.boundary_edges},
        {"nonmanifold", (double)m.nonmanifold_edges}, {"odd", (double)m.odd_edges}, {"chi", (double)m.euler},
        {"comp_vertex", (double)m.vertex_components}, {"comp_face", (double)m.face_components},
        {"bad_winding", (double)m.winding_conflicts}, {"area", m.area}, {"vol", m.volume}, {"zero_area", (double)m.zero_area_faces},
    };

    if (st != ESPALIER_OK) return st;
    memcpy(all, shared, sizeof shared);
    for (size_t i = 0; i < n_extra; i++) all[ESI_COUNT(shared) + i] = extra[i];
    check_fields(s, all, ESI_COUNT(shared) + n_extra);
    return ESPALIER_OK;
}

/* --------------------------------------------------------------- the groups */

static espalier_status copy_of(const subject *s, esi_mesh *out)
{
    return esi_mesh_copy(s->c->ctx, out, s->mesh.vertices, s->mesh.n_vertices, s->mesh.faces, s->mesh.n_faces);
}

static espalier_status raw(subject *s, double parameter)
{
    (void)parameter;
    return check_mesh(s, &s->mesh, NULL, 0);
}

static espalier_status boundary_counts(subject *s, double parameter)
{
    esi_mesh_metrics m;
    espalier_status st = measure(s->c, &s->mesh, &m);

    (void)parameter;
    if (st != ESPALIER_OK) return st;
    check_number(s, NULL, (double)(m.boundary_loops + (strcmp(s->group, "boundary_components") == 0 ? m.boundary_chains : 0)), s->wanted);
    return st;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The shortest 40 loops, ascending. */
static espalier_status loop_perimeters(subject *s, double parameter)
{
    double *perimeters = NULL;
    bool *is_loop = NULL;
    int64_t n = 0, loops = 0;
    espalier_status st = esi_boundary_components(s->c->ctx, &perimeters, &is_loop, &n, &s->mesh);

    (void)parameter;
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < n; i++)
        if (is_loop[i]) perimeters[loops++] = perimeters[i];
    if (loops) qsort(perimeters, (size_t)loops, sizeof *perimeters, compare_doubles);
    golden_expect_int(s->c, golden_name(s->c, "%s: loop_perimeters (number)", s->name), ESI_MIN(loops, 40),
                      (int64_t)esi_json_size(s->wanted));
    for (size_t i = 0; i < esi_json_size(s->wanted) && (int64_t)i < loops; i++)
        check_number(s, NULL, perimeters[i], esi_json_at(s->wanted, i));
    esi_free(s->c->ctx, perimeters);
    esi_free(s->c->ctx, is_loop);
    return st;
}

static espalier_status fill_holes(subject *s, double perimeter)
{
    const esi_fill_options options = {perimeter, 1};
    esi_fill_stats stats = {0};
    esi_mesh mesh;
    espalier_status st = copy_of(s, &mesh);

    if (st == ESPALIER_OK) st = esi_mesh_fill_holes(s->c->ctx, &mesh, &options, &stats);
    if (st == ESPALIER_OK) st = check_mesh(s, &mesh, &(number){"filled", (double)stats.filled}, 1);
    esi_mesh_free(s->c->ctx, &mesh);
    return st;
}

static espalier_status after_dedup(subject *s, double parameter)
{
    esi_mesh mesh;
    espalier_status st = copy_of(s, &mesh);

    (void)parameter;
    if (st == ESPALIER_OK) st = esi_mesh_remove_duplicate_faces(s->c->ctx, &mesh, false, NULL);
    if (st == ESPALIER_OK) check_number(s, NULL, (double)mesh.n_faces, s->wanted);
    esi_mesh_free(s->c->ctx, &mesh);
    return st;
}

static espalier_status repair_nonmanifold(subject *s, double parameter)
{
    esi_mesh mesh;
    espalier_status st = copy_of(s, &mesh);

    (void)parameter;
    if (st == ESPALIER_OK) st = esi_mesh_repair_nonmanifold_edges(s->c->ctx, &mesh, NULL);
    if (st == ESPALIER_OK) st = check_mesh(s, &mesh, NULL, 0);
    esi_mesh_free(s->c->ctx, &mesh);
    return st;
}

static espalier_status remove_small(subject *s, double area)
{
    esi_mesh mesh;
    espalier_status st = copy_of(s, &mesh);

    if (st == ESPALIER_OK) st = esi_mesh_remove_small_components(s->c->ctx, &mesh, area, false, NULL, NULL);
    if (st == ESPALIER_OK) st = check_mesh(s, &mesh, NULL, 0);
    esi_mesh_free(s->c->ctx, &mesh);
    return st;
}

/* flipped_min: of the faces that were turned and those that were not. */
static espalier_status unify(subject *s, double parameter)
{
    int64_t flipped = 0;
    esi_mesh_metrics m;
    esi_mesh mesh;
    espalier_status st = copy_of(s, &mesh);

    (void)parameter;
    if (st == ESPALIER_OK) st = esi_mesh_unify_orientation(s->c->ctx, &mesh, &flipped, NULL);
    if (st == ESPALIER_OK) st = measure(s->c, &mesh, &m);
    if (st == ESPALIER_OK) {
        const number ours[] = {{"flipped_min", (double)ESI_MIN(flipped, mesh.n_faces - flipped)},
                               {"bad_winding_after", (double)m.winding_conflicts}};

        check_fields(s, ours, ESI_COUNT(ours));
    }
    esi_mesh_free(s->c->ctx, &mesh);
    return st;
}

/* -1: the reference was not run. */
static espalier_status cluster_count(subject *s, double parameter)
{
    int32_t *cluster = NULL, n = 0;
    int64_t expected = 0;
    espalier_status st;

    (void)parameter;
    if (esi_json_int(s->wanted, &expected) && expected < 0) return ESPALIER_OK;
    st = esi_cluster_faces(s->c->ctx, &cluster, &n, NULL, &s->mesh);
    if (st == ESPALIER_OK) check_number(s, NULL, (double)n, s->wanted);
    esi_free(s->c->ctx, cluster);
    return st;
}

static espalier_status remesh(subject *s, double resolution)
{
    const esi_remesh_options options = esi_remesh_options_reference((int32_t)resolution);
    esi_remesh_stats stats = {0};
    int64_t active = 0;
    esi_bvh *bvh = NULL;
    espalier_status st = esi_bvh_build(s->c->ctx, &bvh, &s->mesh);

    esi_mesh_free(s->c->ctx, &s->remeshed);
    if (st == ESPALIER_OK) st = esi_mesh_remesh(s->c->ctx, &s->remeshed, bvh, &s->mesh, &options, &stats);
    if (st == ESPALIER_OK) st = esi_remesh_active_cells(s->c->ctx, &active, bvh, &options);
    esi_bvh_free(s->c->ctx, bvh);
    if (st == ESPALIER_OK) {
        const number extra[] = {{"active", (double)active}, {"missing_quads", (double)stats.missing_quads}};

        st = check_mesh(s, &s->remeshed, extra, ESI_COUNT(extra));
    }
    return st;
}

static espalier_status simplify(subject *s, double percent)
{
    const int64_t target = (int64_t)((double)s->remeshed.n_faces * percent / 100.0);
    esi_simplify_stats stats = {0};
    esi_mesh_distance d = {0};
    esi_mesh mesh = {0};
    espalier_status st = esi_mesh_copy(s->c->ctx, &mesh, s->remeshed.vertices, s->remeshed.n_vertices, s->remeshed.faces,
                                       s->remeshed.n_faces);

    if (st == ESPALIER_OK) st = esi_mesh_simplify_reference(s->c->ctx, &mesh, target, &stats);
    if (st == ESPALIER_OK) st = esi_mesh_compare(s->c->ctx, &d, &s->remeshed, &mesh, 100000);
    if (st == ESPALIER_OK) {
        const number extra[] = {{"passes", (double)stats.passes}, {"last_threshold", stats.last_threshold}, {"h12", d.max_ab},
                                {"h21", d.max_ba}, {"m12", d.mean_ab}, {"m21", d.mean_ba}};

        st = check_mesh(s, &mesh, extra, ESI_COUNT(extra));
    }
    esi_mesh_free(s->c->ctx, &mesh);
    return st;
}

/* In the order in which they run: simplification needs the remeshed mesh. A number may follow the prefix. */
static const struct {
    const char *prefix, *suffix;
    espalier_status (*run)(subject *s, double parameter);
} groups[] = {
    {"raw", "", raw},
    {"boundary_components", "", boundary_counts},
    {"boundary_loops", "", boundary_counts},
    {"loop_perimeters", "", loop_perimeters},
    {"fill_holes_", "", fill_holes},
    {"after_dedup_F", "", after_dedup},
    {"repair_non_manifold", "", repair_nonmanifold},
    {"remove_small_components_", "", remove_small},
    {"unify", "", unify},
    {"cluster_count", "", cluster_count},
    {"remesh_res", "", remesh},
    {"simplify_", "pct_after_remesh", simplify},
};

/* "fill_holes_0.03" with prefix "fill_holes_": 0.03. */
static bool group_matches(const char *name, const char *prefix, const char *suffix, double *parameter)
{
    const size_t length = strlen(prefix);
    char *end;

    *parameter = 0;
    if (strncmp(name, prefix, length) != 0) return false;
    if (name[length] == '\0') return suffix[0] == '\0';
    *parameter = strtod(name + length, &end);
    return end != name + length && strcmp(end, suffix) == 0;
}

static bool find_group(const char *name, size_t *index, double *parameter)
{
    for (*index = 0; *index < ESI_COUNT(groups); ++*index)
        if (group_matches(name, groups[*index].prefix, groups[*index].suffix, parameter)) return true;
    return false;
}

static espalier_status run_groups(subject *s, const esi_json *expected)
{
    espalier_status st = ESPALIER_OK;
    double parameter;
    size_t at;

    for (size_t i = 0; i < esi_json_size(expected); i++) {
        const char *name = esi_json_key_at(expected, i, &s->wanted);

        if (strcmp(name, "desc") != 0 && !find_group(name, &at, &parameter))
            golden_expect(s->c, golden_name(s->c, "%s: %s", s->name, name), false, "has no code");
    }
    for (size_t g = 0; g < ESI_COUNT(groups); g++) {
        for (size_t i = 0; i < esi_json_size(expected) && st == ESPALIER_OK; i++) {
            s->group = esi_json_key_at(expected, i, &s->wanted);
            if (strcmp(s->group, "desc") != 0 && find_group(s->group, &at, &parameter) && at == g) st = groups[g].run(s, parameter);
        }
    }
    return st;
}

/* A mesh without expectations must be read, cleaned and measured. */
static espalier_status only_report(subject *s)
{
    esi_sanitize_stats dropped;
    esi_mesh_metrics m;
    espalier_status st = esi_mesh_sanitize(s->c->ctx, &s->mesh, &dropped);

    if (st == ESPALIER_OK) st = measure(s->c, &s->mesh, &m);
    if (st != ESPALIER_OK) return st;
    golden_expect(s->c, golden_name(s->c, "%s: read, %lld faces dropped, %lld left", s->name,
                                    (long long)(dropped.bad_index + dropped.repeated_index + dropped.not_finite), (long long)m.faces),
                  m.faces > 0, "nothing is left of it");
    return ESPALIER_OK;
}

static espalier_status run_mesh(golden_case *c, const char *name, const esi_json *expected, const char *directory)
{
    const char *path = golden_name(c, "%s/%s.ply", directory, name);
    subject s = {.c = c, .name = name};
    esi_surface surface = {0};
    espalier_status st;

    if (!esi_path_is_file(path)) {
        golden_add_result(c, golden_name(c, "%s: SKIPPED, the mesh is not here", name), (double)NAN, (double)NAN, GOLDEN_SKIP, NULL);
        return ESPALIER_OK;
    }
    st = esi_surface_read(c->ctx, &surface, path);
    if (st != ESPALIER_OK) return st;
    s.mesh = surface.mesh;
    memset(&surface.mesh, 0, sizeof surface.mesh);
    if (esi_json_size(expected) == 1 && esi_json_get(expected, "desc")) {
        st = only_report(&s);
    } else {
        st = esi_mesh_compact(c->ctx, &s.mesh, NULL);          /* the expected numbers do not know unused vertices */
        if (st == ESPALIER_OK) st = run_groups(&s, expected);
    }
    esi_mesh_free(c->ctx, &s.mesh);
    esi_mesh_free(c->ctx, &s.remeshed);
    esi_surface_free(c->ctx, &surface);
    return st;
}

espalier_status golden_kind_mesh_metrics(golden_case *c)
{
    const char *directory = golden_sibling(c, "meshes"), *path = golden_sibling(c, "expected");
    esi_json *expected = NULL;
    espalier_status st;

    if (!directory || !path) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: config.json: no siblings meshes and expected", c->dir);
    st = esi_json_load(c->ctx, &expected, path, ESPALIER_ERR_INPUT);
    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(expected); i++) {
        const esi_json *of_mesh = NULL;
        const char *name = esi_json_key_at(expected, i, &of_mesh);

        st = run_mesh(c, name, of_mesh, directory);
    }
    esi_json_free(expected);
    return st;
}
