/* SPDX-License-Identifier: MIT
 *
 * kind_sampler.c: a whole Euler run with a small flow model (kinds sampler_ss_flow, sampler_slat_flow): schedule, guidance, states,
 * predictions.
 */
#include "flow_case.h"
#include "kinds.h"
#include "sample/sample.h"

#include <math.h>

typedef struct sampler_run {
    flow_case f;
    flow_element e;
    esi_sampler_params params;
    esi_flow_run *run;
    esi_tensor input;              /* the model's input when condition rows are joined, else null */
    double *t, *pred_norm, *x_norm;
    int32_t *calls;
    int step;
    float *before, *x, *v, *x0;    /* [count][channels]: state before the step, after it, prediction, estimate */
} sampler_run;

static espalier_status read_params(golden_case *c, esi_sampler_params *p)
{
    const esi_json *interval = esi_json_path(c->config, "sampler.guidance_interval");

    p->steps = (int)golden_config_int(c, "sampler.steps", 0);
    p->guidance_strength = golden_config_double(c, "sampler.guidance_strength", 1.0);
    p->guidance_rescale = golden_config_double(c, "sampler.guidance_rescale", 0.0);
    p->rescale_t = golden_config_double(c, "sampler.rescale_t", 1.0);
    p->sigma_min = golden_config_double(c, "sampler.sigma_min", 1e-5);
    p->interval_low = 0.0;
    p->interval_high = 1.0;
    esi_json_double(esi_json_at(interval, 0), &p->interval_low);
    esi_json_double(esi_json_at(interval, 1), &p->interval_high);
    if (p->steps < 1 || p->steps > 1000) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: sampler.steps is unusable", c->dir);
    return ESPALIER_OK;
}

static espalier_status velocity(void *user, espalier_context *ctx, esi_tensor v, esi_tensor x, float t_model, bool negative)
{
    sampler_run *s = user;
    esi_tensor input = x;
    espalier_status st = esi_tensor_read(ctx, x, s->before);

    if (st != ESPALIER_OK) return st;
    s->calls[s->step]++;
    if (!esi_tensor_is_null(s->input)) {
        input = s->input;
        st = esi_copy(ctx, esi_cols(input, 0, x.cols), x);
        if (st != ESPALIER_OK) return st;
    }
    return esi_flow_forward(ctx, s->run, v, input, t_model, negative);
}

static double norm2(const float *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static void check_state(sampler_run *s, const char *name, const float *rows)
{
    const int64_t channels = s->f.channels;
    float *stored = golden_alloc(s->f.c, (size_t)(s->e.count * channels), sizeof *stored);

    flow_case_place(&s->f, &s->e, 0, stored, rows, channels);
    golden_check(s->f.c, name, stored, ESI_FILE_F32, flow_case_shape(&s->f, channels));
}

static espalier_status after_step(void *user, espalier_context *ctx, int step, int steps, esi_tensor x, esi_tensor v)
{
    sampler_run *s = user;
    const int64_t n = s->e.count * s->f.channels;
    const double a = 1.0 - s->params.sigma_min, b = s->params.sigma_min + a * s->t[step];
    espalier_status st = esi_tensor_read(ctx, x, s->x);

    if (st != ESPALIER_OK) return st;
    st = esi_tensor_read(ctx, v, s->v);
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < n; i++) s->x0[i] = (float)(a * (double)s->before[i] - b * (double)s->v[i]);
    s->x_norm[step] = norm2(s->x, n);
    s->pred_norm[step] = norm2(s->v, n);
    check_state(s, golden_name(s->f.c, "out.pred_%02d", step), s->v);
    check_state(s, golden_name(s->f.c, "out.x_%02d", step), s->x);
    check_state(s, golden_name(s->f.c, "out.x0_%02d", step), s->x0);
    if (step == steps - 1) check_state(s, "out.sample", s->x);
    s->step = step + 1;
    return ESPALIER_OK;
}

static espalier_status prepare(sampler_run *s)
{
    golden_case *c = s->f.c;
    size_t steps, n;
    espalier_status st = read_params(c, &s->params);

    if (st != ESPALIER_OK) return st;
    if (s->f.batch != 1) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: more than one batch element", c->dir);
    st = flow_case_element(&s->f, &s->e, 0);
    if (st != ESPALIER_OK) return st;
    steps = (size_t)s->params.steps;
    n = (size_t)(s->e.count * s->f.channels);
    s->t = golden_alloc(c, steps + 1, sizeof *s->t);
    s->pred_norm = golden_alloc(c, steps, sizeof *s->pred_norm);
    s->x_norm = golden_alloc(c, steps, sizeof *s->x_norm);
    s->calls = golden_alloc(c, steps + 1, sizeof *s->calls);
    s->before = golden_alloc(c, n, sizeof *s->before);
    s->x = golden_alloc(c, n, sizeof *s->x);
    s->v = golden_alloc(c, n, sizeof *s->v);
    s->x0 = golden_alloc(c, n, sizeof *s->x0);
    esi_sampler_schedule(&s->params, s->t);
    if (esi_tensor_is_null(s->e.concat)) return ESPALIER_OK;
    st = esi_tensor_new(c->ctx, &s->input, s->e.count, s->f.channels + s->f.concat_channels, ESI_F32);
    if (st != ESPALIER_OK) return st;
    return esi_copy(c->ctx, esi_cols(s->input, s->f.channels, s->f.concat_channels), s->e.concat);
}

static void check_series(sampler_run *s)
{
    golden_case *c = s->f.c;
    const int steps = s->params.steps;

    for (int i = 0; i < steps; i++)
        golden_expect_int(c, golden_name(c, "calls of step %d", i), esi_sampler_calls(&s->params, s->t[i]), s->calls[i]);
    golden_check(c, "out.t", s->t, ESI_FILE_F64, GOLDEN_SHAPE(steps));
    golden_check(c, "out.model_calls", s->calls, ESI_FILE_I32, GOLDEN_SHAPE(steps));
    golden_check(c, "out.pred_norm", s->pred_norm, ESI_FILE_F64, GOLDEN_SHAPE(steps));
    golden_check(c, "out.x_norm", s->x_norm, ESI_FILE_F64, GOLDEN_SHAPE(steps));
}

static espalier_status run_sampler(golden_case *c, bool dense)
{
    sampler_run s = {0};
    espalier_status st = flow_case_open(c, &s.f, dense, "in.noise");

    if (st != ESPALIER_OK) goto done;
    st = prepare(&s);
    if (st != ESPALIER_OK) goto done;
    st = esi_flow_run_begin(c->ctx, &s.run, s.f.model, s.e.coords, s.e.count, s.e.cond);
    if (st != ESPALIER_OK) goto done;
    st = esi_sample_flow_euler(c->ctx, s.e.x, &s.params, velocity, &s, after_step, &s);
    if (st == ESPALIER_OK) check_series(&s);
done:
    esi_flow_run_end(c->ctx, s.run);
    esi_flow_free(c->ctx, s.f.model);
    return st;
}

espalier_status golden_kind_sampler_ss_flow(golden_case *c)
{
    return run_sampler(c, true);
}

espalier_status golden_kind_sampler_slat_flow(golden_case *c)
{
    return run_sampler(c, false);
}
