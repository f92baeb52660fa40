/* SPDX-License-Identifier: MIT
 *
 * cut.c: an op is cut by rows into dispatches that respect the device's largest binding, the borders between the parts of a large tensor,
 * and the bounded length of submissions; cutting cannot change a bit, because every element depends on its own row alone. A matrix whose
 * rows are named by an index is cut into windows, and the op goes over them one after the other.
 */
#include "tensor/vulkan/internal.h"

int64_t esi_vk_elements_bound(const esi_vk_device *d) { return (int64_t)((d->info.max_range - d->alignment) / 4); }

int64_t esi_vk_rows_bound(const esi_vk_device *d, esi_tensor t)
{
    int64_t most = esi_vk_elements_bound(d);

    if (!t.buffer->is_weight) most = ESI_MIN(most, (int64_t)(esi_vk_bytes_after(t) / 4));
    if (t.cols > most) return 0;
    return t.stride > 0 ? 1 + (most - t.cols) / t.stride : INT64_MAX;
}

/* A vector over columns: any dense tensor. */
static bool fits_whole(const esi_vk_device *d, esi_tensor t)
{
    const int64_t elements = t.rows * t.cols;
    return elements <= esi_vk_elements_bound(d) && (t.buffer->is_weight || (uint64_t)elements * 4 <= esi_vk_bytes_after(t));
}

static bool operand_fits(const esi_vk_device *d, const esi_vk_operand *o)
{
    if (esi_tensor_is_null(o->t)) return true;
    if (o->cut == ESI_VK_WEIGHT) return esi_vk_matrix_rows(d, o->t) == o->t.rows;
    if (!esi_vk_placeable(d, o->t) || (o->t.buffer->is_weight && o->cut != ESI_VK_NONE)) return false;
    if (o->cut == ESI_VK_NONE ? !fits_whole(d, o->t) : esi_vk_rows_bound(d, o->t) == 0) return false;
    return (o->cut != ESI_VK_WHOLE && o->cut != ESI_VK_COLS) || esi_vk_rows_bound(d, o->t) >= o->t.rows;
}

/* Tensors belong to the job that calls. */
static espalier_context *context_of(const esi_vk_call *c)
{
    for (size_t i = 0; i < ESI_VK_BINDINGS; i++)
        if (!esi_tensor_is_null(c->operands[i].t) && !c->operands[i].t.buffer->is_weight) return c->operands[i].t.buffer->owner;
    return NULL;
}

bool esi_vk_can_run(const esi_vk_device *d, const esi_vk_call *c)
{
    espalier_context *ctx = context_of(c);

    for (size_t i = 0; i < ESI_VK_BINDINGS; i++)
        if (!operand_fits(d, &c->operands[i])) return false;
    if (!ctx || c->work <= 0 || c->work > INT32_MAX) return false;
    return esi_vk_try(ctx, esi_vk_of(ctx), c->what, c->shader, c->kind, c->act) == ESI_VK_GOOD;
}

static int64_t piece_rows(const esi_vk_device *d, const esi_vk_call *c, int64_t first)
{
    int64_t rows = ESI_MAX((int64_t)esi_vk_work_limit(d, c->shader, c->kind, c->act) / c->work, INT64_C(1));

    if (c->tile.rows) rows = ESI_MAX(rows / c->tile.rows * c->tile.rows, (int64_t)c->tile.rows);
    else rows = ESI_MIN(rows, INT32_MAX / (c->work * (int64_t)c->lanes));   /* numbers of invocations stay below 2^31 */
    for (size_t i = 0; i < ESI_VK_BINDINGS; i++)
        if (!esi_tensor_is_null(c->operands[i].t) && c->operands[i].cut == ESI_VK_ROWS)
            rows = ESI_MIN(rows, esi_vk_rows_bound(d, esi_rows(c->operands[i].t, first, c->rows - first)));
    return ESI_MIN(ESI_MAX(rows, INT64_C(1)), c->rows - first);
}

static esi_tensor part(const esi_vk_operand *o, int64_t row, int64_t n, int64_t window, int64_t window_rows)
{
    if (esi_tensor_is_null(o->t)) return o->t;
    if (o->cut == ESI_VK_ROWS) return esi_rows(o->t, row, n);
    if (o->cut == ESI_VK_COLS) return esi_cols(o->t, row, n);
    if (o->cut == ESI_VK_WINDOW) return esi_rows(o->t, window, window_rows);
    return o->t;
}

