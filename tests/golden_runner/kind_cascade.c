/* SPDX-License-Identifier: MIT
 *
 * kind_cascade.c: the token-budget loop of the cascades: fine coordinates to high-resolution tokens.
 */
#include "kinds.h"
#include "voxel/voxel.h"

espalier_status golden_kind_cascade(golden_case *c)
{
    const esi_json *runs = esi_json_get(c->config, "runs");
    const int32_t *fine = NULL;
    golden_shape shape;
    esi_coords all = {0};
    espalier_status st = golden_i32(c, "in.hr_coords", &fine, &shape);
    if (st != ESPALIER_OK) return st;
    st = esi_coords_copy(c->ctx, &all, fine, shape.extent[0]);

    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(runs); i++) {
        const esi_json *run = esi_json_at(runs, i);
        int64_t low = 0, target = 0, max_tokens = 0, expected = 0, resolution = 0;
        const char *name = NULL;
        esi_coords tokens = {0};
        if (!esi_json_int(esi_json_get(run, "lr_resolution"), &low) || !esi_json_int(esi_json_get(run, "resolution"), &target) ||
            !esi_json_int(esi_json_get(run, "max_num_tokens"), &max_tokens)) {
            st = esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: run %zu is malformed", c->dir, i);
            break;
        }
        st = esi_cascade_coords(c->ctx, &tokens, &resolution, &all, low, target, max_tokens);
        if (st != ESPALIER_OK) break;
        if (esi_json_string(esi_json_get(run, "out"), &name))
            golden_check(c, name, tokens.rows, ESI_FILE_I32, GOLDEN_SHAPE(tokens.count, 4));
        if (esi_json_int(esi_json_get(run, "out_resolution"), &expected))
            golden_expect_int(c, golden_name(c, "runs[%zu].out_resolution", i), resolution, expected);
        if (esi_json_int(esi_json_get(run, "num_tokens"), &expected))
            golden_expect_int(c, golden_name(c, "runs[%zu].num_tokens", i), tokens.count, expected);
        esi_coords_free(c->ctx, &tokens);
    }
    esi_coords_free(c->ctx, &all);
    return st;
}
