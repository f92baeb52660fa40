/* SPDX-License-Identifier: MIT
 *
 * post.c: raw asset -> finished mesh. Reads top to bottom like the reference's to_glb (TRELLIS.2 o_voxel/postprocess.py): repair, clean,
 * remesh, simplify, unwrap, bake. The asset is only read.
 */
#include "pipeline/post_job.h"

#include <stdio.h>

#define FILL_PASSES 4
/* The reference simplifies to this before anything else, so that its GPU code can number the faces. */
#define REFERENCE_FIRST_LIMIT 16777216

static bool is_reference(const post_job *j)
{
    return j->options.mode == ESPALIER_POST_REFERENCE;
}

/* ------------------------------------------------------------- steps */

/* By position: equal vertices count as one. */
static espalier_status measure_welded(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, double loop_limit)
{
    esi_mesh welded = {0};
    espalier_status st = esi_mesh_copy(ctx, &welded, mesh->vertices, mesh->n_vertices, mesh->faces, mesh->n_faces);
    if (st == ESPALIER_OK) st = esi_mesh_weld(ctx, &welded, NULL, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_metrics_compute(ctx, out, &welded, loop_limit);
    esi_mesh_free(ctx, &welded);
    return st;
}

static double voxel_size(const post_job *j)
{
    return 1.0 / (double)j->data->resolution;
}

/* Percent of the time that has gone when a step begins, as measured on a million faces. */
static const uint64_t step_begins[ESI_POST_STEPS] = {0, 1, 3, 11, 60, 85, 90};

typedef espalier_status (*step_fn)(post_job *j);

/* Time, memory and, on `mesh`, soundness of one step. */
static espalier_status run_step(post_job *j, esi_post_step step, step_fn fn, const esi_mesh *mesh)
{
    esi_post_step_record *r = &j->record->step[step];
    const double seconds = esi_now(), cpu_seconds = esi_cpu_seconds();

    espalier_status st = esi_progress(j->ctx, "finish", step_begins[step], 100);
    if (st == ESPALIER_OK) st = fn(j);
    r->ran = true;
    r->seconds = esi_now() - seconds;
    r->cpu_seconds = esi_cpu_seconds() - cpu_seconds;
    r->peak_bytes = esi_memory_high_water(j->ctx);
    if (st == ESPALIER_OK && mesh && j->measure) {
        st = measure_welded(j->ctx, &r->metrics, mesh, j->options.fill_perimeter * voxel_size(j));
        r->has_metrics = st == ESPALIER_OK;
    }
    return st;
}

/* ------------------------------------------------------------- clean */

static espalier_status fill(post_job *j, int passes)
{
    const esi_fill_options o = {.max_perimeter = j->options.fill_perimeter * voxel_size(j), .passes = passes};
    esi_fill_stats s = {0}, *sum = &j->record->fill;

    if (o.max_perimeter <= 0) return ESPALIER_OK;
    espalier_status st = esi_mesh_fill_holes(j->ctx, &j->mesh, &o, &s);
    sum->loops = s.loops;
    sum->filled += s.filled;
    sum->faces_added += s.faces_added;
    sum->boundary_edges_left = s.boundary_edges_left;
    sum->passes += s.passes;
    return st;
}

static espalier_status drop_small_components(post_job *j)
{
    int64_t components = 0, faces = 0;
    const bool keep_largest = !is_reference(j);
    espalier_status st = esi_mesh_remove_small_components(j->ctx, &j->mesh, j->options.min_component, keep_largest, &components, &faces);
    j->record->small_components += components;
    j->record->small_faces += faces;
    return st;
}

static espalier_status orient(post_job *j)
{
    espalier_status st = esi_mesh_unify_orientation(j->ctx, &j->mesh, &j->record->flipped_faces, &j->record->winding_left);
    if (st == ESPALIER_OK && !is_reference(j)) st = esi_mesh_orient_outward(j->ctx, &j->mesh, &j->record->flipped_components);
    return st;
}

/* The reference's CLEAN: between and after the simplifications of a mesh that is not remeshed. */
static espalier_status clean_connectivity(post_job *j)
{
    espalier_status st = esi_mesh_remove_duplicate_faces(j->ctx, &j->mesh, !is_reference(j), NULL);
    if (st == ESPALIER_OK && is_reference(j)) st = esi_mesh_repair_nonmanifold_edges(j->ctx, &j->mesh, NULL);
    if (st == ESPALIER_OK && !is_reference(j)) st = esi_mesh_split_nonmanifold(j->ctx, &j->mesh, NULL);
    if (st == ESPALIER_OK) st = drop_small_components(j);
    return st == ESPALIER_OK ? fill(j, is_reference(j) ? 1 : FILL_PASSES) : st;
}

static espalier_status require_faces(post_job *j, const char *why)
{
    if (j->mesh.n_faces > 0) return ESPALIER_OK;
    return esi_fail(j->ctx, ESPALIER_ERR_SOUNDNESS, "finish: no faces are left%s", why);
}

static espalier_status clean_reference(post_job *j)
{
    espalier_status st = fill(j, 1);                             /* decode_latent */
    if (st == ESPALIER_OK && j->mesh.n_faces > REFERENCE_FIRST_LIMIT)
        st = esi_mesh_simplify_reference(j->ctx, &j->mesh, REFERENCE_FIRST_LIMIT, NULL);
    return st == ESPALIER_OK ? fill(j, 1) : st;                  /* to_glb */
}

static espalier_status clean_ours(post_job *j)
{
    espalier_status st = esi_mesh_weld(j->ctx, &j->mesh, NULL, NULL);            /* what meets in a place is no hole */
    if (st == ESPALIER_OK && j->options.remove_floaters > 0)
        st = esi_mesh_remove_floaters(j->ctx, &j->mesh, j->options.remove_floaters, &j->record->floater_components,
                                      &j->record->floater_faces);
    if (st == ESPALIER_OK) st = fill(j, FILL_PASSES);
    return st == ESPALIER_OK ? orient(j) : st;
}

/* Leaves `original` (kept) and its tree. */
static espalier_status clean(post_job *j)
{
    espalier_status st = is_reference(j) ? clean_reference(j) : clean_ours(j);
    if (st == ESPALIER_OK) st = require_faces(j, " after cleaning");
    if (st != ESPALIER_OK) return st;
    j->original = j->mesh;
    memset(&j->mesh, 0, sizeof j->mesh);
    return esi_bvh_build(j->ctx, &j->bvh, &j->original);
}

/* ------------------------------------------------------------- remesh and simplify */

static espalier_status remesh(post_job *j)
{
    const int32_t resolution = j->options.remesh_resolution;
    esi_remesh_options o = is_reference(j) ? esi_remesh_options_reference(resolution) : esi_remesh_options_clean(resolution);

    o.band = j->options.band;
    o.project = j->options.project;
    if (!is_reference(j)) o.outer_only = !j->options.keep_inner;
    o.solid = j->options.solid;
    espalier_status st = esi_mesh_remesh(j->ctx, &j->mesh, j->bvh, &j->original, &o, &j->record->remesh);
    if (st == ESPALIER_OK && !is_reference(j)) st = drop_small_components(j);
    j->record->remeshed = st == ESPALIER_OK;
    return st;
}

/* Without remeshing the original itself is what gets finished. */
static espalier_status take_original(post_job *j)
{
    return esi_mesh_copy(j->ctx, &j->mesh, j->original.vertices, j->original.n_vertices, j->original.faces, j->original.n_faces);
}

static espalier_status simplify_to(post_job *j, int64_t target)
{
    const esi_simplify_options o = esi_simplify_options_default(target);
    return is_reference(j) ? esi_mesh_simplify_reference(j->ctx, &j->mesh, target, &j->record->simplify)
                           : esi_mesh_simplify(j->ctx, &j->mesh, &o, &j->record->simplify);
}

static espalier_status simplify_raw(post_job *j)
{
    espalier_status st = ESPALIER_OK;
    if (is_reference(j)) {
        st = simplify_to(j, 3 * j->options.faces);
        if (st == ESPALIER_OK) st = clean_connectivity(j);
    }
    if (st == ESPALIER_OK && !is_reference(j)) st = clean_connectivity(j);
    if (st == ESPALIER_OK) st = simplify_to(j, j->options.faces);
    if (st == ESPALIER_OK && is_reference(j)) st = clean_connectivity(j);
    return st == ESPALIER_OK ? orient(j) : st;
}

static espalier_status simplify(post_job *j)
{
    espalier_status st = j->options.no_remesh ? simplify_raw(j) : simplify_to(j, j->options.faces);
    if (st == ESPALIER_OK && is_reference(j)) st = esi_mesh_remove_degenerate_faces(j->ctx, &j->mesh, 1e-12, 1e-24, NULL);
    if (st == ESPALIER_OK && !is_reference(j))
        st = esi_mesh_restitch_degenerate_faces(j->ctx, &j->mesh, &j->record->degenerate_changed, &j->record->degenerate_left);
    if (st == ESPALIER_OK && j->mesh.n_faces > j->options.faces)
        esi_log(j->ctx, ESPALIER_LOG_WARNING, "%lld faces are the fewest that keep every part, handle and rim; %lld were asked for",
                (long long)j->mesh.n_faces, (long long)j->options.faces);
    return st == ESPALIER_OK ? require_faces(j, " after simplification") : st;
}

/* ------------------------------------------------------------- unwrap and bake */

static espalier_status unwrap(post_job *j)
{
    esi_unwrap_options o = esi_unwrap_options_default((uint32_t)j->options.texture_size);

    o.padding = j->options.padding;
    o.box = j->options.box_uv;
    espalier_status st = esi_mesh_unwrap(j->ctx, &j->unwrapped, &j->mesh, &o);
    if (st != ESPALIER_OK) return st;
    j->record->unwrapped = true;
    j->record->charts = j->unwrapped.n_charts;
    memcpy(j->record->charts_by_method, j->unwrapped.charts_by_method, sizeof j->record->charts_by_method);
    j->record->pack = j->unwrapped.pack;
    return ESPALIER_OK;
}

static espalier_status bake(post_job *j)
{
    const uint32_t size = (uint32_t)j->options.texture_size;
    esi_bake_options o = is_reference(j) ? esi_bake_options_reference(size) : esi_bake_options_clean(size);
    const esi_bake_input input = {.mesh = &j->mesh, .normals = j->normals, .unwrapped = &j->unwrapped, .original = &j->original,
                                  .original_bvh = j->bvh, .volume = &j->volume};

    o.gutter = j->options.telea ? ESI_GUTTER_TELEA : ESI_GUTTER_NEAREST;
    o.despeckle = j->options.despeckle;
    o.normal_map = j->options.normal_map;
    o.occlusion_rays = j->options.occlusion_rays;
    o.alpha_auto = !is_reference(j) && j->options.alpha == ESPALIER_ALPHA_AUTO;
    o.alpha_mode = j->options.alpha == ESPALIER_ALPHA_MASK    ? ESI_ALPHA_MASK
                   : j->options.alpha == ESPALIER_ALPHA_BLEND ? ESI_ALPHA_BLEND
                                                              : ESI_ALPHA_OPAQUE;
    espalier_status st = esi_bake(j->ctx, &j->surface, &input, &o, &j->record->bake);
    if (st == ESPALIER_OK && j->measure)
        st = esi_uv_metrics_compute(j->ctx, &j->record->uv, &j->surface.mesh, j->surface.uvs, size);
    j->record->baked = st == ESPALIER_OK;
    return st;
}

/* Geometry alone: smooth normals, plain matte. */
static espalier_status plain_surface(post_job *j)
{
    j->surface.mesh = j->mesh;
    j->surface.normals = j->normals;
    memset(&j->mesh, 0, sizeof j->mesh);
    j->normals = NULL;
    return esi_post_one_material(j);
}

/* ------------------------------------------------------------- gates */

/* Remeshing gives the boundary of a solid; nothing after it may open an edge or turn a face over. */
static espalier_status check_soundness(post_job *j)
{
    char text[160];
    esi_mesh_metrics m;
    const esi_gate_mode mode = j->options.force ? ESI_GATE_WARNS : ESI_GATE_STOPS;
    espalier_status st = measure_welded(j->ctx, &m, &j->mesh, 0);

    if (st != ESPALIER_OK) return st;
    j->record->step[ESI_POST_SIMPLIFIED].metrics = m;
    j->record->step[ESI_POST_SIMPLIFIED].has_metrics = true;
    if (j->options.no_remesh || is_reference(j)) return ESPALIER_OK;
    snprintf(text, sizeof text, "%lld edges of the finished mesh are open", (long long)m.odd_edges);
    st = esi_gate(j->ctx, j->options.report, ESI_STAGE_FINISH, "closed", (double)m.odd_edges, 0, m.odd_edges == 0, mode, text);
    if (st != ESPALIER_OK) return st;
    snprintf(text, sizeof text, "%lld edges of the finished mesh have faces of opposed winding", (long long)m.winding_conflicts);
    return esi_gate(j->ctx, j->options.report, ESI_STAGE_FINISH, "winding", (double)m.winding_conflicts, 0, m.winding_conflicts == 0, mode,
                    text);
}

/* ------------------------------------------------------------- all of it */

static espalier_status open_volume(post_job *j)
{
    const esi_asset *a = j->data;
    if (!a->attrs || !a->coords || a->n_voxels == 0) return ESPALIER_OK;
    espalier_status st = esi_volume_open(j->ctx, &j->volume, a->coords, a->attrs, a->n_voxels, 6, (int32_t)a->resolution);
    j->has_volume = st == ESPALIER_OK;
    return st;
}

static espalier_status finish_mesh(post_job *j)
{
    espalier_status st = run_step(j, ESI_POST_RAW, esi_post_take_raw, &j->mesh);
    if (st != ESPALIER_OK) return st;
    if (j->options.mode == ESPALIER_POST_NONE) {
        st = open_volume(j);
        return st == ESPALIER_OK ? esi_post_raw_surface(j) : st;
    }
    if (esi_post_can_repair(j)) st = run_step(j, ESI_POST_REPAIRED, esi_post_repair, &j->mesh);
    if (st == ESPALIER_OK) st = run_step(j, ESI_POST_CLEANED, clean, &j->original);
    if (st == ESPALIER_OK) st = run_step(j, ESI_POST_REMESHED, j->options.no_remesh ? take_original : remesh, &j->mesh);
    if (st == ESPALIER_OK) st = require_faces(j, " after remeshing");
    if (st == ESPALIER_OK) st = run_step(j, ESI_POST_SIMPLIFIED, simplify, NULL);
    if (st == ESPALIER_OK) st = check_soundness(j);
    if (st == ESPALIER_OK) st = esi_mesh_vertex_normals(j->ctx, &j->normals, &j->mesh);
    if (st != ESPALIER_OK) return st;
    if (j->options.texture_size == 0) return plain_surface(j);
    st = run_step(j, ESI_POST_UNWRAPPED, unwrap, NULL);
    if (st == ESPALIER_OK) st = open_volume(j);
    return st == ESPALIER_OK ? run_step(j, ESI_POST_BAKED, bake, &j->surface.mesh) : st;
}

static void post_job_free(post_job *j)
{
    esi_unwrapped_free(j->ctx, &j->unwrapped);
    if (j->has_volume) esi_volume_close(j->ctx, &j->volume);
    esi_bvh_free(j->ctx, j->bvh);
    esi_mesh_free(j->ctx, &j->mesh);
    esi_mesh_free(j->ctx, &j->original);
    esi_free(j->ctx, j->voxel_of);
    esi_free(j->ctx, j->normals);
    esi_surface_free(j->ctx, &j->surface);
}

/* What the file says about its making. */
static espalier_status note_facts(espalier_mesh *mesh, const post_job *j)
{
    static const char *const modes[] = {"\"clean\"", "\"reference\"", "\"none\""};
    const struct { const char *key; long long value; } numbers[] = {
        {"seed", j->data->seed}, {"resolution", j->data->resolution}, {"arithmetic", ESPALIER_ARITHMETIC_VERSION},
        {"faces_wanted", j->options.faces}, {"texture_size", j->options.texture_size}};
    char text[64];
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(numbers); i++) {
        snprintf(text, sizeof text, "%lld", numbers[i].value);
        st = esi_mesh_object_note(mesh, numbers[i].key, text);
    }
    if (st == ESPALIER_OK) st = esi_mesh_object_note(mesh, "post", modes[j->options.mode]);
    if (st == ESPALIER_OK && j->data->pipeline_type) {
        esi_text name = {0};
        esi_text_append_json_string(j->ctx, &name, j->data->pipeline_type);
        st = name.failed ? ESPALIER_ERR_RESOURCE : esi_mesh_object_note(mesh, "pipeline", name.data);
        esi_text_free(j->ctx, &name);
    }
    return st;
}

