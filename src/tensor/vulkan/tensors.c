/* SPDX-License-Identifier: MIT
 *
 * tensors.c: on which side a tensor's numbers are. A tensor has memory on a side only while it needs it: an op on the device brings its
 * operands there and its result leaves the host's copy void, and the other way round. Where memory is short, no tensor stays on both sides.
 * Weights are read in place by the CPU; weights.c has those on the device.
 *
 * A tensor larger than the device's largest allocation lies in several parts, cut between its rows; cut.c cuts ops at their borders.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <stdio.h>

static esi_vk_tensor *of(const struct esi_buffer *b) { return b->device; }

#define PART_ROWS UINT64_C(64)              /* parts are so many rows or a multiple: then most views by other widths have whole rows too */

/* Number and size of the parts; 0 when not even a row fits. */
static void plan_parts(const esi_vk_device *d, const struct esi_buffer *b, esi_vk_tensor *t)
{
    const uint64_t most = esi_vk_largest(d), row = b->rows > 0 ? b->size / (uint64_t)b->rows : 0;
    uint64_t rows = row > 0 ? most / row : 0;

    t->n_parts = 1;
    t->part_bytes = ESI_MAX(b->size, UINT64_C(4));
    if (b->size <= most) return;
    if (rows > PART_ROWS) rows -= rows % PART_ROWS;
    t->part_bytes = rows * row;
    t->n_parts = rows > 0 ? (size_t)((b->size + t->part_bytes - 1) / t->part_bytes) : 0;
}

static void forget(esi_vk_device *d, struct esi_buffer *b)
{
    esi_vk_tensor *t = of(b);

    if (t->parts && t->parts != &t->only) esi_raw_free(&d->allocator, t->parts, t->n_parts * sizeof *t->parts);
    esi_raw_free(&d->allocator, t, sizeof *t);
    b->device = NULL;
}

espalier_status esi_vk_buffer_new(espalier_context *ctx, struct esi_buffer *b)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_tensor *t = esi_raw_alloc(&d->allocator, sizeof *t);
    espalier_status st = ESPALIER_OK;

    if (!t) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "tensor: out of memory");
    memset(t, 0, sizeof *t);
    b->device = t;
    if (b->is_weight) {
        t->on_host = true;
        st = esi_vk_weight_new(ctx, b);
    } else {
        plan_parts(d, b, t);
        t->parts = t->n_parts <= 1 ? &t->only : esi_raw_alloc(&d->allocator, t->n_parts * sizeof *t->parts);
        if (t->parts) memset(t->parts, 0, ESI_MAX(t->n_parts, (size_t)1) * sizeof *t->parts);
        else st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "tensor: out of memory");
    }
    if (st != ESPALIER_OK) forget(d, b);
    return st;
}

/* Device memory back; the lock is held. */
static void release_parts(espalier_context *ctx, esi_vk_device *d, esi_vk_tensor *t)
{
    for (size_t i = 0; i < t->n_parts; i++) esi_vk_range_free(d, &t->parts[i]);
    if (t->charged) esi_discharge(ctx, t->charged);
    t->charged = 0;
    t->on_device = false;
}

