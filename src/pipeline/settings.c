/* SPDX-License-Identifier: MIT
 *
 * settings.c: defaults of the TRELLIS.2-4B release and reading them from pipeline.json.
 */
#include "pipeline/settings.h"

#include <math.h>

static const esi_settings release = {
    .structure = {.steps = 12,
                  .guidance_strength = 7.5,
                  .guidance_rescale = 0.7,
                  .interval_low = 0.6,
                  .interval_high = 1.0,
                  .rescale_t = 5.0,
                  .sigma_min = 1e-5},
    .shape = {.steps = 12,
              .guidance_strength = 7.5,
              .guidance_rescale = 0.5,
              .interval_low = 0.6,
              .interval_high = 1.0,
              .rescale_t = 3.0,
              .sigma_min = 1e-5},
    .texture = {.steps = 12,
                .guidance_strength = 1.0,
                .guidance_rescale = 0.0,
                .interval_low = 0.6,
                .interval_high = 0.9,
                .rescale_t = 3.0,
                .sigma_min = 1e-5},
    .shape_norm =
        {
            .mean = {0.781296f,  0.018091f,  -0.495192f, -0.558457f, 1.060530f, 0.093252f,  1.518149f,  -0.933218f,
                     -0.732996f, 2.604095f,  -0.118341f, -2.143904f, 0.495076f, -2.179512f, -2.130751f, -0.996944f,
                     0.261421f,  -2.217463f, 1.260067f,  -0.150213f, 3.790713f, 1.481266f,  -1.046058f, -1.523667f,
                     -0.059621f, 2.220780f,  1.621212f,  0.877230f,  0.567247f, -3.175944f, -3.186688f, 1.578665f},
            .std = {5.972266f, 4.706852f, 5.445010f, 5.209927f, 5.320220f, 4.547237f, 5.020802f, 5.444004f, 5.226681f, 5.683095f, 4.831436f,
                    5.286469f, 5.652043f, 5.367606f, 5.525084f, 4.730578f, 4.805265f, 5.124013f, 5.530808f, 5.619001f, 5.103930f, 5.417670f,
                    5.269677f, 5.547194f, 5.634698f, 5.235274f, 6.110351f, 5.511298f, 6.237273f, 4.879207f, 5.347008f, 5.405691f},
        },
    .texture_norm =
        {
            .mean = {3.501659f,  2.212398f,  2.226094f,  0.251093f, -0.026248f, -0.687364f, 0.439898f,  -0.928075f,
                     0.029398f,  -0.339596f, -0.869527f, 1.038479f, -0.972385f, 0.126042f,  -1.129303f, 0.455149f,
                     -1.209521f, 2.069067f,  0.544735f,  2.569128f, -0.323407f, 2.293000f,  -1.925608f, -1.217717f,
                     1.213905f,  0.971588f,  -0.023631f, 0.106750f, 2.021786f,  0.250524f,  -0.662387f, -0.768862f},
            .std = {2.665652f, 2.743913f, 2.765121f, 2.595319f, 3.037293f, 2.291316f, 2.144656f, 2.911822f, 2.969419f, 2.501689f, 2.154811f,
                    3.163343f, 2.621215f, 2.381943f, 3.186697f, 3.021588f, 2.295916f, 3.234985f, 3.233086f, 2.260140f, 2.874801f, 2.810596f,
                    3.292720f, 2.674999f, 2.680878f, 2.372054f, 2.451546f, 2.353556f, 2.995195f, 2.379849f, 2.786195f, 2.775190f},
        },
    .default_pipeline = ESPALIER_PIPELINE_1024_CASCADE,
    .image_size = 512,
    .token_grid = 32,
    .resolution = 512,
};

void esi_settings_release(esi_settings *out)
{
    *out = release;
}

/* --------------------------------------------------------------- validation */

static bool in_range(double v, double low, double high)
{
    return isfinite(v) && v >= low && v <= high;
}

espalier_status esi_sampler_validate(espalier_context *ctx, const espalier_sampler *s, const char *stage)
{
    const struct {
        const char *name;
        double value, low, high;
    } checks[] = {
        {"steps", s->steps, 1, 1000},
        {"guidance_strength", s->guidance_strength, 0, 1000},
        {"guidance_rescale", s->guidance_rescale, 0, 1},
        {"interval_low", s->interval_low, -1, 2},
        {"interval_high", s->interval_high, -1, 2},
        {"rescale_t", s->rescale_t, 1e-3, 1000},
        {"sigma_min", s->sigma_min, 0, 0.5},
    };
    for (size_t i = 0; i < ESI_COUNT(checks); i++)
        if (!in_range(checks[i].value, checks[i].low, checks[i].high))
            return esi_fail(ctx, ESPALIER_ERR_ARG, "%s.%s: %g is not between %g and %g", stage, checks[i].name, checks[i].value,
                            checks[i].low, checks[i].high);
    return ESPALIER_OK;
}

/* ----------------------------------------------------------- reading pipeline.json */

/* Optional number: absent or null keeps *value; another type is an error. */
static espalier_status read_number(espalier_context *ctx, const esi_json *object, const char *key, double *value, const char *path)
{
    const esi_json *v = esi_json_get(object, key);
    if (!v || esi_json_is_null(v) || esi_json_double(v, value)) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s is not a number", path, key);
}

