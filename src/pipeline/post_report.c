/* SPDX-License-Identifier: MIT
 *
 * post_report.c: what finishing leaves for the report (post.h), as JSON: docs/report.schema.json.
 */
#include "pipeline/post_report.h"

static const char *const step_names[ESI_POST_STEPS] = {"raw", "repaired", "cleaned", "remeshed", "simplified", "unwrapped", "baked"};

const char *esi_post_step_name(esi_post_step step)
{
    return step_names[step];
}

void esi_put_mesh_metrics(esi_json_writer *w, const char *key, const esi_mesh_metrics *m)
{
    esi_json_open(w, key, '{');
    esi_json_put_int(w, "vertices", m->used_vertices);
    esi_json_put_int(w, "edges", m->edges);
    esi_json_put_int(w, "faces", m->faces);
    esi_json_put_int(w, "boundary_edges", m->boundary_edges);
    esi_json_put_int(w, "odd_edges", m->odd_edges);
    esi_json_put_int(w, "nonmanifold_edges", m->nonmanifold_edges);
    esi_json_put_bool(w, "watertight", m->watertight);
    esi_json_put_bool(w, "manifold", m->manifold);
    esi_json_put_int(w, "face_components", m->face_components);
    esi_json_put_int(w, "vertex_components", m->vertex_components);
    esi_json_put_int(w, "closed_components", m->closed_components);
    esi_json_put_int(w, "negative_components", m->negative_components);
    esi_json_put_number(w, "largest_component_share", m->faces ? (double)m->largest_component_faces / (double)m->faces : 0);
    esi_json_put_int(w, "euler_characteristic", m->euler);
    esi_json_put_number(w, "genus", m->genus);
    esi_json_put_int(w, "winding_conflicts", m->winding_conflicts);
    esi_json_put_number(w, "winding_conflict_share", m->manifold_edges ? (double)m->winding_conflicts / (double)m->manifold_edges : 0);
    esi_json_put_number(w, "area", m->area);
    esi_json_put_number(w, "volume", m->volume);
    esi_json_put_int(w, "zero_area_faces", m->zero_area_faces);
    esi_json_put_int(w, "duplicate_faces", m->duplicate_faces);
    esi_json_put_int(w, "boundary_loops", m->boundary_loops);
    esi_json_put_int(w, "boundary_chains", m->boundary_chains);
    esi_json_put_int(w, "loops_below_limit", m->loops_below_limit);
    esi_json_put_number(w, "longest_loop", m->longest_loop);
    esi_json_open(w, "box", '[');
    for (int i = 0; i < 6; i++) esi_json_put_number(w, NULL, (double)(i < 3 ? m->min[i] : m->max[i - 3]));
    esi_json_close(w, ']');
    esi_json_close(w, '}');
}

void esi_put_uv_metrics(esi_json_writer *w, const char *key, const esi_uv_metrics *u)
{
    esi_json_open(w, key, '{');
    esi_json_put_int(w, "charts", u->charts);
    esi_json_put_number(w, "area", u->area);
    esi_json_put_number(w, "covered", u->covered);
    esi_json_put_int(w, "overlapping_texels", u->overlapping_texels);
    esi_json_put_int(w, "flipped_faces", u->flipped_faces);
    esi_json_put_int(w, "zero_uv_faces", u->zero_uv_faces);
    esi_json_put_int(w, "out_of_range", u->out_of_range);
    esi_json_put_number(w, "l2_stretch", u->l2_stretch);
    esi_json_put_number(w, "linf_stretch", u->linf_stretch);
    esi_json_put_number(w, "density_mean", u->density_mean);
    esi_json_put_number(w, "density_cov", u->density_cov);
    esi_json_put_number(w, "density_p5", u->density_p5);
    esi_json_put_number(w, "density_p95", u->density_p95);
    esi_json_close(w, '}');
}

void esi_put_mesh_distance(esi_json_writer *w, const esi_mesh_distance *d)
{
    esi_json_put_int(w, "samples", d->samples);
    esi_json_put_number(w, "mean_ab", d->mean_ab);
    esi_json_put_number(w, "rms_ab", d->rms_ab);
    esi_json_put_number(w, "max_ab", d->max_ab);
    esi_json_put_number(w, "mean_ba", d->mean_ba);
    esi_json_put_number(w, "rms_ba", d->rms_ba);
    esi_json_put_number(w, "max_ba", d->max_ba);
    esi_json_put_number(w, "hausdorff", d->hausdorff);
    esi_json_put_number(w, "chamfer", d->chamfer);
}