void esi_vk_buffer_free(espalier_context *ctx, struct esi_buffer *b)
{
    esi_vk_device *d = (esi_vk_device *)(void *)b->backend;

    esi_vk_lock(d);
    release_parts(ctx, d, of(b));
    esi_vk_weight_free(d, b);
    esi_vk_unlock(d);
    forget(d, b);
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

/* Bytes [offset, offset + size) of the device's copy, from or to `data`, part by part; the lock is held. */
static espalier_status transfer(espalier_context *ctx, esi_vk_device *d, const esi_vk_tensor *t, uint64_t offset, void *data, uint64_t size,
                                bool up)
{
    espalier_status st = ESPALIER_OK;

    for (uint64_t done = 0, n; done < size && st == ESPALIER_OK; done += n) {
        const uint64_t at = (offset + done) % t->part_bytes;
        const esi_vk_range *r = &t->parts[(offset + done) / t->part_bytes];
        uint8_t *bytes = (uint8_t *)data + done;

        n = ESI_MIN(size - done, t->part_bytes - at);
        st = up ? esi_vk_upload(ctx, d, r, at, bytes, n) : esi_vk_download(ctx, d, r, at, bytes, n);
    }
    return st;
}

/* Where a budget leaves less than `bytes`, this job's tensors that are on both sides give up one copy; the lock is held. */
static void relieve(espalier_context *ctx, esi_vk_device *d, uint64_t bytes, bool keep_host)
{
    for (struct esi_buffer *b = ctx->buffers; b && esi_memory_left(ctx) < bytes; b = b->next) {
        esi_vk_tensor *t = of(b);

        if (b->backend != &d->backend || b->is_weight || !t->on_device || !t->on_host) continue;
        if (keep_host) {
            release_parts(ctx, d, t);
        } else {
            esi_free(ctx, b->host);
            b->host = NULL;
            t->on_host = false;
        }
    }
}

/* -------------------------------------------------------------- to the host */

/* The host's copy exists, with the right numbers unless `overwritten`. */
static espalier_status host_copy(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b, bool overwritten)
{
    esi_vk_tensor *t = of(b);
    espalier_status st = ESPALIER_OK;
    char what[64];

    if (b->is_weight || (t->on_host && b->host)) return ESPALIER_OK;
    name_of(what, b);
    esi_vk_lock(d);
    if (!b->host) {
        relieve(ctx, d, b->size, true);
        b->host = esi_alloc(ctx, b->size, 1, what);
    }
    if (!b->host) st = ctx->error_status;
    if (st == ESPALIER_OK && t->on_device && !overwritten) {
        st = transfer(ctx, d, t, 0, b->host, b->size, false);
        t->on_host = st == ESPALIER_OK;
    }
    esi_vk_unlock(d);
    return st;
}

static void host_has_it(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b)
{
    esi_vk_tensor *t = of(b);

    t->on_host = true;
    if (!t->parts || !t->parts->block) return;
    esi_vk_lock(d);
    release_parts(ctx, d, t);
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
    if (d->lost) return esi_vk_fail(ctx, d, "the device was lost before");
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

/* Rows that begin and end in one part each: so it is where parts are whole strides. */
static bool rows_are_whole(const esi_vk_tensor *v, esi_tensor t)
{
    const uint64_t stride = (uint64_t)t.stride * 4, row = (uint64_t)t.cols * 4;
    const uint64_t end = t.offset + (t.rows > 1 ? (uint64_t)(t.rows - 1) * stride : 0) + row;

    if (v->n_parts == 1 || t.rows == 0 || t.cols == 0 || end <= (t.offset / v->part_bytes + 1) * v->part_bytes) return true;
    return stride > 0 && v->part_bytes % stride == 0 && t.offset % stride + row <= stride;
}

bool esi_vk_placeable(const esi_vk_device *d, esi_tensor t)
{
    if (esi_tensor_is_null(t)) return true;
    if (t.buffer->is_weight) return esi_vk_vector_placeable(d, t);
    return of(t.buffer)->n_parts > 0 && rows_are_whole(of(t.buffer), t);
}

/* Empty views may begin behind the end. */
static size_t part_of(const esi_vk_tensor *v, uint64_t offset)
{
    const size_t part = (size_t)(offset / v->part_bytes);
    return part < v->n_parts ? part : v->n_parts - 1;
}

uint64_t esi_vk_offset(esi_tensor t)
{
    const esi_vk_tensor *v = of(t.buffer);
    return t.buffer->is_weight ? esi_vk_vector_offset(t) : t.offset - part_of(v, t.offset) * v->part_bytes;
}

const esi_vk_range *esi_vk_range_of(esi_tensor t)
{
    if (esi_tensor_is_null(t)) return NULL;
    return t.buffer->is_weight ? esi_vk_vector_range(t) : &of(t.buffer)->parts[part_of(of(t.buffer), t.offset)];
}

uint64_t esi_vk_bytes_after(esi_tensor t)
{
    const esi_vk_tensor *v = of(t.buffer);
    return v->n_parts == 0 ? 0 : ESI_MAX(v->part_bytes, esi_vk_offset(t)) - esi_vk_offset(t);
}

static espalier_status place(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b)
{
    esi_vk_tensor *t = of(b);
    espalier_status st = ESPALIER_OK;
    char what[64];

    if (t->parts->block) return ESPALIER_OK;
    name_of(what, b);
    relieve(ctx, d, b->size, false);
    if (!esi_charge(ctx, b->size, what)) return ctx->error_status;
    t->charged = b->size;
    for (size_t i = 0; i < t->n_parts && st == ESPALIER_OK; i++)
        st = esi_vk_range_new(ctx, d, &t->parts[i], ESI_MIN(t->part_bytes, b->size - i * t->part_bytes), what);
    if (st != ESPALIER_OK) release_parts(ctx, d, t);
    return st;
}

static espalier_status device_copy(espalier_context *ctx, esi_vk_device *d, struct esi_buffer *b, bool overwritten)
{
    esi_vk_tensor *t = of(b);
    espalier_status st = place(ctx, d, b);

    if (st == ESPALIER_OK && !t->on_device && t->on_host && !overwritten) st = transfer(ctx, d, t, 0, b->host, b->size, true);
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
        st = transfer(ctx, d, v, t.offset, data, (uint64_t)t.rows * (uint64_t)t.cols * 4, false);
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
