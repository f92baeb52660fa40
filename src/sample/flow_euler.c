/* SPDX-License-Identifier: MIT
 *
 * flow_euler.c: integrates a velocity field from t = 1 (noise) to t = 0 in Euler steps: TRELLIS.2's FlowEulerGuidanceIntervalSampler with
 * rescaled time, classifier-free guidance inside an interval, and the rescaling of its result by standard deviations (Lin et al. 2023,
 * applied to the x0 estimate), as TRELLIS.2 pipelines/samplers/flow_euler.py does. Scalars are formed in double and rounded to float32
 * where they meet a tensor.
 */
#include "sample/sample.h"

#include "base/math64.h"

#include <math.h>

#define MAX_STEPS 1000

void esi_sampler_schedule(const esi_sampler_params *p, double *t)
{
    double step = (0.0 - 1.0) / p->steps;

    for (int i = 0; i <= p->steps; i++) {
        double u = i < p->steps ? i * step + 1.0 : 0.0;
        t[i] = p->rescale_t * u / (1.0 + (p->rescale_t - 1.0) * u);
    }
}

/* The interval is closed and compared in double: with 12 steps and rescale_t 3, step 8 lies exactly on 0.6. */
static double guidance_at(const esi_sampler_params *p, double t)
{
    return p->interval_low <= t && t <= p->interval_high ? p->guidance_strength : 1.0;
}

int esi_sampler_calls(const esi_sampler_params *p, double t)
{
    double g = guidance_at(p, t);

    return g == 1.0 || g == 0.0 ? 1 : 2;
}

static bool is_finite(double v)
{
    return v - v == 0.0;
}

static espalier_status check_params(espalier_context *ctx, const esi_sampler_params *p)
{
    if (p->steps < 1 || p->steps > MAX_STEPS)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "sampler: %d steps; 1 to %d are possible", p->steps, MAX_STEPS);
    if (!is_finite(p->guidance_strength)) return esi_fail(ctx, ESPALIER_ERR_ARG, "sampler: guidance_strength is not a finite number");
    if (!is_finite(p->guidance_rescale)) return esi_fail(ctx, ESPALIER_ERR_ARG, "sampler: guidance_rescale is not a finite number");
    if (!is_finite(p->interval_low) || !is_finite(p->interval_high))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "sampler: guidance_interval is not finite");
    if (!is_finite(p->rescale_t) || !(p->rescale_t > 0.0))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "sampler: rescale_t %g is not above 0", p->rescale_t);
    if (!(p->sigma_min >= 0.0 && p->sigma_min < 1.0))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "sampler: sigma_min %g is not in [0, 1)", p->sigma_min);
    return ESPALIER_OK;
}

/* Standard deviation over all values, biased; only ratios of it are used. */
static espalier_status deviation(espalier_context *ctx, double *std, esi_tensor x)
{
    double n = (double)x.rows * (double)x.cols, sum, squares, mean, variance;
    espalier_status st = esi_sum_stats(ctx, x, &sum, &squares);

    *std = 0.0;
    if (st != ESPALIER_OK) return st;
    mean = sum / n;
    variance = squares / n - mean * mean;
    if (!(variance > 0.0) || !is_finite(variance))
        return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "sampler: the prediction is constant or holds NaN; guidance cannot be rescaled");
    *std = sqrt(variance);
    return ESPALIER_OK;
}

/* Scratch of one run, all shaped like the state. `velocity` holds the prediction of the current step; the others exist only with guidance.
 */
typedef struct euler_buffers {
    esi_tensor velocity, positive, estimate;
} euler_buffers;

static espalier_status make_buffers(espalier_context *ctx, euler_buffers *b, esi_tensor x, bool guided)
{
    espalier_status st;

    memset(b, 0, sizeof *b);
    st = esi_tensor_new(ctx, &b->velocity, x.rows, x.cols, ESI_F32);
    if (st != ESPALIER_OK || !guided) return st;
    st = esi_tensor_new(ctx, &b->positive, x.rows, x.cols, ESI_F32);
    if (st != ESPALIER_OK) return st;
    return esi_tensor_new(ctx, &b->estimate, x.rows, x.cols, ESI_F32);
}

