/* SPDX-License-Identifier: MIT
 *
 * pipelines.c: from embedded SPIR-V to pipelines. A module is the shader compiled for the device's way to an exact fma; what fp32 must keep
 * (signed zeros, infinities, NaN; rounding to nearest even) is declared in it where the device can promise it, which GLSL cannot say and
 * which differs from device to device. Pipelines are made when first used and kept: shader, kind and activation are their key.
 */
#include "tensor/vulkan/internal.h"

#include <stdio.h>

static const char *const shader_names[ESI_VK_SHADERS] = {"probe", "elementwise", "move", "norm", "rope", "table", "matmul", "peak",
                                                          "attention", "attention_small", "statistics"};

/* ------------------------------------------------------------------- SPIR-V */

enum { OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_CAPABILITY = 17, HEADER = 5 };
enum { MODE_SIGNED_ZERO_INF_NAN = 4461, MODE_ROUND_TO_EVEN = 4462, CAPABILITY_OF_MODE = 5 };   /* capability = mode + 5 */

/* Sections of a module come in a fixed order: capabilities first; execution modes right after the entry points. */
size_t esi_vk_declare(uint32_t *out, const uint32_t *in, size_t words, bool signed_zero_inf_nan, bool round_to_even)
{
    const uint32_t modes[] = {MODE_SIGNED_ZERO_INF_NAN, MODE_ROUND_TO_EVEN};
    const bool wanted[] = {signed_zero_inf_nan, round_to_even};
    uint32_t entry = 0;
    bool capabilities_done = false;
    size_t n = 0;

    for (size_t i = 0; i < ESI_MIN(words, (size_t)HEADER); i++) out[n++] = in[i];
    for (size_t i = HEADER; i < words;) {
        uint32_t op = in[i] & 0xffffu, length = in[i] >> 16;

        if (length == 0 || length > words - i) return 0;
        for (uint32_t k = 0; k < length; k++) out[n + k] = in[i + k];
        n += length;
        if (op == OP_ENTRY_POINT && length > 2) entry = in[i + 2];
        i += length;
        for (size_t m = 0; m < ESI_COUNT(modes); m++) {
            if (!wanted[m]) continue;
            if (op == OP_CAPABILITY && !capabilities_done) {
                out[n++] = 2u << 16 | OP_CAPABILITY;
                out[n++] = modes[m] + CAPABILITY_OF_MODE;
            }
            if (op == OP_ENTRY_POINT) {
                out[n++] = 4u << 16 | OP_EXECUTION_MODE;
                out[n++] = entry;
                out[n++] = modes[m];
                out[n++] = 32;
            }
        }
        capabilities_done = capabilities_done || op == OP_CAPABILITY;
    }
    return n;
}

static const esi_vk_module *find_module(esi_vk_shader shader, esi_vulkan_fma fma)
{
    char name[64];

    snprintf(name, sizeof name, "%s_%s", shader_names[shader], esi_vulkan_fma_name(fma));
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}

static espalier_status open_module(espalier_context *ctx, esi_vk_device *d, esi_vk_shader shader)
{
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    const esi_vk_module *m = find_module(shader, d->info.fma);
    size_t size;
    uint32_t *words;
    VkResult r;

    if (d->modules[shader]) return ESPALIER_OK;
    if (!m) return esi_vk_fail(ctx, d, "this build has no shader %s", shader_names[shader]);
    size = m->bytes + ESI_VK_DECLARED * sizeof *words;
    words = esi_raw_alloc(&d->allocator, size);
    if (!words) return esi_vk_fail_memory(ctx, d, "a shader");
    info.codeSize = esi_vk_declare(words, m->words, m->bytes / 4, d->info.signed_zero_inf_nan, d->info.round_to_even) * sizeof *words;
    info.pCode = words;
    r = d->vk.CreateShaderModule(d->handle, &info, NULL, &d->modules[shader]);
    esi_raw_free(&d->allocator, words, size);
    if (r == VK_SUCCESS) return ESPALIER_OK;
    d->modules[shader] = VK_NULL_HANDLE;
    return esi_vk_fail_result(ctx, d, "loading a shader", r);
}

/* ---------------------------------------------------------------- pipelines */