espalier_status espalier_post(espalier_context *ctx, espalier_mesh **out, const espalier_asset *asset, const espalier_post_options *options)
{
    esi_fp_state fp;
    esi_post_record scratch = {0};
    espalier_mesh *mesh = NULL;

    if (out) *out = NULL;
    if (!ctx || !out || !asset || !options) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    post_job j = {.ctx = ctx, .asset = asset, .data = &asset->data, .options = *options, .record = &scratch};
    espalier_status st = esi_post_options_resolve(ctx, &j.options, asset->data.resolution, asset->data.attrs != NULL);
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    if (options->report) {
        j.record = &options->report->post;
        j.measure = true;
        memset(j.record, 0, sizeof *j.record);
        options->report->has_post = true;
    }
    j.record->options = j.options;
    j.record->resolution = (int32_t)asset->data.resolution;
    j.record->has_logits = asset->data.intersect_logits != NULL;
    if (j.options.mode == ESPALIER_POST_CLEAN && !j.record->has_logits)
        esi_log(ctx, ESPALIER_LOG_INFO, "no logits: margin repair off");
    esi_stage_timer timer = esi_stage_begin(ctx, options->report, ESI_STAGE_FINISH);
    st = finish_mesh(&j);
    if (st == ESPALIER_OK) st = esi_mesh_object_new(ctx, &mesh);
    if (st == ESPALIER_OK) {
        mesh->surface = j.surface;
        memset(&j.surface, 0, sizeof j.surface);
        st = note_facts(mesh, &j);
    }
    if (st == ESPALIER_OK) st = esi_progress(ctx, "finish", 100, 100);
    post_job_free(&j);
    if (st != ESPALIER_OK) {
        espalier_mesh_free(mesh);
        mesh = NULL;
    }
    *out = mesh;
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}
