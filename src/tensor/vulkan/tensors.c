/* SPDX-License-Identifier: MIT
 *
 * tensors.c: on which side a tensor's numbers are. A tensor has memory on a side only while it needs it: an op on the device brings its
 * operands there and its result leaves the host's copy void, and the other way round. Weights are read in place by the CPU; weights.c has
 * those on the device.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <stdio.h>

static esi_vk_tensor *of(const struct esi_buffer *b) { return b->device; }

espalier_status esi_vk_buffer_new(espalier_context *ctx, struct esi_buffer *b)
{
    esi_vk_tensor *t = esi_raw_alloc(&esi_vk_of(ctx)->allocator, sizeof *t);

    if (!t) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "tensor: out of memory");
    memset(t, 0, sizeof *t);
    t->on_host = b->is_weight;
    b->device = t;
    if (b->is_weight && esi_vk_weight_new(ctx, b) != ESPALIER_OK) {
        esi_raw_free(&esi_vk_of(ctx)->allocator, t, sizeof *t);
        b->device = NULL;
        return ctx->error_status;
    }
    return ESPALIER_OK;
}

/* Device memory back; the lock is held. */
static void release_range(espalier_context *ctx, esi_vk_device *d, esi_vk_tensor *t)
{
    esi_vk_range_free(d, &t->range);
    if (t->charged) esi_discharge(ctx, t->charged);
    t->charged = 0;
    t->on_device = false;
}

void esi_vk_buffer_free(espalier_context *ctx, struct esi_buffer *b)
{
    esi_vk_device *d = (esi_vk_device *)(void *)b->backend;

    esi_vk_lock(d);
    release_range(ctx, d, of(b));
    esi_vk_weight_free(d, b);
    esi_vk_unlock(d);
    esi_raw_free(&d->allocator, b->device, sizeof(esi_vk_tensor));
    b->device = NULL;
    if (!b->is_weight) esi_free(ctx, b->host);
    b->host = NULL;
}

static bool is_whole(esi_tensor t)
{
    return t.offset == 0 && (t.stride == t.cols || t.rows == 1) && (uint64_t)t.rows * (uint64_t)t.cols * 4 == t.buffer->size;
}

static void name_of(char text[64], const struct esi_buffer *b)
{
    snprintf(text, 64, "tensor [%lld, %lld]", (long long)b->rows, (long long)b->cols);
}

/* -------------------------------------------------------------- to the host */

/* The host's copy exists, with the right numbers unless `overwritten`. */
static espalier_status host_copy(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b, bool overwritten)
{
    esi_vk_tensor *t = of(b);
    espalier_status st = ESPALIER_OK;
    char what[64];

    if (b->is_weight) return ESPALIER_OK;
    name_of(what, b);
    if (!b->host) b->host = esi_alloc(ctx, b->size, 1, what);
    if (!b->host) return ctx->error_status;
    if (t->on_host || !t->on_device || overwritten) return ESPALIER_OK;
    esi_vk_lock(d);
    st = esi_vk_download(ctx, d, &t->range, 0, b->host, b->size);
    esi_vk_unlock(d);
    t->on_host = st == ESPALIER_OK;
    return st;
}

static void host_has_it(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b)
{
    esi_vk_tensor *t = of(b);

    t->on_host = true;
    if (!t->range.block) return;
    esi_vk_lock(d);
    release_range(ctx, d, t);
    esi_vk_unlock(d);
}

espalier_status esi_vk_to_host(espalier_context *ctx, const char *op, int number, const esi_tensor *operands, size_t n, size_t outputs)
{
    esi_vk_device *d = esi_vk_of(ctx);
    const uint64_t bit = UINT64_C(1) << (number % 64);
    espalier_status st = ESPALIER_OK;
    bool said;

    esi_vk_lock(d);
    said = (d->said & bit) != 0;
    d->said |= bit;
    esi_vk_unlock(d);
    if (!said) esi_log(ctx, ESPALIER_LOG_INFO, "%s runs on the CPU: not on the device, or too large for it", op);
    for (size_t i = 0; i < n && st == ESPALIER_OK; i++) {
        bool output = i + outputs >= n;
        if (esi_tensor_is_null(operands[i])) continue;
        st = host_copy(ctx, d, operands[i].buffer, output && is_whole(operands[i]));
    }
    for (size_t i = n - outputs; i < n && st == ESPALIER_OK; i++) host_has_it(ctx, d, operands[i].buffer);
    return st;
}

