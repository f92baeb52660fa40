/* SPDX-License-Identifier: MIT
 *
 * kind_flow.c: one forward pass of a flow transformer, stage by stage (kinds ss_flow, slat_flow). Batch elements run one after the other;
 * their intermediates are put together in the stored order.
 */
#include "flow_case.h"
#include "kinds.h"

/* An intermediate of all batch elements. */
typedef struct assembled {
    struct assembled *next;
    const char *name;
    bool per_element;              /* [batch, cols]; else [tokens, cols] */
    int64_t cols;
    float *data;
} assembled;

static assembled *find_assembled(const flow_case *f, assembled **list, const golden_tap *t)
{
    assembled *a = *list;

    while (a && strcmp(a->name, t->name) != 0) a = a->next;
    if (a) return a;
    a = golden_alloc(f->c, 1, sizeof *a);
    a->name = t->name;
    a->per_element = strcmp(t->name, "t_emb") == 0 || strcmp(t->name, "mod") == 0;
    a->cols = t->cols;
    a->data = golden_alloc(f->c, (size_t)((a->per_element ? f->batch : f->tokens) * t->cols), sizeof *a->data);
    a->next = *list;
    *list = a;
    return a;
}

static void collect_taps(const flow_case *f, const flow_element *e, int64_t b, assembled **list)
{
    for (const golden_tap *t = f->c->taps; t; t = t->next) {
        assembled *a = find_assembled(f, list, t);
        size_t row = (size_t)a->cols * sizeof *a->data;
        if (a->per_element) {
            memcpy(a->data + b * a->cols, t->data, row);
            continue;
        }
        for (int64_t i = 0; i < ESI_MIN(t->rows, e->count); i++) memcpy(a->data + e->rows[i] * a->cols, t->data + i * a->cols, row);
    }
}

static void check_assembled(const flow_case *f, const assembled *list)
{
    const int64_t per_element = f->tokens / f->batch;

    for (const assembled *a = list; a; a = a->next) {
        const char *name = golden_name(f->c, "out.%s", a->name);
        golden_shape shape = GOLDEN_SHAPE(f->tokens, a->cols);
        if (strcmp(a->name, "final") == 0) continue;
        if (a->per_element) shape = GOLDEN_SHAPE(f->batch, a->cols);
        else if (f->dense && strncmp(a->name, "rope_", 5) == 0) shape = GOLDEN_SHAPE(per_element, a->cols);
        else if (f->dense) shape = GOLDEN_SHAPE(f->batch, per_element, a->cols);
        golden_check(f->c, name, a->data, ESI_FILE_F32, shape);
    }
}

/* The model's input rows: state, then the texture model's condition. */
static espalier_status join_input(espalier_context *ctx, const flow_element *e, esi_tensor *input)
{
    espalier_status st;

    *input = e->x;
    if (esi_tensor_is_null(e->concat)) return ESPALIER_OK;
    st = esi_tensor_new(ctx, input, e->count, e->x.cols + e->concat.cols, ESI_F32);
    if (st != ESPALIER_OK) return st;
    st = esi_copy(ctx, esi_cols(*input, 0, e->x.cols), e->x);
    if (st != ESPALIER_OK) return st;
    return esi_copy(ctx, esi_cols(*input, e->x.cols, e->concat.cols), e->concat);
}

/* v [count][out] of one element. */
static espalier_status run_element(flow_case *f, const flow_element *e, float t, float *v)
{
    espalier_context *ctx = f->c->ctx;
    esi_tensor input, velocity;
    esi_flow_run *run;
    espalier_status st = join_input(ctx, e, &input);

    if (st != ESPALIER_OK) return st;
    st = esi_tensor_new(ctx, &velocity, e->count, esi_flow_get_config(f->model)->out_channels, ESI_F32);
    if (st != ESPALIER_OK) return st;
    st = esi_flow_run_begin(ctx, &run, f->model, e->coords, e->count, e->cond);
    if (st != ESPALIER_OK) return st;
    st = esi_flow_forward(ctx, run, velocity, input, t, false);
    esi_flow_run_end(ctx, run);
    if (st != ESPALIER_OK) return st;
    return esi_tensor_read(ctx, velocity, v);
}

static espalier_status run_elements(flow_case *f)
{
    const int64_t out = esi_flow_get_config(f->model)->out_channels;
    size_t values = (size_t)(f->tokens * out);
    float *stored = golden_alloc(f->c, values, sizeof *stored), *tapped = golden_alloc(f->c, values, sizeof *tapped);
    float *v = golden_alloc(f->c, values, sizeof *v);
    assembled *list = NULL;
    const float *t;
    golden_shape shape;
    espalier_status st = golden_f32(f->c, "in.t", &t, &shape);

    if (st != ESPALIER_OK) return st;
    if (golden_shape_count(shape) != f->batch) return esi_fail(f->c->ctx, ESPALIER_ERR_INPUT, "%s: in.t has another batch size", f->c->dir);
    for (int64_t b = 0; b < f->batch; b++) {
        flow_element e;
        st = flow_case_element(f, &e, b);
        if (st != ESPALIER_OK) return st;
        golden_taps_start(f->c);
        st = run_element(f, &e, t[b], v);
        golden_taps_stop(f->c);
        if (st != ESPALIER_OK) return st;
        collect_taps(f, &e, b, &list);
        flow_case_place(f, &e, b, tapped, v, out);
        /* Taps compute more; they must not change the result. */
        st = run_element(f, &e, t[b], v);
        if (st != ESPALIER_OK) return st;
        flow_case_place(f, &e, b, stored, v, out);
    }
    check_assembled(f, list);
    golden_check(f->c, "out.final", stored, ESI_FILE_F32, flow_case_shape(f, out));
    golden_expect(f->c, "final without taps", memcmp(stored, tapped, values * sizeof *stored) == 0, "other bits than with taps");
    return ESPALIER_OK;
}

static espalier_status run_flow(golden_case *c, bool dense)
{
    flow_case f;
    espalier_status st = flow_case_open(c, &f, dense, "in.x");

    if (st == ESPALIER_OK) st = run_elements(&f);
    esi_flow_free(c->ctx, f.model);
    return st;
}

espalier_status golden_kind_ss_flow(golden_case *c)
{
    return run_flow(c, true);
}

espalier_status golden_kind_slat_flow(golden_case *c)
{
    return run_flow(c, false);
}
