/* SPDX-License-Identifier: MIT
 *
 * map_case.c: see map_case.h.
 */
#include "map_case.h"

espalier_status golden_map(golden_case *c, esi_map *map, const char *name, int64_t b)
{
    const float *data = NULL;
    golden_shape shape;
    espalier_status st = golden_f32(c, name, &data, &shape);
    if (st != ESPALIER_OK) return st;
    if (shape.rank != 4 || b >= shape.extent[0]) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: %s is no picture", c->dir, name);
    const int64_t C = shape.extent[1], n = shape.extent[2] * shape.extent[3];
    float *rows = golden_alloc(c, (size_t)(C * n), sizeof *rows);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < C; k++) rows[i * C + k] = data[(b * C + k) * n + i];
    map->grid = (esi_grid){shape.extent[2], shape.extent[3]};
    return esi_tensor_from(c->ctx, &map->rows, n, C, ESI_F32, rows);
}

espalier_status golden_planes(golden_case *c, float **planes, esi_tensor rows)
{
    float *values = golden_alloc(c, (size_t)(rows.rows * rows.cols), sizeof *values);
    espalier_status st = esi_tensor_read(c->ctx, rows, values);
    *planes = golden_alloc(c, (size_t)(rows.rows * rows.cols), sizeof **planes);
    for (int64_t i = 0; i < rows.rows; i++)
        for (int64_t k = 0; k < rows.cols; k++) (*planes)[k * rows.rows + i] = values[i * rows.cols + k];
    return st;
}

espalier_status golden_check_map(golden_case *c, const char *name, esi_tensor rows)
{
    const float *stored;
    golden_shape shape;
    float *planes;
    espalier_status st = golden_f32(c, name, &stored, &shape);
    if (st != ESPALIER_OK) return st;
    if (shape.rank == 3) return golden_check_tensor(c, name, rows);
    st = golden_planes(c, &planes, rows);
    if (st != ESPALIER_OK) return st;
    if (shape.rank != 4 || shape.extent[2] * shape.extent[3] != rows.rows)
        return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: %s is no picture of %lld pixels", c->dir, name, (long long)rows.rows);
    golden_check(c, name, planes, ESI_FILE_F32, GOLDEN_SHAPE(1, rows.cols, shape.extent[2], shape.extent[3]));
    return ESPALIER_OK;
}

espalier_status golden_check_map_taps(golden_case *c)
{
    espalier_status st = ESPALIER_OK;
    for (const golden_tap *t = c->taps; st == ESPALIER_OK && t; t = t->next) {
        const char *name = golden_name(c, "out.%s", t->name);
        esi_tensor rows = {0};
        if (!golden_has(c, name)) continue;
        st = esi_tensor_from(c->ctx, &rows, t->rows, t->cols, ESI_F32, t->data);
        if (st == ESPALIER_OK) st = golden_check_map(c, name, rows);
        esi_tensor_free(c->ctx, &rows);
    }
    return st;
}

espalier_status golden_layer_source(golden_case *c, esi_layer_source *s, esi_weights **weights, const char *prefix)
{
    esi_weight_file *file = NULL;
    espalier_status st = golden_weight_file(c, &file, prefix, NULL);
    if (st == ESPALIER_OK) st = esi_weights_new(c->ctx, weights, file);
    if (st != ESPALIER_OK) return st;
    *s = (esi_layer_source){c->ctx, *weights, esi_image_norm_style(esi_weights_file(*weights)), ""};
    return ESPALIER_OK;
}