/* ------------------------------------------------------------ to the device */

bool esi_vk_placeable(const esi_vk_device *d, esi_tensor t)
{
    if (esi_tensor_is_null(t)) return true;
    return t.buffer->is_weight ? esi_vk_vector_placeable(d, t) : esi_vk_fits(d, t.buffer->size);
}

uint64_t esi_vk_offset(esi_tensor t) { return t.buffer->is_weight ? esi_vk_vector_offset(t) : t.offset; }

const esi_vk_range *esi_vk_range_of(esi_tensor t)
{
    if (esi_tensor_is_null(t)) return NULL;
    return t.buffer->is_weight ? esi_vk_vector_range(t) : &of(t.buffer)->range;
}

static espalier_status place(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b, uint64_t bytes)
{
    esi_vk_tensor *t = of(b);
    espalier_status st;
    char what[64];

    if (t->range.block) return ESPALIER_OK;
    name_of(what, b);
    if (!esi_charge(ctx, bytes, what)) return ctx->error_status;
    t->charged = bytes;
    st = esi_vk_range_new(ctx, d, &t->range, bytes, what);
    if (st != ESPALIER_OK) release_range(ctx, d, t);
    return st;
}

static espalier_status device_copy(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b, bool overwritten)
{
    esi_vk_tensor *t = of(b);
    espalier_status st = place(ctx, d, b, b->size);

    if (st == ESPALIER_OK && !t->on_device && t->on_host && !overwritten) st = esi_vk_upload(ctx, d, &t->range, 0, b->host, b->size);
    if (st == ESPALIER_OK) t->on_device = true;
    return st;
}

espalier_status esi_vk_input(espalier_context *ctx, esi_vk_device *d, esi_tensor t)
{
    if (esi_tensor_is_null(t)) return ESPALIER_OK;
    if (t.buffer->is_weight) return esi_vk_vector_input(ctx, d, t);
    return of(t.buffer)->on_device ? ESPALIER_OK : device_copy(ctx, d, t.buffer, false);
}

espalier_status esi_vk_output(espalier_context *ctx, esi_vk_device *d, esi_tensor t)
{
    espalier_status st = device_copy(ctx, d, t.buffer, is_whole(t));

    if (st != ESPALIER_OK) return st;
    of(t.buffer)->on_host = false;
    esi_free(ctx, t.buffer->host);
    t.buffer->host = NULL;
    return ESPALIER_OK;
}

/* ------------------------------------------------------------- host copies */

espalier_status esi_vk_write(espalier_context *ctx, esi_tensor t, const void *data)
{
    esi_vk_device *d = esi_vk_of(ctx);
    espalier_status st = host_copy(ctx, d, t.buffer, is_whole(t));

    if (st != ESPALIER_OK) return st;
    host_has_it(ctx, d, t.buffer);
    return esi_cpu_write(ctx, t, data);
}

/* Dense rows come straight from the device, so that reading needs no second copy. */
espalier_status esi_vk_read(espalier_context *ctx, esi_tensor t, void *data)
{
    esi_vk_device *d = esi_vk_of(ctx);
    const esi_vk_tensor *v = of(t.buffer);
    espalier_status st;

    if (!t.buffer->is_weight && !v->on_host && v->on_device && (t.stride == t.cols || t.rows == 1)) {
        esi_vk_lock(d);
        st = esi_vk_download(ctx, d, &v->range, t.offset, data, (uint64_t)t.rows * (uint64_t)t.cols * 4);
        esi_vk_unlock(d);
        return st;
    }
    st = host_copy(ctx, d, t.buffer, false);
    return st == ESPALIER_OK ? esi_cpu_read(ctx, t, data) : st;
}

espalier_status esi_vk_wait(espalier_context *ctx)
{
    esi_vk_device *d = esi_vk_of(ctx);
    espalier_status st;

    esi_vk_lock(d);
    st = esi_vk_finish(ctx, d);
    esi_vk_unlock(d);
    return st == ESPALIER_OK ? esi_check_cancel(ctx) : st;
}
