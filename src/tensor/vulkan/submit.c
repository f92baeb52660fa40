/* SPDX-License-Identifier: MIT
 *
 * submit.c: recording commands and sending them off. Three slots take turns: while one is recorded, the others run. A slot is sent when it
 * holds as much work as the device does in about a tenth of a second, when its staging memory or its descriptors are used up, or when
 * somebody waits; so no submission is long enough for a watchdog, and the device does not idle. What a unit of work costs is kept for each
 * pipeline: a guess for a slow device at first, then what timestamps say (or the clock, where there are none).
 */
#include "tensor/vulkan/internal.h"

#include <stdio.h>

#define SUBMISSION 1e8                      /* nanoseconds */
#define COST_FIRST 100.0                    /* nanoseconds for a unit of work, before anything was measured */
#define COST_LEAST 1e-5
#define COST_MOST 1e5
#define OVERHEAD 1e6                        /* shorter submissions say little about the work in them */

static espalier_status slot_open(esi_vk_device *d, esi_vk_slot *s)
{
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = d->family};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, ESI_VK_SETS * ESI_VK_BINDINGS};
    VkDescriptorPoolCreateInfo sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = ESI_VK_SETS, .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    VkQueryPoolCreateInfo times = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = 2};
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
    VkResult r = d->vk.CreateCommandPool(d->handle, &pool, NULL, &s->pool);

    commands.commandPool = s->pool;
    if (r == VK_SUCCESS) r = d->vk.AllocateCommandBuffers(d->handle, &commands, &s->commands);
    if (r == VK_SUCCESS) r = d->vk.CreateFence(d->handle, &fence, NULL, &s->fence);
    if (r == VK_SUCCESS) r = d->vk.CreateDescriptorPool(d->handle, &sets, NULL, &s->descriptors);
    if (r == VK_SUCCESS && d->timestamp_period > 0.0f) r = d->vk.CreateQueryPool(d->handle, &times, NULL, &s->times);
    if (r != VK_SUCCESS) return esi_vk_fail_result(NULL, d, "command buffers", r);
    return esi_vk_staging_new(d, s);
}

espalier_status esi_vk_slots_open(esi_vk_device *d)
{
    espalier_status st = ESPALIER_OK;

    d->staging = ESI_MIN(ESI_VK_STAGING, d->info.max_allocation / 256 * 256);
    for (size_t i = 0; i < ESI_VK_SLOTS && st == ESPALIER_OK; i++) st = slot_open(d, &d->slots[i]);
    return st;
}

/* A lost device answers every wait. */
bool esi_vk_slots_idle(esi_vk_device *d)
{
    for (size_t i = 0; i < ESI_VK_SLOTS; i++) {
        esi_vk_slot *s = &d->slots[i];
        if (s->running && d->vk.WaitForFences(d->handle, 1, &s->fence, VK_TRUE, d->fence_timeout) == VK_TIMEOUT) return false;
        s->running = false;
    }
    return true;
}

void esi_vk_slots_close(esi_vk_device *d)
{
    for (size_t i = 0; i < ESI_VK_SLOTS; i++) {
        esi_vk_slot *s = &d->slots[i];
        if (s->pool) d->vk.DestroyCommandPool(d->handle, s->pool, NULL);
        if (s->fence) d->vk.DestroyFence(d->handle, s->fence, NULL);
        if (s->descriptors) d->vk.DestroyDescriptorPool(d->handle, s->descriptors, NULL);
        if (s->times) d->vk.DestroyQueryPool(d->handle, s->times, NULL);
        if (s->staging) d->vk.DestroyBuffer(d->handle, s->staging, NULL);
        if (s->staging_memory) d->vk.FreeMemory(d->handle, s->staging_memory, NULL);
        memset(s, 0, sizeof *s);
    }
}

/* ------------------------------------------------------------------ slots */

