/* SPDX-License-Identifier: MIT
 *
 * red_net.h: U2-Net, U2-NetP and IS-Net made by hand, one channel wide, as weight files: all convolutions are zero but one chain of single
 * taps from the picture to the result, so that a pixel belongs to the matte when it is red. tests/cli/nets.py makes the same.
 */
#ifndef RED_NET_H
#define RED_NET_H

#include "support.h"

#include <espalier/matte.h>

typedef struct red_net {
    char header[65536];
    size_t len;
    float data[65536];
    size_t count;
    espalier_matte kind;
} red_net;

/* Weight and bias: zero but for the centre of the first `taps_count` input channels from `first` on. */
static inline void add_conv(red_net *n, const char *name, int out, int in, int kernel, const float *taps, int first, int taps_count,
                            float bias)
{
    const size_t area = (size_t)(kernel * kernel), weights = (size_t)(out * in) * area, at = n->count;

    assert_true(at + weights + (size_t)out <= ESI_COUNT(n->data));
    for (int i = 0; i < taps_count; i++) n->data[at + (size_t)(first + i) * area + area / 2] = taps[i];
    n->data[at + weights] = bias;
    n->count += weights + (size_t)out;
    n->len += (size_t)snprintf(n->header + n->len, sizeof n->header - n->len,
                               "%s\"%s.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d,%d],\"data_offsets\":[%zu,%zu]},"
                               "\"%s.bias\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}",
                               n->len > 1 ? "," : "", name, out, in, kernel, kernel, 4 * at, 4 * (at + weights), name, out,
                               4 * (at + weights), 4 * n->count);
    assert_true(n->len < sizeof n->header - 2);
}

static inline void add_block(red_net *n, const char *stage, int depth, int in, int out, const float *taps, int first, int taps_count)
{
    char name[64];

    snprintf(name, sizeof name, "%s.rebnconvin.conv_s1", stage);
    add_conv(n, name, out, in, 3, taps, first, taps_count, 0);
    for (int i = 1; i <= depth; i++) {
        snprintf(name, sizeof name, "%s.rebnconv%d.conv_s1", stage, i);
        add_conv(n, name, 1, i == 1 ? out : 1, 3, NULL, 0, 0, 0);
    }
    for (int i = 1; i < depth; i++) {
        snprintf(name, sizeof name, "%s.rebnconv%dd.conv_s1", stage, i);
        add_conv(n, name, i == 1 ? out : 1, 2, 3, NULL, 0, 0, 0);
    }
}

static inline void add_stages(red_net *n, const float *redness, int last)
{
    static const int depth[] = {7, 6, 5, 4, 4, 4};
    const float one = 1;
    const bool isnet = n->kind == ESPALIER_MATTE_ISNET;
    char name[16];

    if (isnet) add_conv(n, "conv_in", 1, 3, 3, redness, 0, 3, 0);
    for (int i = 1; i <= 6; i++) {
        snprintf(name, sizeof name, "stage%d", i);
        if (i == 1)
            add_block(n, name, depth[0], isnet ? 1 : 3, 1, isnet ? &one : redness, 0, isnet ? 1 : 3);
        else
            add_block(n, name, depth[i - 1], 1, i == 6 ? last : 1, NULL, 0, 0);
    }
    for (int i = 5; i >= 1; i--) {
        snprintf(name, sizeof name, "stage%dd", i);
        add_block(n, name, depth[i - 1], i == 5 ? last + 1 : 2, 1, i == 1 ? &one : NULL, 1, i == 1); /* the deeper one comes first */
    }
}

/* Writes the network as a safetensors file. */
static inline void write_red_net(const char *path, espalier_matte kind)
{
    static const float redness[3] = {1.0f, -0.5f, -0.5f};
    const bool isnet = kind == ESPALIER_MATTE_ISNET;
    const int last = kind == ESPALIER_MATTE_U2NET ? 2 : 1; /* what tells U2-Net from U2-NetP */
    const float gain = isnet ? 60 : 8, level = isnet ? 0.3f : 1.5f, one = 1;
    red_net *n = calloc(1, sizeof *n);
    uint8_t size[8];
    char name[16];

    assert_non_null(n);
    n->kind = kind;
    n->header[n->len++] = '{';
    add_stages(n, redness, last);
    add_conv(n, "side1", 1, 1, 3, &gain, 0, 1, -gain * level);
    for (int i = 2; i <= 6; i++) {
        snprintf(name, sizeof name, "side%d", i);
        add_conv(n, name, 1, i == 6 ? last : 1, 3, NULL, 0, 0, 0);
    }
    if (!isnet) add_conv(n, "outconv", 1, 6, 1, &one, 0, 1, 0);
    n->header[n->len++] = '}';
    for (size_t i = 0; i < 8; i++) size[i] = (uint8_t)((uint64_t)n->len >> (8 * i));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(size, 1, 8, file), 8);
    assert_int_equal(fwrite(n->header, 1, n->len, file), n->len);
    assert_int_equal(fwrite(n->data, sizeof *n->data, n->count, file), n->count);
    fclose(file);
    free(n);
}

#endif