static espalier_status read_sampler(espalier_context *ctx, espalier_sampler *s, const esi_json *args, const char *key, const char *path)
{
    const esi_json *sampler = esi_json_get(args, key);
    if (!sampler) return ESPALIER_OK;
    const char *name = "";
    if (!esi_json_string(esi_json_get(sampler, "name"), &name) || strcmp(name, "FlowEulerGuidanceIntervalSampler") != 0)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s is '%s'; only FlowEulerGuidanceIntervalSampler is known", path, key, name);

    const esi_json *params = esi_json_get(sampler, "params");
    double steps = s->steps;
    espalier_status st = read_number(ctx, esi_json_get(sampler, "args"), "sigma_min", &s->sigma_min, path);
    if (st == ESPALIER_OK) st = read_number(ctx, params, "steps", &steps, path);
    if (st == ESPALIER_OK) st = read_number(ctx, params, "guidance_strength", &s->guidance_strength, path);
    if (st == ESPALIER_OK) st = read_number(ctx, params, "guidance_rescale", &s->guidance_rescale, path);
    if (st == ESPALIER_OK) st = read_number(ctx, params, "rescale_t", &s->rescale_t, path);
    if (st != ESPALIER_OK) return st;
    s->steps = in_range(steps, 1, 1000) && steps == (int32_t)steps ? (int32_t)steps : -1;

    const esi_json *interval = esi_json_get(params, "guidance_interval");
    if (interval && !(esi_json_size(interval) == 2 && esi_json_double(esi_json_at(interval, 0), &s->interval_low) &&
                      esi_json_double(esi_json_at(interval, 1), &s->interval_high)))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s.guidance_interval is not a pair of numbers", path, key);
    if (esi_sampler_validate(ctx, s, key) != ESPALIER_OK) {
        char text[256];
        strncpy(text, espalier_error_message(ctx), sizeof text - 1);
        text[sizeof text - 1] = 0;
        esi_clear_error(ctx);
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s", path, text);
    }
    return ESPALIER_OK;
}

static espalier_status read_vector(espalier_context *ctx, float *out, const esi_json *array, const char *key, bool positive,
                                   const char *path)
{
    if (esi_json_size(array) != ESI_LATENT_CHANNELS)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s has %zu values, expected %d", path, key, esi_json_size(array),
                        ESI_LATENT_CHANNELS);
    for (size_t i = 0; i < ESI_LATENT_CHANNELS; i++) {
        double v = 0;
        if (!esi_json_double(esi_json_at(array, i), &v) || !in_range(v, -1e6, 1e6) || (positive && v < 1e-6))
            return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s[%zu] is not a usable number", path, key, i);
        out[i] = (float)v;
    }
    return ESPALIER_OK;
}

static espalier_status read_normalization(espalier_context *ctx, esi_normalization *n, const esi_json *args, const char *key,
                                          const char *path)
{
    const esi_json *object = esi_json_get(args, key);
    if (!object) return ESPALIER_OK;
    espalier_status st = read_vector(ctx, n->mean, esi_json_get(object, "mean"), key, false, path);
    if (st == ESPALIER_OK) st = read_vector(ctx, n->std, esi_json_get(object, "std"), key, true, path);
    return st;
}

static espalier_status read_size(espalier_context *ctx, int32_t *out, const esi_json *object, const char *key, int32_t max,
                                 const char *path)
{
    const esi_json *v = esi_json_get(object, key);
    int64_t n = 0;
    if (!v) return ESPALIER_OK;
    if (!esi_json_int(v, &n) || n < 1 || n > max)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: args.espalier.%s is not between 1 and %d", path, key, (int)max);
    *out = (int32_t)n;
    return ESPALIER_OK;
}

static espalier_status read_sizes(espalier_context *ctx, esi_settings *s, const esi_json *args, const char *path)
{
    const esi_json *sizes = esi_json_get(args, "espalier");
    espalier_status st = read_size(ctx, &s->image_size, sizes, "image_size", 4096, path);
    if (st == ESPALIER_OK) st = read_size(ctx, &s->token_grid, sizes, "ss_grid", 1024, path);
    if (st == ESPALIER_OK) st = read_size(ctx, &s->resolution, sizes, "resolution", 4096, path);
    if (st != ESPALIER_OK) return st;
    if (s->resolution % s->token_grid != 0 || s->resolution % 4 != 0)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: args.espalier: resolution %d is no multiple of ss_grid %d and of 4", path,
                        (int)s->resolution, (int)s->token_grid);
    return ESPALIER_OK;
}

espalier_status esi_settings_read(espalier_context *ctx, esi_settings *out, const esi_json *pipeline, const char *path)
{
    const esi_json *args = esi_json_get(pipeline, "args");
    const char *type = NULL;
    espalier_status st;

    *out = release;
    st = read_sampler(ctx, &out->structure, args, "sparse_structure_sampler", path);
    if (st == ESPALIER_OK) st = read_sampler(ctx, &out->shape, args, "shape_slat_sampler", path);
    if (st == ESPALIER_OK) st = read_sampler(ctx, &out->texture, args, "tex_slat_sampler", path);
    if (st == ESPALIER_OK) st = read_normalization(ctx, &out->shape_norm, args, "shape_slat_normalization", path);
    if (st == ESPALIER_OK) st = read_normalization(ctx, &out->texture_norm, args, "tex_slat_normalization", path);
    if (st == ESPALIER_OK) st = read_sizes(ctx, out, args, path);
    const esi_json *wanted = esi_json_get(args, "default_pipeline_type");
    if (st == ESPALIER_OK && wanted && !esi_json_is_null(wanted) && !esi_json_string(wanted, &type))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: default_pipeline_type is not a string", path);
    if (st == ESPALIER_OK && type &&
        (espalier_pipeline_parse(&out->default_pipeline, type) != ESPALIER_OK || out->default_pipeline == ESPALIER_PIPELINE_DEFAULT))
        st = esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: default_pipeline_type '%s' is not one of 512, 1024, 1024_cascade, 1536_cascade", path,
                      type);
    return st;
}