/* Nanoseconds that the slot's commands took, 0 if nobody knows. */
static double time_of(esi_vk_device *d, const esi_vk_slot *s)
{
    uint64_t ticks[2];

    if (!s->times) return (esi_now() - ESI_MAX(s->sent, d->last_answer)) * 1e9;
    if (d->vk.GetQueryPoolResults(d->handle, s->times, 0, 2, sizeof ticks, ticks, sizeof ticks[0], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return 0.0;
    return (double)(ticks[1] - ticks[0]) * (double)d->timestamp_period;
}

/* The estimates are corrected by what the submission took, each by its share in it. A short submission is mostly overhead: it can only show
 * that the work in it is cheaper than thought. */
static void adapt(esi_vk_device *d, esi_vk_slot *s)
{
    double took = time_of(d, s), ratio = s->expected > 0.0 ? took / s->expected : 0.0;

    if (d->instance.hooks.cost > 0.0) return;
    if (!(took > 0.0 && took < 1e12) || !(ratio > 0.0) || (ratio > 1.0 && took < OVERHEAD)) return;
    for (size_t i = 0; i < d->n_pipelines; i++) {
        esi_vk_pipeline *p = &d->pipelines[i];
        double share = s->expected_of[i] / s->expected;
        if (share > 0.0) p->cost = ESI_MIN(ESI_MAX(p->cost * (1.0 + share * (ratio - 1.0)), COST_LEAST), COST_MOST);
    }
}

/* The first estimate of a pipeline. */
double esi_vk_cost_first(const esi_vk_device *d) { return d->instance.hooks.cost > 0.0 ? d->instance.hooks.cost : COST_FIRST; }

uint64_t esi_vk_work_limit(const esi_vk_device *d, esi_vk_shader shader, int32_t kind, int32_t act)
{
    double cost = esi_vk_cost_first(d);

    for (size_t i = 0; i < d->n_pipelines; i++)
        if (d->pipelines[i].shader == shader && d->pipelines[i].kind == kind && d->pipelines[i].act == act) cost = d->pipelines[i].cost;
    return (uint64_t)(SUBMISSION / cost);
}

static espalier_status slot_wait(espalier_context *ctx, esi_vk_device *d, esi_vk_slot *s)
{
    char what[96];
    VkResult r;

    if (!s->running) return ESPALIER_OK;
    r = d->vk.WaitForFences(d->handle, 1, &s->fence, VK_TRUE, d->fence_timeout);
    snprintf(what, sizeof what, "running %s", s->what);
    if (r != VK_SUCCESS) return esi_vk_fail_result(ctx, d, what, r);
    s->running = false;
    adapt(d, s);
    d->last_answer = esi_now();
    return ESPALIER_OK;
}

/* The slot that is being recorded, begun if it was not. */
static espalier_status begin(espalier_context *ctx, esi_vk_device *d, esi_vk_slot **out)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    esi_vk_slot *s = &d->slots[d->slot];
    espalier_status st;
    VkResult r;

    *out = s;
    if (d->lost) return esi_vk_fail(ctx, d, "the device was lost before");
    if (s->recording) return ESPALIER_OK;
    st = slot_wait(ctx, d, s);
    if (st != ESPALIER_OK) return st;
    s->staged = 0;
    s->sets = 0;
    s->expected = 0.0;
    memset(s->expected_of, 0, sizeof s->expected_of);
    s->what[0] = 0;
    r = d->vk.ResetCommandPool(d->handle, s->pool, 0);
    if (r == VK_SUCCESS) r = d->vk.ResetDescriptorPool(d->handle, s->descriptors, 0);
    if (r == VK_SUCCESS) r = d->vk.ResetFences(d->handle, 1, &s->fence);
    if (r == VK_SUCCESS) r = d->vk.BeginCommandBuffer(s->commands, &info);
    if (r != VK_SUCCESS) return esi_vk_fail_result(ctx, d, "recording", r);
    s->recording = true;
    if (s->times) {
        d->vk.CmdResetQueryPool(s->commands, s->times, 0, 2);
        d->vk.CmdWriteTimestamp(s->commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, s->times, 0);
    }
    return ESPALIER_OK;
}

/* All that follows in the stream waits for all that came before. */
static void barrier(esi_vk_device *d, const esi_vk_slot *s, VkPipelineStageFlags after, VkAccessFlags reads)
{
    const VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, .dstAccessMask = reads};
    d->vk.CmdPipelineBarrier(s->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, after, 0, 1, &memory, 0,
                             NULL, 0, NULL);
}