/* ------------------------------------------------------------- finishing */

static void put_options(esi_json_writer *w, const espalier_post_options *o)
{
    static const char *const modes[] = {"clean", "reference", "none"}, *const alphas[] = {"auto", "opaque", "mask", "blend"};

    esi_json_open(w, "options", '{');
    esi_json_put_string(w, "mode", modes[o->mode]);
    esi_json_put_int(w, "faces", o->faces);
    esi_json_put_int(w, "texture_size", o->texture_size);
    esi_json_put_number(w, "margin", o->margin);
    esi_json_put_number(w, "fill_perimeter", o->fill_perimeter);
    esi_json_put_bool(w, "remesh", !o->no_remesh);
    esi_json_put_int(w, "remesh_resolution", o->remesh_resolution);
    esi_json_put_number(w, "band", o->band);
    esi_json_put_number(w, "project", o->project);
    esi_json_put_bool(w, "keep_inner", o->keep_inner != 0);
    esi_json_put_bool(w, "solid", o->solid != 0);
    esi_json_put_number(w, "min_component", o->min_component);
    esi_json_put_number(w, "remove_floaters", o->remove_floaters);
    esi_json_put_bool(w, "box_uv", o->box_uv != 0);
    esi_json_put_number(w, "padding", o->padding);
    esi_json_put_bool(w, "telea", o->telea != 0);
    esi_json_put_int(w, "despeckle", o->despeckle);
    esi_json_put_bool(w, "normal_map", o->normal_map != 0);
    esi_json_put_int(w, "occlusion_rays", o->occlusion_rays);
    esi_json_put_string(w, "alpha", alphas[o->alpha]);
    esi_json_close(w, '}');
}