static espalier_status dispatch_piece(espalier_context *ctx, esi_vk_device *d, const esi_vk_call *c, int64_t row, int64_t n, int64_t window,
                                      int64_t window_rows)
{
    esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
    esi_vk_push push = c->push;
    uint64_t items = (uint64_t)n * (uint64_t)(c->items ? c->items : (int64_t)push.cols);
    uint64_t group = esi_vk_workgroup(d) / c->lanes, groups = (items + group - 1) / group;

    if (c->tile.rows)
        groups = ((uint64_t)n + c->tile.rows - 1) / c->tile.rows * (((uint64_t)push.cols + c->tile.cols - 1) / c->tile.cols);
    push.rows = (uint32_t)n;
    for (size_t i = 0; i < ESI_VK_BINDINGS; i++) {
        esi_tensor t = part(&c->operands[i], row, n, window, window_rows);
        int64_t elements;

        if (esi_tensor_is_null(t)) continue;
        push.at[i].stride = c->operands[i].cut == ESI_VK_NONE ? 0 : (uint32_t)t.stride;
        if (c->operands[i].cut == ESI_VK_WEIGHT) {
            esi_vk_matrix_bind(t, &bindings[i], &push.n[5]);
            continue;
        }
        elements = c->operands[i].cut == ESI_VK_NONE ? t.rows * t.cols : t.rows > 0 ? (t.rows - 1) * t.stride + t.cols : 0;
        bindings[i] = (esi_vk_binding){esi_vk_range_of(t), esi_vk_offset(t), (uint64_t)elements * 4};
        if (c->operands[i].cut != ESI_VK_WINDOW) continue;
        push.n[0] = (uint32_t)window;
        push.n[1] = (uint32_t)window_rows;
        push.n[2] = (uint32_t)c->operands[i].t.rows;
    }
    return esi_vk_dispatch(ctx, d, c->what, c->shader, c->kind, c->act, bindings, &push, groups, (uint64_t)n * (uint64_t)c->work);
}

static espalier_status dispatch_window(espalier_context *ctx, esi_vk_device *d, const esi_vk_call *c, int64_t window, int64_t window_rows)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t row = 0, n; st == ESPALIER_OK && row < c->rows; row += n) {
        n = piece_rows(d, c, row);
        st = dispatch_piece(ctx, d, c, row, n, window, window_rows);
    }
    return st;
}

static espalier_status dispatch_all(espalier_context *ctx, esi_vk_device *d, const esi_vk_call *c)
{
    const esi_tensor *indexed = NULL;
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; i < ESI_VK_BINDINGS; i++)
        if (c->operands[i].cut == ESI_VK_WINDOW && !esi_tensor_is_null(c->operands[i].t)) indexed = &c->operands[i].t;
    if (!indexed || indexed->rows == 0) return dispatch_window(ctx, d, c, 0, 0);
    for (int64_t first = 0, n; st == ESPALIER_OK && first < indexed->rows; first += n) {
        int64_t bound = esi_vk_rows_bound(d, esi_rows(*indexed, first, indexed->rows - first));
        n = ESI_MIN(ESI_MIN(bound, INT64_C(1) << 30), indexed->rows - first);
        st = dispatch_window(ctx, d, c, first, n);
    }
    return st;
}

espalier_status esi_vk_run(espalier_context *ctx, esi_vk_device *d, const esi_vk_call *c)
{
    espalier_status st = esi_check_cancel(ctx);

    if (st != ESPALIER_OK) return st;
    switch (esi_vk_try(ctx, d, c->what, c->shader, c->kind, c->act)) {
    case ESI_VK_GOOD: break;
    case ESI_VK_WRONG: return esi_vk_fail(ctx, d, "it computes wrongly: %s", c->what);
    default: return d->lost ? esi_vk_fail(ctx, d, "the device was lost before") : esi_vk_fail_memory(ctx, d, "the self-test");
    }
    esi_vk_lock(d);
    d->calls++;
    for (size_t i = 0; i < ESI_VK_BINDINGS && st == ESPALIER_OK; i++)
        if (c->operands[i].cut == ESI_VK_WEIGHT) st = esi_vk_matrix_input(ctx, d, c->operands[i].t);
        else if (!c->operands[i].output) st = esi_vk_input(ctx, d, c->operands[i].t);
    for (size_t i = 0; i < ESI_VK_BINDINGS && st == ESPALIER_OK; i++)
        if (c->operands[i].output) st = esi_vk_output(ctx, d, c->operands[i].t);
    if (st == ESPALIER_OK) st = dispatch_all(ctx, d, c);
    esi_vk_unlock(d);
    return st;
}