/* Sends the slot that is being recorded; the next one takes its place. */
static espalier_status flush(espalier_context *ctx, esi_vk_device *d)
{
    esi_vk_slot *s = &d->slots[d->slot];
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &s->commands};
    char what[96];
    VkResult r;

    if (!s->recording) return ESPALIER_OK;
    s->recording = false;
    barrier(d, s, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    if (s->times) d->vk.CmdWriteTimestamp(s->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, s->times, 1);
    r = d->vk.EndCommandBuffer(s->commands);
    if (r == VK_SUCCESS) r = d->vk.QueueSubmit(d->queue, 1, &info, s->fence);
    if (r != VK_SUCCESS) {
        d->lost = true; /* what was recorded is gone, so nothing that follows can be right */
        snprintf(what, sizeof what, "starting %s", s->what);
        return esi_vk_fail_result(ctx, d, what, r);
    }
    s->running = true;
    s->sent = esi_now();
    d->slot = (d->slot + 1) % ESI_VK_SLOTS;
    return ESPALIER_OK;
}

espalier_status esi_vk_finish(espalier_context *ctx, esi_vk_device *d)
{
    espalier_status st = d->lost ? esi_vk_fail(ctx, d, "the device was lost before") : flush(ctx, d);

    for (size_t i = 0; i < ESI_VK_SLOTS && st == ESPALIER_OK; i++) st = slot_wait(ctx, d, &d->slots[(d->slot + i) % ESI_VK_SLOTS]);
    return st;
}

/* -------------------------------------------------------------- transfers */

/* Room for up to `size` bytes of staging: *at and *piece. */
static espalier_status stage(espalier_context *ctx, esi_vk_device *d, uint64_t size, const char *what, esi_vk_slot **slot, uint64_t *at,
                             uint64_t *piece)
{
    espalier_status st = begin(ctx, d, slot);

    if (st == ESPALIER_OK && (*slot)->staged == d->staging) {
        st = flush(ctx, d);
        if (st == ESPALIER_OK) st = begin(ctx, d, slot);
    }
    if (st != ESPALIER_OK) return st;
    *at = (*slot)->staged;
    *piece = ESI_MIN(size, d->staging - *at);
    (*slot)->staged += *piece;
    snprintf((*slot)->what, sizeof (*slot)->what, "%s", what);
    barrier(d, *slot, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    return ESPALIER_OK;
}

espalier_status esi_vk_upload(espalier_context *ctx, esi_vk_device *d, const esi_vk_range *r, uint64_t offset, const void *data,
                              uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        esi_vk_slot *s;
        uint64_t at, piece;
        VkBufferCopy copy;
        espalier_status st = stage(ctx, d, size - done, "an upload", &s, &at, &piece);

        if (st != ESPALIER_OK) return st;
        memcpy(s->mapped + at, (const uint8_t *)data + done, piece);
        copy = (VkBufferCopy){at, r->offset + offset + done, piece};
        d->vk.CmdCopyBuffer(s->commands, s->staging, r->block->buffer, 1, &copy);
        done += piece;
    }
    return ESPALIER_OK;
}

espalier_status esi_vk_download(espalier_context *ctx, esi_vk_device *d, const esi_vk_range *r, uint64_t offset, void *data, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        esi_vk_slot *s;
        uint64_t at, piece;
        VkBufferCopy copy;
        espalier_status st = stage(ctx, d, size - done, "a download", &s, &at, &piece);

        if (st != ESPALIER_OK) return st;
        copy = (VkBufferCopy){r->offset + offset + done, at, piece};
        d->vk.CmdCopyBuffer(s->commands, r->block->buffer, s->staging, 1, &copy);
        st = flush(ctx, d);
        if (st == ESPALIER_OK) st = slot_wait(ctx, d, s);
        if (st != ESPALIER_OK) return st;
        memcpy((uint8_t *)data + done, s->mapped + at, piece);
        done += piece;
    }
    return ESPALIER_OK;
}

