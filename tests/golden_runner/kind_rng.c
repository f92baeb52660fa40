/* SPDX-License-Identifier: MIT
 *
 * kind_rng.c: kinds rng (draws in order from one generator) and rng_raw (the bare outputs of several seeds).
 */
#include "kinds.h"
#include "sample/sample.h"

static golden_shape shape_of(const esi_json *op)
{
    const esi_json *extents = esi_json_get(op, "shape");
    golden_shape shape = {0};

    for (size_t i = 0; i < esi_json_size(extents) && shape.rank < ESI_MAX_RANK; i++)
        esi_json_int(esi_json_at(extents, i), &shape.extent[shape.rank++]);
    return shape;
}

espalier_status golden_kind_rng(golden_case *c)
{
    const esi_json *ops = esi_json_get(c->config, "ops");
    esi_generator g;

    esi_generator_seed(&g, 0);
    for (size_t i = 0; i < esi_json_size(ops); i++) {
        const esi_json *op = esi_json_at(ops, i);
        const char *name = "", *out = "";
        int64_t seed = 0;
        esi_json_string(esi_json_get(op, "op"), &name);
        esi_json_string(esi_json_get(op, "out"), &out);
        if (strcmp(name, "manual_seed") == 0) {
            esi_json_int(esi_json_get(op, "seed"), &seed);
            esi_generator_seed(&g, seed);
        } else if (strcmp(name, "randn") == 0 || strcmp(name, "rand") == 0) {
            golden_shape shape = shape_of(op);
            size_t n = (size_t)golden_shape_count(shape);
            float *values = golden_alloc(c, n, sizeof *values);
            if (name[4] == 'n') esi_generator_randn(&g, values, n);
            else esi_generator_rand(&g, values, n);
            golden_check(c, out, values, ESI_FILE_F32, shape);
        } else {
            return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: unknown op %s", c->dir, name);
        }
    }
    return ESPALIER_OK;
}

espalier_status golden_kind_rng_raw(golden_case *c)
{
    const esi_json *seeds = esi_json_get(c->config, "seeds");

    for (size_t i = 0; i < esi_json_size(seeds); i++) {
        const char *raw_name, *rand_name;
        const int32_t *expected;
        golden_shape shape;
        int64_t seed = 0;
        esi_generator g;
        espalier_status st;
        esi_json_int(esi_json_at(seeds, i), &seed);
        raw_name = golden_name(c, "out.u32_%lld", (long long)seed);
        rand_name = golden_name(c, "out.rand_%lld", (long long)seed);
        st = golden_i32(c, raw_name, &expected, &shape);
        if (st != ESPALIER_OK) return st;
        size_t n = (size_t)golden_shape_count(shape);
        uint32_t *raw = golden_alloc(c, n, sizeof *raw);
        float *uniform = golden_alloc(c, n, sizeof *uniform);
        esi_generator_seed(&g, seed);
        for (size_t k = 0; k < n; k++) raw[k] = esi_generator_u32(&g);
        golden_check(c, raw_name, raw, ESI_FILE_U32, shape);
        esi_generator_seed(&g, seed);
        esi_generator_rand(&g, uniform, n);
        golden_check(c, rand_name, uniform, ESI_FILE_F32, shape);
    }
    return ESPALIER_OK;
}