/* Bring the guided x0 estimate back towards the spread of the conditional one. With a = 1 - sigma, b = sigma + (1 - sigma) t:
 *   X+ = a x - b v+,  X = a x - b v,  X' = rho (X * std(X+)/std(X)) + (1 - rho) X,  v = (a x - X') / b */
static espalier_status rescale_guidance(espalier_context *ctx, const euler_buffers *buf, esi_tensor x, const esi_sampler_params *p,
                                        double t)
{
    double a = 1.0 - p->sigma_min, b = p->sigma_min + (1.0 - p->sigma_min) * t, rho = p->guidance_rescale, std_positive, std_guided;
    esi_tensor v = buf->velocity, work = buf->positive, X = buf->estimate;
    espalier_status st;

    st = esi_axpby(ctx, work, (float)-b, buf->positive, (float)a, x); /* X+ */
    if (st != ESPALIER_OK) return st;
    st = esi_axpby(ctx, X, (float)-b, v, (float)a, x);
    if (st != ESPALIER_OK) return st;
    st = deviation(ctx, &std_positive, work);
    if (st != ESPALIER_OK) return st;
    st = deviation(ctx, &std_guided, X);
    if (st != ESPALIER_OK) return st;
    st = esi_scale(ctx, work, X, (float)(std_positive / std_guided));
    if (st != ESPALIER_OK) return st;
    st = esi_axpby(ctx, X, (float)rho, work, (float)(1.0 - rho), X); /* X' */
    if (st != ESPALIER_OK) return st;
    st = esi_axpby(ctx, v, -1.0f, X, (float)a, x);
    if (st != ESPALIER_OK) return st;
    return esi_scale(ctx, v, v, (float)(1.0 / b));
}

/* buf->velocity = the prediction at t, guided where the interval says so. */
static espalier_status predict(espalier_context *ctx, const euler_buffers *buf, esi_tensor x, const esi_sampler_params *p, double t,
                               esi_velocity_fn velocity, void *user)
{
    double g = guidance_at(p, t);
    float t_model = (float)(1000.0 * t);
    espalier_status st;

    if (g == 1.0) return velocity(user, ctx, buf->velocity, x, t_model, false);
    if (g == 0.0) return velocity(user, ctx, buf->velocity, x, t_model, true);
    st = velocity(user, ctx, buf->positive, x, t_model, false);
    if (st != ESPALIER_OK) return st;
    st = velocity(user, ctx, buf->velocity, x, t_model, true);
    if (st != ESPALIER_OK) return st;
    st = esi_axpby(ctx, buf->velocity, (float)g, buf->positive, (float)(1.0 - g), buf->velocity);
    if (st != ESPALIER_OK || !(p->guidance_rescale > 0.0)) return st;
    return rescale_guidance(ctx, buf, x, p, t);
}

espalier_status esi_sample_flow_euler(espalier_context *ctx, esi_tensor x, const esi_sampler_params *p, esi_velocity_fn velocity,
                                      void *velocity_user, esi_step_fn step, void *step_user)
{
    esi_scope scope = esi_scope_begin(ctx);
    euler_buffers buf;
    double t[MAX_STEPS + 1];
    bool guided = false;
    espalier_status st = check_params(ctx, p);

    if (st != ESPALIER_OK) goto done;
    esi_sampler_schedule(p, t);
    for (int i = 0; i < p->steps; i++) guided = guided || esi_sampler_calls(p, t[i]) == 2;
    st = make_buffers(ctx, &buf, x, guided);
    if (st != ESPALIER_OK) goto done;
    for (int i = 0; i < p->steps; i++) {
        st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK) goto done;
        st = predict(ctx, &buf, x, p, t[i], velocity, velocity_user);
        if (st != ESPALIER_OK) goto done;
        st = esi_axpby(ctx, x, (float)-(t[i] - t[i + 1]), buf.velocity, 1.0f, x);
        if (st != ESPALIER_OK) goto done;
        if (!step) continue;
        st = step(step_user, ctx, i, p->steps, x, buf.velocity);
        if (st != ESPALIER_OK) goto done;
    }
done:
    esi_scope_end(ctx, scope);
    return st;
}
