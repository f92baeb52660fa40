/* SPDX-License-Identifier: MIT
 *
 * kinds.h: the kinds of golden cases that have code. To add one: a line here and a file kind_<name>.c (one file may serve several).
 */
#ifndef GOLDEN_KINDS_H
#define GOLDEN_KINDS_H

#include "golden.h"

/* X(name in the config, function) */
#define GOLDEN_KINDS(X) \
    X("aspp_deformable", golden_kind_aspp_deformable) \
    X("birefnet", golden_kind_birefnet) \
    X("c2s_block", golden_kind_c2s_block) \
    X("cascade", golden_kind_cascade) \
    X("closest_point", golden_kind_closest_point) \
    X("convnext_block", golden_kind_convnext_block) \
    X("deform_conv2d", golden_kind_deform_conv2d) \
    X("dinov3", golden_kind_dinov3) \
    X("dual_grid_repair", golden_kind_dual_grid_repair) \
    X("dual_grid_to_mesh", golden_kind_dual_grid_to_mesh) \
    X("gguf_load", golden_kind_gguf_load) \
    X("grid_sample_3d", golden_kind_grid_sample_3d) \
    X("isnet", golden_kind_isnet) \
    X("matte_pre_post", golden_kind_matte_pre_post) \
    X("mesh_metrics", golden_kind_mesh_metrics) \
    X("mesh_to_dual_grid", golden_kind_mesh_to_dual_grid) \
    X("mesh_to_pbr_voxels", golden_kind_mesh_to_pbr_voxels) \
    X("model_chain", golden_kind_model_chain) \
    X("pipeline", golden_kind_pipeline) \
    X("pipeline_e2e", golden_kind_pipeline_e2e) \
    X("preprocess", golden_kind_preprocess) \
    X("qem_cost", golden_kind_qem_cost) \
    X("remesh_dc", golden_kind_remesh_dc) \
    X("rng", golden_kind_rng) \
    X("rng_raw", golden_kind_rng_raw) \
    X("sampler_slat_flow", golden_kind_sampler_slat_flow) \
    X("sampler_ss_flow", golden_kind_sampler_ss_flow) \
    X("shape_decoder", golden_kind_shape_decoder) \
    X("shape_upsample", golden_kind_shape_upsample) \
    X("slat_flow", golden_kind_slat_flow) \
    X("sparse_conv", golden_kind_sparse_conv) \
    X("ss_decoder", golden_kind_ss_decoder) \
    X("ss_flow", golden_kind_ss_flow) \
    X("swin_blocks", golden_kind_swin_blocks) \
    X("telea", golden_kind_telea) \
    X("tex_decoder", golden_kind_tex_decoder) \
    X("tex_decoder_fp16", golden_kind_tex_decoder) \
    X("u2net_rsu", golden_kind_u2net_rsu) \
    X("u2netp", golden_kind_u2netp) \
    X("vxz", golden_kind_vxz)

#define GOLDEN_DECLARE(kind, function) espalier_status function(golden_case *c);
GOLDEN_KINDS(GOLDEN_DECLARE)      /* one function may serve two kinds; declaring it twice is fine */
#undef GOLDEN_DECLARE

#endif