/* --------------------------------------------------------------- dispatch */

/* Bindings start at multiples of the device's alignment; the shader gets the rest as an element offset. */
static VkResult bind(esi_vk_device *d, esi_vk_slot *s, const esi_vk_binding bindings[ESI_VK_BINDINGS], esi_vk_push *push)
{
    VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = s->descriptors,
                                            .descriptorSetCount = 1, .pSetLayouts = &d->set_layout};
    VkDescriptorBufferInfo buffers[ESI_VK_BINDINGS];
    VkWriteDescriptorSet writes[ESI_VK_BINDINGS];
    VkDescriptorSet set;
    VkResult r = d->vk.AllocateDescriptorSets(d->handle, &allocate, &set);

    if (r != VK_SUCCESS) return r;
    for (uint32_t i = 0; i < ESI_VK_BINDINGS; i++) {
        const esi_vk_binding *b = bindings[i].range ? &bindings[i] : &bindings[0];
        uint64_t start = b->range->offset + b->offset, rest = start % d->alignment;

        push->at[i].offset = (uint32_t)(rest / 4);
        buffers[i] = (VkDescriptorBufferInfo){b->range->block->buffer, start - rest, ESI_MAX(b->size, UINT64_C(4)) + rest};
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = set, .dstBinding = i,
                                           .descriptorCount = 1, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .pBufferInfo = &buffers[i]};
    }
    d->vk.UpdateDescriptorSets(d->handle, ESI_VK_BINDINGS, writes, 0, NULL);
    d->vk.CmdBindDescriptorSets(s->commands, VK_PIPELINE_BIND_POINT_COMPUTE, d->layout, 0, 1, &set, 0, NULL);
    s->sets++;
    return VK_SUCCESS;
}

espalier_status esi_vk_dispatch(espalier_context *ctx, esi_vk_device *d, const char *what, esi_vk_shader shader, int32_t kind, int32_t act,
                                const esi_vk_binding bindings[ESI_VK_BINDINGS], esi_vk_push *push, uint64_t groups, uint64_t work)
{
    uint32_t width = (uint32_t)ESI_MIN(groups, (uint64_t)ESI_MIN(d->max_groups, UINT32_C(32768)));
    uint32_t height = width ? (uint32_t)((groups + width - 1) / width) : 0;
    esi_vk_pipeline *pipeline;
    esi_vk_slot *s;
    espalier_status st = esi_vk_pipeline_get(ctx, d, &pipeline, shader, kind, act);
    double expected = st == ESPALIER_OK ? (double)work * pipeline->cost : 0.0;
    VkResult r;

    if (st == ESPALIER_OK) st = begin(ctx, d, &s);
    if (st == ESPALIER_OK && (s->sets == ESI_VK_SETS || (s->sets > 0 && s->expected + expected > SUBMISSION))) {
        st = flush(ctx, d);
        if (st == ESPALIER_OK) st = begin(ctx, d, &s);
    }
    if (st != ESPALIER_OK || groups == 0) return st;
    snprintf(s->what, sizeof s->what, "%s", what);
    barrier(d, s, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    d->vk.CmdBindPipeline(s->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->handle);
    r = bind(d, s, bindings, push);
    if (r != VK_SUCCESS) return esi_vk_fail_result(ctx, d, what, r);
    if (d->instance.hooks.spoil && push->rows > 0 && strcmp(d->instance.hooks.spoil, what) == 0) push->rows--;
    d->vk.CmdPushConstants(s->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof *push, push);
    d->vk.CmdDispatch(s->commands, width, height, 1);
    s->expected += expected;
    s->expected_of[pipeline - d->pipelines] += expected;
    return ESPALIER_OK;
}
