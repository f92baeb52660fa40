/* SPDX-License-Identifier: MIT
 *
 * memory.c: device memory in blocks, shared out to tensors. A block is one allocation with one buffer over it; its ranges are a list by
 * offset, and a new one takes the first gap that is large enough. What is larger than a block gets one of its own. Ranges may be reused at
 * once, because commands run in order; a block goes back to the driver only after the device has finished.
 *
 * When memory of the device is short: unused blocks go back, then weights (which can be read again from their file); if that is not enough,
 * the block is made in other memory that the device can reach, which is slow but right; if there is none, the op fails.
 */
#include "tensor/vulkan/internal.h"

#include <stdio.h>

#define BLOCK (UINT64_C(64) << 20)
#define ALIGNMENT UINT64_C(256)             /* no device asks for more */

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/* More than a GiB is never asked for at once: some drivers promise more than they keep. */
uint64_t esi_vk_largest(const esi_vk_device *d) { return ESI_MIN(d->info.max_allocation, UINT64_C(1) << 30) / ALIGNMENT * ALIGNMENT; }

bool esi_vk_fits(const esi_vk_device *d, uint64_t bytes) { return bytes <= esi_vk_largest(d); }

static void block_free(esi_vk_device *d, esi_vk_block *b)
{
    if (b->buffer) d->vk.DestroyBuffer(d->handle, b->buffer, NULL);
    if (b->memory) d->vk.FreeMemory(d->handle, b->memory, NULL);
    esi_raw_free(&d->allocator, b, sizeof *b);
}

static VkResult create_buffer(esi_vk_device *d, uint64_t size, VkBufferUsageFlags usage, uint32_t type, VkBuffer *buffer,
                              VkDeviceMemory *memory)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = usage};
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .memoryTypeIndex = type};
    VkMemoryRequirements needs;
    VkResult r = d->vk.CreateBuffer(d->handle, &info, NULL, buffer);

    if (r != VK_SUCCESS) {
        *buffer = VK_NULL_HANDLE;
        return r;
    }
    d->vk.GetBufferMemoryRequirements(d->handle, *buffer, &needs);
    if (!(needs.memoryTypeBits & UINT32_C(1) << type)) return VK_ERROR_FEATURE_NOT_PRESENT;
    allocate.allocationSize = needs.size;
    r = d->vk.AllocateMemory(d->handle, &allocate, NULL, memory);
    if (r != VK_SUCCESS) {
        *memory = VK_NULL_HANDLE;
        return r;
    }
    return d->vk.BindBufferMemory(d->handle, *buffer, *memory, 0);
}

/* Would an allocation go over what the driver says this process may have? */
static bool over_budget(esi_vk_device *d, uint32_t type, uint64_t bytes)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    uint32_t heap = d->memory_types.memoryTypes[type].heapIndex;

    if (!d->memory_budget) return false;
    d->instance.api.GetPhysicalDeviceMemoryProperties2(d->physical, &m);
    return budget.heapBudget[heap] > 0 && (budget.heapUsage[heap] > budget.heapBudget[heap] ||
                                           bytes > budget.heapBudget[heap] - budget.heapUsage[heap]);
}

