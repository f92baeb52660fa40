/* SPDX-License-Identifier: MIT
 *
 * weights_target.h: parse a weight file, read all that it claims to hold. Both containers go through the same door.
 */
#ifndef WEIGHTS_TARGET_H
#define WEIGHTS_TARGET_H

#include "fuzz.h"

#include "formats/weights.h"

#include <stdlib.h>

static void use_tensor(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, uint64_t size)
{
    float *floats = NULL;
    int32_t *integers = NULL;
    unsigned sum = 0;

    if (t->offset > size || t->size > size - t->offset || t->rank < 0 || t->rank > ESI_MAX_RANK) abort();
    if (esi_weight_file_find(file, t->name) != t || !t->type_name) abort();
    for (uint64_t i = 0; i < t->size; i++) sum += esi_weight_file_data(file, t)[i];
    if (sum == UINT32_MAX) abort();
    if (esi_file_tensor_read_f32(ctx, file, t, &floats) == ESPALIER_OK && t->dtype == ESI_FILE_OTHER) abort();
    esi_free(ctx, floats);
    esi_clear_error(ctx);
    esi_file_tensor_read_i32(ctx, file, t, &integers);
    esi_free(ctx, integers);
    esi_clear_error(ctx);
}

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    esi_weight_file *file = NULL;

    if (esi_weight_file_parse(ctx, &file, data, size, "fuzz.bin") != ESPALIER_OK) return false;
    for (size_t i = 0; i < file->count; i++) use_tensor(ctx, file, &file->tensors[i], size);
    if (file->config_json && strlen(file->config_json) > size) abort();
    esi_weight_file_free(file);
    return true;
}

#endif
