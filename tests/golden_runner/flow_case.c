/* SPDX-License-Identifier: MIT
 *
 * flow_case.c: see flow_case.h.
 */
#include "flow_case.h"

static espalier_status bad_shape(golden_case *c, const char *name)
{
    return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: %s has no usable shape", c->dir, name);
}

static espalier_status read_dense(flow_case *f, const char *state)
{
    golden_shape s;
    espalier_status st = golden_f32(f->c, state, &f->x, &s);

    if (st != ESPALIER_OK) return st;
    if (s.rank != 5 || s.extent[2] != s.extent[3] || s.extent[3] != s.extent[4]) return bad_shape(f->c, state);
    f->batch = s.extent[0];
    f->channels = s.extent[1];
    f->R = s.extent[2];
    f->tokens = f->batch * f->R * f->R * f->R;
    return ESPALIER_OK;
}

static espalier_status read_sparse(flow_case *f, const char *state)
{
    golden_shape s;
    espalier_status st = golden_f32(f->c, state, &f->x, &s);

    if (st != ESPALIER_OK) return st;
    if (s.rank != 2) return bad_shape(f->c, state);
    f->tokens = s.extent[0];
    f->channels = s.extent[1];
    st = golden_i32(f->c, "in.coords", &f->coords, &s);
    if (st != ESPALIER_OK) return st;
    if (s.rank != 2 || s.extent[0] != f->tokens || s.extent[1] != 4) return bad_shape(f->c, "in.coords");
    f->batch = 1;
    for (int64_t n = 0; n < f->tokens; n++) f->batch = ESI_MAX(f->batch, 1 + (int64_t)f->coords[4 * n]);
    if (!golden_has(f->c, "in.concat_cond")) return ESPALIER_OK;
    st = golden_f32(f->c, "in.concat_cond", &f->concat, &s);
    if (st != ESPALIER_OK) return st;
    if (s.rank != 2 || s.extent[0] != f->tokens) return bad_shape(f->c, "in.concat_cond");
    f->concat_channels = s.extent[1];
    return ESPALIER_OK;
}

espalier_status flow_case_open(golden_case *c, flow_case *f, bool dense, const char *state)
{
    esi_weight_file *file = NULL;
    golden_shape s;
    espalier_status st;

    *f = (flow_case){.c = c, .dense = dense};
    st = dense ? read_dense(f, state) : read_sparse(f, state);
    if (st != ESPALIER_OK) return st;
    st = golden_f32(c, "in.cond", &f->cond, &s);
    if (st != ESPALIER_OK) return st;
    if (s.rank != 3 || s.extent[0] != f->batch) return bad_shape(c, "in.cond");
    f->cond_tokens = s.extent[1];
    st = golden_weight_file(c, &file, "w.", NULL);
    if (st != ESPALIER_OK) return st;
    st = esi_flow_open(c->ctx, &f->model, file, esi_json_get(c->config, "model"));
    if (st != ESPALIER_OK) return st;
    if (esi_flow_get_config(f->model)->sparse == dense || esi_flow_get_config(f->model)->cond_channels != s.extent[2]) {
        esi_flow_free(c->ctx, f->model);
        f->model = NULL;
        return bad_shape(c, "in.cond");
    }
    return esi_weights_check_finite(c->ctx, esi_flow_weights(f->model));
}

static void find_rows(const flow_case *f, flow_element *e, int64_t b)
{
    int64_t per_element = f->dense ? f->R * f->R * f->R : 0;

    e->rows = golden_alloc(f->c, (size_t)f->tokens, sizeof *e->rows);
    e->coords = f->dense ? NULL : golden_alloc(f->c, (size_t)f->tokens * 4, sizeof *e->coords);
    for (int64_t n = 0; n < f->tokens; n++) {
        if ((f->dense ? n / per_element : f->coords[4 * n]) != b) continue;
        if (e->coords) memcpy(e->coords + 4 * e->count, f->coords + 4 * n, 4 * sizeof *e->coords);
        e->rows[e->count++] = n;
    }
}

/* The element's rows out of the stored layout. */
static espalier_status gather(const flow_case *f, const flow_element *e, int64_t b, esi_tensor *out, const float *stored, int64_t channels)
{
    const int64_t cells = f->R * f->R * f->R;
    float *rows = golden_alloc(f->c, (size_t)(e->count * channels), sizeof *rows);

    for (int64_t i = 0; i < e->count; i++) {
        for (int64_t k = 0; k < channels; k++)
            rows[i * channels + k] = f->dense ? stored[(b * channels + k) * cells + i] : stored[e->rows[i] * channels + k];
    }
    return esi_tensor_from(f->c->ctx, out, e->count, channels, ESI_F32, rows);
}

espalier_status flow_case_element(flow_case *f, flow_element *e, int64_t b)
{
    const int64_t X = esi_flow_get_config(f->model)->cond_channels;
    espalier_status st;

    *e = (flow_element){0};
    find_rows(f, e, b);
    st = gather(f, e, b, &e->x, f->x, f->channels);
    if (st != ESPALIER_OK) return st;
    if (f->concat) {
        st = gather(f, e, b, &e->concat, f->concat, f->concat_channels);
        if (st != ESPALIER_OK) return st;
    }
    return esi_tensor_from(f->c->ctx, &e->cond, f->cond_tokens, X, ESI_F32, f->cond + b * f->cond_tokens * X);
}

void flow_case_place(const flow_case *f, const flow_element *e, int64_t b, float *stored, const float *rows, int64_t channels)
{
    const int64_t cells = f->R * f->R * f->R;

    for (int64_t i = 0; i < e->count; i++) {
        for (int64_t k = 0; k < channels; k++)
            stored[f->dense ? (b * channels + k) * cells + i : e->rows[i] * channels + k] = rows[i * channels + k];
    }
}

golden_shape flow_case_shape(const flow_case *f, int64_t channels)
{
    if (f->dense) return GOLDEN_SHAPE(f->batch, channels, f->R, f->R, f->R);
    return GOLDEN_SHAPE(f->tokens, channels);
}