static bool is_local(const esi_vk_device *d, uint32_t type)
{
    return (d->memory_types.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
}

/* In the device's own memory, or in what else it can reach. */
static VkResult block_new(esi_vk_device *d, uint64_t size, bool local, esi_vk_block **out)
{
    const VkBufferUsageFlags usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;

    *out = NULL;
    for (uint32_t i = 0; i < d->n_memory_order; i++) {
        const uint32_t type = d->memory_order[i];
        esi_vk_block *b;
        VkResult r;

        if (is_local(d, type) != local || over_budget(d, type, size)) continue;
        b = esi_raw_alloc(&d->allocator, sizeof *b);
        if (!b) return VK_ERROR_OUT_OF_HOST_MEMORY;
        memset(b, 0, sizeof *b);
        b->size = size;
        r = create_buffer(d, size, usage, type, &b->buffer, &b->memory);
        if (r == VK_SUCCESS) {
            b->next = d->blocks;
            d->blocks = *out = b;
            return VK_SUCCESS;
        }
        block_free(d, b);
        if (r != VK_ERROR_FEATURE_NOT_PRESENT) result = r;              /* that one: buffers cannot lie in this type of memory */
        if (r == VK_ERROR_DEVICE_LOST) return r;
    }
    return result;
}

/* Takes the first gap of a block. */
static bool take(esi_vk_block *b, esi_vk_range *r, uint64_t size)
{
    esi_vk_range *before = NULL, *after = b->first;
    uint64_t start = 0;

    while (after && after->offset - start < size) {
        start = after->offset + after->size;
        before = after;
        after = after->next;
    }
    if (!after && (start > b->size || b->size - start < size)) return false;
    *r = (esi_vk_range){.block = b, .offset = start, .size = size, .prev = before, .next = after};
    if (before) before->next = r;
    else b->first = r;
    if (after) after->prev = r;
    return true;
}

/* Blocks without ranges back to the driver. */
static espalier_status free_empty_blocks(espalier_context *ctx, esi_vk_device *d)
{
    espalier_status st = esi_vk_finish(ctx, d);

    if (st != ESPALIER_OK) return st;
    for (esi_vk_block **p = &d->blocks; *p;) {
        esi_vk_block *b = *p;
        if (b->first) {
            p = &b->next;
        } else {
            *p = b->next;
            block_free(d, b);
        }
    }
    return ESPALIER_OK;
}

static bool is_short(VkResult r) { return r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY; }

static bool take_any(esi_vk_device *d, esi_vk_range *r, uint64_t size)
{
    for (esi_vk_block *b = d->blocks; b; b = b->next)
        if (take(b, r, size)) return true;
    return false;
}

/* Memory is short: what can be spared goes back to the driver, then once more; *result says how it went. */
static espalier_status make_room(espalier_context *ctx, esi_vk_device *d, esi_vk_range *r, uint64_t size, VkResult *result)
{
    espalier_status st = free_empty_blocks(ctx, d);
    esi_vk_block *b;

    if (st != ESPALIER_OK) return st;
    *result = block_new(d, size, true, &b);
    if (is_short(*result) && esi_vk_weights_evict(d, size)) {
        if (take_any(d, r, size)) return ESPALIER_OK;
        st = free_empty_blocks(ctx, d);
        if (st != ESPALIER_OK) return st;
        *result = block_new(d, size, true, &b);
    }
    if (*result == VK_ERROR_OUT_OF_DEVICE_MEMORY && block_new(d, size, false, &b) == VK_SUCCESS) {
        *result = VK_SUCCESS;
        if (ctx && !d->spilled)
            esi_log(ctx, ESPALIER_LOG_INFO, "%.200s: its memory is full; it goes on, slowly, in the machine's", d->info.name);
        d->spilled = true;
    }
    return ESPALIER_OK;
}

espalier_status esi_vk_range_new(espalier_context *ctx, esi_vk_device *d, esi_vk_range *r, uint64_t bytes, const char *what)
{
    uint64_t size = round_up(ESI_MAX(bytes, UINT64_C(4)), ALIGNMENT);
    char text[ESI_SIZE_TEXT];
    esi_vk_block *b;
    VkResult result;

    memset(r, 0, sizeof *r);
    if (take_any(d, r, size)) return ESPALIER_OK;
    result = block_new(d, ESI_MAX(size, ESI_MIN(BLOCK, esi_vk_largest(d))), true, &b);
    if (is_short(result)) {
        espalier_status st = make_room(ctx, d, r, size, &result);
        if (st != ESPALIER_OK || r->block) return st;
    }
    if (result == VK_SUCCESS && take_any(d, r, size)) return ESPALIER_OK;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY) return esi_vk_fail_memory(ctx, d, what);
    esi_size_text(text, size);
    return esi_vk_fail(ctx, d, "%s for %s (%s)", esi_vk_result_name(result), what, text);
}

void esi_vk_range_free(esi_vk_device *d, esi_vk_range *r)
{
    (void)d;
    if (!r->block) return;
    if (r->prev) r->prev->next = r->next;
    else r->block->first = r->next;
    if (r->next) r->next->prev = r->prev;
    memset(r, 0, sizeof *r);
}

espalier_status esi_vk_staging_new(esi_vk_device *d, esi_vk_slot *slot)
{
    const VkBufferUsageFlags usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    void *mapped = NULL;
    VkResult r = create_buffer(d, d->staging, usage, d->host_memory, &slot->staging, &slot->staging_memory);

    if (r == VK_SUCCESS) r = d->vk.MapMemory(d->handle, slot->staging_memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    slot->mapped = mapped;
    return r == VK_SUCCESS ? ESPALIER_OK : esi_vk_fail_result(NULL, d, "memory for transfers", r);
}

void esi_vk_memory_close(esi_vk_device *d, bool on_device)
{
    while (d->blocks) {
        esi_vk_block *b = d->blocks;
        d->blocks = b->next;
        if (on_device) block_free(d, b);
        else esi_raw_free(&d->allocator, b, sizeof *b);
    }
}
