/* SPDX-License-Identifier: MIT
 *
 * decoder_config.h: hyper-parameters of the decoders from a config json {"name", "args"}, or from the shapes in the weight file where there
 * is none (spec: flat GGUF directories). Errors are ERR_MODEL and name the weight file.
 */
#ifndef ESI_DECODER_CONFIG_H
#define ESI_DECODER_CONFIG_H

#include "models/networks.h"

/* What messages call the file, and where values come from. */
typedef struct esi_config_source {
    espalier_context *ctx;
    const esi_weight_file *file;
    const esi_json *args;
} esi_config_source;

/* `args` of a config whose "name" is one of `names` (NULL-terminated); *which = its index. */
espalier_status esi_config_open(espalier_context *ctx, esi_config_source *out, const esi_weight_file *file, const esi_json *config,
                                const char *const *names, int *which);
#define ESI_CONFIG_REQUIRED INT64_MIN
/* args.<key> in [low, high]; the fallback when absent. */
espalier_status esi_config_int(const esi_config_source *s, const char *key, int64_t fallback, int64_t low, int64_t high, int *out);
espalier_status esi_config_number(const esi_config_source *s, const char *key, double fallback, double low, double high, float *out);
espalier_status esi_config_bool(const esi_config_source *s, const char *key, bool fallback, bool *out);
/* args.<key>: *count numbers in [low, high], at most `capacity`. Required. */
espalier_status esi_config_int_list(const esi_config_source *s, const char *key, int64_t low, int64_t high, int capacity, int *out,
                                    int *count);
/* args.<key>, if present, is a list of `value` only, `count` long. */
espalier_status esi_config_all_equal(const esi_config_source *s, const char *key, const char *value, int count);

/* Elements of a tensor in the file, or 0 if it is absent. */
int64_t esi_file_count(const esi_weight_file *file, const char *format, ...) ESI_PRINTF(2, 3);

#endif
