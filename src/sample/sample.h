/* SPDX-License-Identifier: MIT
 *
 * sample.h: PyTorch-compatible CPU noise and the FlowEuler sampler with guidance interval and CFG rescale (TRELLIS.2
 * pipelines/samplers/flow_euler.py).
 */
#ifndef ESI_SAMPLE_H
#define ESI_SAMPLE_H

#include "tensor/ops.h"

/* torch.Generator on the CPU: MT19937 with the cached second normal of draws below 16 values. */
typedef struct esi_generator {
    uint32_t state[624];
    int next;
    bool has_cached_normal;
    double cached_normal;
} esi_generator;
void esi_generator_seed(esi_generator *g, int64_t seed); /* torch.manual_seed: negative seeds wrap to 2^64 + seed */
uint32_t esi_generator_u32(esi_generator *g);
void esi_generator_rand(esi_generator *g, float *out, size_t n);  /* torch.rand, fp32 */
void esi_generator_randn(esi_generator *g, float *out, size_t n); /* torch.randn, fp32, contiguous */

typedef struct esi_sampler_params {
    int steps; /* 1..1000 */
    double guidance_strength, guidance_rescale;
    double interval_low, interval_high;
    double rescale_t;
    double sigma_min;
} esi_sampler_params;

/* t_0 .. t_steps (steps + 1 values), in double. */
void esi_sampler_schedule(const esi_sampler_params *p, double *t);
/* Model evaluations of step i: 1 or 2. */
int esi_sampler_calls(const esi_sampler_params *p, double t);

/* One model evaluation: v = model(x, 1000 t as fp32, positive or all-zero condition). */
typedef espalier_status (*esi_velocity_fn)(void *user, espalier_context *ctx, esi_tensor v, esi_tensor x, float t_model, bool negative);
/* Called after step i with the state and the last prediction (golden taps, progress); may be NULL. */
typedef espalier_status (*esi_step_fn)(void *user, espalier_context *ctx, int step, int steps, esi_tensor x, esi_tensor v);

/* Integrate from x (in place) along t = 1 .. 0. x is F32 [N, C] for one sample; the CFG standard deviation runs over all its values. */
espalier_status esi_sample_flow_euler(espalier_context *ctx, esi_tensor x, const esi_sampler_params *p, esi_velocity_fn velocity,
                                      void *velocity_user, esi_step_fn step, void *step_user);

#endif
