/* SPDX-License-Identifier: MIT
 *
 * espalier-matting-map: a network of the U2-Net family on a tensor out of a file, without any recipe before or after, so that its map can
 * be set beside another program's (tests/convert/check_real_weights.py). Input: 3 x SIDE x SIDE fp32, output: SIDE x SIDE fp32, both as
 * this machine stores them.
 */
#include "base/base.h"
#include "models/u2net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: espalier-matting-map WEIGHTS SIDE INPUT OUTPUT\n";

static espalier_status read_input(espalier_context *ctx, float **pixels, const char *path, int64_t side)
{
    const uint64_t size = (uint64_t)(3 * side * side) * sizeof **pixels;
    esi_file_map *map = NULL;
    espalier_status st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_INPUT);

    if (st != ESPALIER_OK) return st;
    if (esi_file_map_size(map) != size)
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: %llu bytes, expected %llu", path, (unsigned long long)esi_file_map_size(map),
                      (unsigned long long)size);
    if (st == ESPALIER_OK) {
        *pixels = esi_alloc(ctx, (size_t)(3 * side * side), sizeof **pixels, "input");
        if (*pixels)
            memcpy(*pixels, esi_file_map_data(map), (size_t)size);
        else
            st = ESPALIER_ERR_RESOURCE;
    }
    esi_file_map_release(map);
    return st;
}

static espalier_status run(espalier_context *ctx, char **argv, int64_t side)
{
    esi_weight_file *file = NULL;
    esi_u2net *network = NULL;
    esi_tensor matte = {0};
    float *pixels = NULL, *values = NULL;
    espalier_status st = read_input(ctx, &pixels, argv[3], side);

    if (st == ESPALIER_OK) st = esi_weight_file_open(ctx, &file, argv[1]);
    if (st == ESPALIER_OK) st = esi_u2net_open(ctx, &network, file);
    if (st == ESPALIER_OK) st = esi_weights_check_finite(ctx, esi_u2net_weights(network));
    if (st == ESPALIER_OK) st = esi_u2net_forward(ctx, network, &matte, pixels, side, side);
    if (st != ESPALIER_OK) goto done;
    values = esi_alloc(ctx, (size_t)matte.rows, sizeof *values, "matte");
    st = values ? esi_tensor_read(ctx, matte, values) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = esi_file_write_all(ctx, argv[4], values, (size_t)matte.rows * sizeof *values);
    if (st == ESPALIER_OK) printf("%s\n", esi_u2net_kind_name(esi_u2net_get_kind(network)));
done:
    esi_tensor_free(ctx, &matte);
    esi_free(ctx, values);
    esi_free(ctx, pixels);
    esi_u2net_free(ctx, network);
    return st;
}

int main(int argc, char **argv)
{
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    const long side = argc == 5 ? strtol(argv[2], NULL, 10) : 0;
    espalier_status st;

    if (side < 2 || side > 4096) {
        fputs(usage, stderr);
        return ESPALIER_ERR_ARG;
    }
    st = espalier_runtime_create(&runtime, NULL);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = run(ctx, argv, side);
    if (st != ESPALIER_OK) fprintf(stderr, "espalier-matting-map: %s\n", ctx ? espalier_error_message(ctx) : espalier_status_name(st));
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return (int)st;
}