static void put_steps(esi_json_writer *w, const esi_post_record *r)
{
    esi_json_open(w, "steps", '[');
    for (int i = 0; i < ESI_POST_STEPS; i++) {
        const esi_post_step_record *s = &r->step[i];
        if (!s->ran) continue;
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", esi_post_step_name((esi_post_step)i));
        esi_json_put_number(w, "seconds", s->seconds);
        esi_json_put_number(w, "cpu_seconds", s->cpu_seconds);
        esi_json_put_int(w, "peak_bytes", (int64_t)s->peak_bytes);
        if (s->has_metrics) esi_put_mesh_metrics(w, "mesh", &s->metrics);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
}

static void put_repair(esi_json_writer *w, const esi_post_record *r)
{
    const esi_repair_stats *s = &r->repair;

    esi_json_open(w, "repair", '{');
    esi_json_put_bool(w, "has_logits", r->has_logits);
    esi_json_put_int(w, "restored_voxels", r->restored_voxels);
    esi_json_put_int(w, "candidates", s->candidates);
    esi_json_put_int(w, "clusters", s->clusters);
    esi_json_put_int(w, "clusters_odd", s->clusters_odd);
    esi_json_put_int(w, "clusters_large", s->clusters_large);
    esi_json_put_int(w, "flips_on", s->flips_on);
    esi_json_put_int(w, "flips_off", s->flips_off);
    esi_json_put_int(w, "odd_faces_before", s->odd_faces_before);
    esi_json_put_int(w, "odd_faces_after", s->odd_faces_after);
    esi_json_close(w, '}');
}

static void put_cleaning(esi_json_writer *w, const esi_post_record *r)
{
    esi_json_open(w, "cleaning", '{');
    esi_json_put_int(w, "unusable_faces", r->sanitize.bad_index + r->sanitize.repeated_index + r->sanitize.not_finite);
    esi_json_put_int(w, "floater_components", r->floater_components);
    esi_json_put_int(w, "floater_faces", r->floater_faces);
    esi_json_put_int(w, "small_components", r->small_components);
    esi_json_put_int(w, "small_faces", r->small_faces);
    esi_json_put_int(w, "holes_filled", r->fill.filled);
    esi_json_put_int(w, "hole_faces", r->fill.faces_added);
    esi_json_put_int(w, "boundary_edges_left", r->fill.boundary_edges_left);
    esi_json_put_int(w, "flipped_faces", r->flipped_faces);
    esi_json_put_int(w, "flipped_components", r->flipped_components);
    esi_json_put_int(w, "winding_left", r->winding_left);
    esi_json_close(w, '}');
}

static void put_remesh(esi_json_writer *w, const esi_remesh_stats *s)
{
    esi_json_open(w, "remesh", '{');
    esi_json_put_int(w, "cells", s->cells);
    esi_json_put_int(w, "quads", s->quads);
    esi_json_put_int(w, "missing_quads", s->missing_quads);
    esi_json_put_int(w, "shells", s->shells);
    esi_json_put_int(w, "cavity_components", s->cavity_components);
    esi_json_put_int(w, "cavity_faces", s->cavity_faces);
    esi_json_put_int(w, "dropped_components", s->dropped_components);
    esi_json_put_int(w, "dropped_faces", s->dropped_faces);
    esi_json_put_int(w, "flipped_before", s->flipped_before);
    esi_json_put_int(w, "unprojected", s->unprojected);
    esi_json_put_int(w, "flipped_after", s->flipped_after);
    esi_json_close(w, '}');
}

static void put_simplify(esi_json_writer *w, const esi_post_record *r)
{
    esi_json_open(w, "simplify", '{');
    esi_json_put_int(w, "collapses", r->simplify.collapses);
    esi_json_put_int(w, "passes", r->simplify.passes);
    esi_json_put_number(w, "last_error", r->simplify.last_error);
    esi_json_put_bool(w, "reached", r->simplify.reached);
    esi_json_put_int(w, "degenerate_changed", r->degenerate_changed);
    esi_json_put_int(w, "degenerate_left", r->degenerate_left);
    esi_json_close(w, '}');
}

static void put_unwrap(esi_json_writer *w, const esi_post_record *r)
{
    esi_json_open(w, "unwrap", '{');
    esi_json_put_int(w, "charts", r->charts);
    esi_json_put_int(w, "by_plane", r->charts_by_method[ESI_CHART_PLANE]);
    esi_json_put_int(w, "by_flattening", r->charts_by_method[ESI_CHART_CONFORMAL]);
    esi_json_put_int(w, "by_fallback", r->charts_by_method[ESI_CHART_FALLBACK]);
    esi_json_put_number(w, "texels_per_unit", r->pack.texels_per_unit);
    esi_json_put_number(w, "utilisation", r->pack.utilisation);
    esi_json_close(w, '}');
}

static void put_bake(esi_json_writer *w, const esi_bake_stats *s)
{
    static const char *const alphas[] = {"opaque", "mask", "blend"};

    esi_json_open(w, "bake", '{');
    esi_json_put_int(w, "texels_covered", s->texels_covered);
    esi_json_put_int(w, "texels_without_voxel", s->texels_without_voxel);
    esi_json_put_int(w, "texels_nearest_voxel", s->texels_nearest_voxel);
    esi_json_put_int(w, "texels_refused_facing", s->texels_refused_facing);
    esi_json_put_int(w, "despeckled", s->despeckled);
    esi_json_put_number(w, "mean_snap_distance", s->mean_snap_distance);
    esi_json_put_number(w, "max_snap_distance", s->max_snap_distance);
    esi_json_put_number(w, "translucent_share", s->translucent_share);
    esi_json_put_number(w, "largest_translucent_share", s->largest_translucent_share);
    esi_json_put_string(w, "alpha_mode", alphas[s->alpha_mode]);
    esi_json_close(w, '}');
}

void esi_put_post(esi_json_writer *w, const char *key, const esi_post_record *r)
{
    esi_json_open(w, key, '{');
    put_options(w, &r->options);
    put_steps(w, r);
    put_repair(w, r);
    put_cleaning(w, r);
    if (r->remeshed) put_remesh(w, &r->remesh);
    if (r->step[ESI_POST_SIMPLIFIED].ran) put_simplify(w, r);
    if (r->unwrapped) put_unwrap(w, r);
    if (r->baked) {
        put_bake(w, &r->bake);
        esi_put_uv_metrics(w, "uv", &r->uv);
    }
    esi_json_close(w, '}');
}