espalier_status esi_vk_pipelines_open(esi_vk_device *d)
{
    VkDescriptorSetLayoutBinding bindings[ESI_VK_BINDINGS];
    VkDescriptorSetLayoutCreateInfo sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                            .bindingCount = ESI_VK_BINDINGS, .pBindings = bindings};
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(esi_vk_push)};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
                                         .pSetLayouts = &d->set_layout, .pushConstantRangeCount = 1, .pPushConstantRanges = &push};
    VkResult r;

    for (uint32_t i = 0; i < ESI_VK_BINDINGS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    r = d->vk.CreateDescriptorSetLayout(d->handle, &sets, NULL, &d->set_layout);
    if (r == VK_SUCCESS) r = d->vk.CreatePipelineLayout(d->handle, &layout, NULL, &d->layout);
    return r == VK_SUCCESS ? ESPALIER_OK : esi_vk_fail_result(NULL, d, "pipeline layout", r);
}

void esi_vk_pipelines_close(esi_vk_device *d)
{
    for (size_t i = 0; i < d->n_pipelines; i++) d->vk.DestroyPipeline(d->handle, d->pipelines[i].handle, NULL);
    d->n_pipelines = 0;
    for (size_t i = 0; i < ESI_VK_SHADERS; i++) {
        if (d->modules[i]) d->vk.DestroyShaderModule(d->handle, d->modules[i], NULL);
        d->modules[i] = VK_NULL_HANDLE;
    }
    if (d->layout) d->vk.DestroyPipelineLayout(d->handle, d->layout, NULL);
    if (d->set_layout) d->vk.DestroyDescriptorSetLayout(d->handle, d->set_layout, NULL);
    d->layout = VK_NULL_HANDLE;
    d->set_layout = VK_NULL_HANDLE;
}

uint32_t esi_vk_workgroup(const esi_vk_device *d)
{
    return d->info.workgroup >= 256 ? 256 : 128;
}

static espalier_status create(espalier_context *ctx, esi_vk_device *d, esi_vk_pipeline *p)
{
    const esi_vk_tile t = esi_vk_product_tile(d, p->kind);
    const uint32_t invocations = p->shader == ESI_VK_MATMUL ? t.rows / t.own_rows * (t.cols / t.own_cols) : esi_vk_workgroup(d);
    const uint32_t constants[] = {invocations, (uint32_t)p->kind, (uint32_t)p->act, t.rows, t.cols, t.own_rows, t.own_cols, t.depth};
    const VkSpecializationMapEntry all[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}, {3, 12, 4}, {4, 16, 4}, {5, 20, 4}, {6, 24, 4}, {7, 28, 4}};
    const VkSpecializationInfo specialization = {p->shader == ESI_VK_MATMUL ? 8 : 3, all, sizeof constants, constants};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = "main",
                  .pSpecializationInfo = &specialization}};
    char what[96];
    espalier_status st = open_module(ctx, d, p->shader);
    VkResult r;

    if (st != ESPALIER_OK) return st;
    info.stage.module = d->modules[p->shader];
    info.layout = d->layout;
    r = d->vk.CreateComputePipelines(d->handle, VK_NULL_HANDLE, 1, &info, NULL, &p->handle);
    snprintf(what, sizeof what, "compiling %s", shader_names[p->shader]);
    return r == VK_SUCCESS ? ESPALIER_OK : esi_vk_fail_result(ctx, d, what, r);
}

espalier_status esi_vk_pipeline_get(espalier_context *ctx, esi_vk_device *d, esi_vk_pipeline **out, esi_vk_shader shader, int32_t kind,
                                    int32_t act)
{
    esi_vk_pipeline *p = d->pipelines;
    espalier_status st;

    *out = NULL;
    for (size_t i = 0; i < d->n_pipelines; i++, p++)
        if (p->shader == shader && p->kind == kind && p->act == act) {
            *out = p;
            return ESPALIER_OK;
        }
    if (d->n_pipelines == ESI_VK_PIPELINES) return esi_vk_fail(ctx, d, "more kinds of operations than there are places for");
    *p = (esi_vk_pipeline){.shader = shader, .kind = kind, .act = act, .cost = esi_vk_cost_first(d)};
    st = create(ctx, d, p);
    if (st != ESPALIER_OK) return st;
    d->n_pipelines++;
    *out = p;
    return ESPALIER_OK;
}
