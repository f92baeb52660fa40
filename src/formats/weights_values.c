/* SPDX-License-Identifier: MIT
 *
 * weights_values.c: tensors of a weight file -> dense fp32 or int32. Widening is exact bit work; only F64, I64, I32 and U32 can round, to
 * nearest even. The fast path of networks does not come here: kernels expand weights panel by panel from the map.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE binary16 to binary32: every value, subnormals, infinities and NaN payloads included, has an exact image. */
static float widen_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;

    if (exponent == 0x1f) return float_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0) return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

static float widen_bf16(uint16_t h)
{
    return float_from_bits((uint32_t)h << 16);
}

/* 32 values from a block: f16 scale, 32 int8. 11 + 7 significant bits: the product is exact. */
static void widen_q8_0(float *out, const uint8_t *block)
{
    float scale = widen_f16(esi_load_u16le(block));
    for (int i = 0; i < 32; i++) {
        int q = block[2 + i] < 128 ? block[2 + i] : block[2 + i] - 256;
        out[i] = scale * (float)q;
    }
}

static double load_f64(const uint8_t *p)
{
    uint64_t bits = esi_load_u64le(p);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Two's complement without relying on conversions that C leaves to the implementation. */
static int64_t load_i64(const uint8_t *p)
{
    uint64_t bits = esi_load_u64le(p);
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int32_t load_i32(const uint8_t *p)
{
    uint32_t bits = esi_load_u32le(p);
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static espalier_status unreadable(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, const char *expected)
{
    return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset, "%s: tensor '%.200s': found type %s, expected %s", file->name, t->name,
                       t->type_name, expected);
}

static void *allocate_values(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, size_t item, size_t *count)
{
    uint64_t elements = (uint64_t)esi_file_tensor_count(t);

    if (elements > SIZE_MAX) {
        esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: tensor '%.200s' does not fit in memory", file->name, t->name);
        return NULL;
    }
    *count = (size_t)elements;
    return esi_alloc(ctx, *count, item, "the values of a tensor");
}

espalier_status esi_file_tensor_read_f32(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, float **out)
{
    const uint8_t *p = esi_weight_file_data(file, t);
    size_t n;
    float *v;

    *out = NULL;
    if (t->dtype >= ESI_FILE_OTHER) return unreadable(ctx, file, t, "F64, F32, F16, BF16, Q8_0, I64, I32, U32 or U8");
    v = allocate_values(ctx, file, t, sizeof *v, &n);
    if (!v) return ESPALIER_ERR_RESOURCE;
    /* clang-format off */
    switch (t->dtype) {
    case ESI_FILE_F64: for (size_t i = 0; i < n; i++) v[i] = (float)load_f64(p + 8 * i); break;
    case ESI_FILE_F32: for (size_t i = 0; i < n; i++) v[i] = float_from_bits(esi_load_u32le(p + 4 * i)); break;
    case ESI_FILE_F16: for (size_t i = 0; i < n; i++) v[i] = widen_f16(esi_load_u16le(p + 2 * i)); break;
    case ESI_FILE_BF16: for (size_t i = 0; i < n; i++) v[i] = widen_bf16(esi_load_u16le(p + 2 * i)); break;
    case ESI_FILE_I64: for (size_t i = 0; i < n; i++) v[i] = (float)load_i64(p + 8 * i); break;
    case ESI_FILE_I32: for (size_t i = 0; i < n; i++) v[i] = (float)load_i32(p + 4 * i); break;
    case ESI_FILE_U32: for (size_t i = 0; i < n; i++) v[i] = (float)esi_load_u32le(p + 4 * i); break;
    case ESI_FILE_U8: for (size_t i = 0; i < n; i++) v[i] = (float)p[i]; break;
    case ESI_FILE_Q8_0: for (size_t i = 0; i < n / 32; i++) widen_q8_0(v + 32 * i, p + 34 * i); break;
    case ESI_FILE_OTHER: break;
    }
    /* clang-format on */
    *out = v;
    return ESPALIER_OK;
}

/* Element i of an integer tensor; U32 and I64 may lie outside int32. */
static int64_t load_integer(const uint8_t *p, esi_file_dtype dtype, size_t i)
{
    switch (dtype) {
    case ESI_FILE_I64:
        return load_i64(p + 8 * i);
    case ESI_FILE_I32:
        return load_i32(p + 4 * i);
    case ESI_FILE_U32:
        return (int64_t)esi_load_u32le(p + 4 * i);
    default:
        return p[i];
    }
}

espalier_status esi_file_tensor_read_i32(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, int32_t **out)
{
    const uint8_t *p = esi_weight_file_data(file, t);
    size_t n;
    int32_t *v;

    *out = NULL;
    if (t->dtype != ESI_FILE_I64 && t->dtype != ESI_FILE_I32 && t->dtype != ESI_FILE_U32 && t->dtype != ESI_FILE_U8)
        return unreadable(ctx, file, t, "I32, I64, U32 or U8");
    v = allocate_values(ctx, file, t, sizeof *v, &n);
    if (!v) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) {
        int64_t value = load_integer(p, t->dtype, i);
        if (value < INT32_MIN || value > INT32_MAX) {
            esi_free(ctx, v);
            return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset,
                               "%s: tensor '%.200s': element %zu is %lld, outside 32-bit integers", file->name, t->name, i,
                               (long long)value);
        }
        v[i] = (int32_t)value;
    }
    *out = v;
    return ESPALIER_OK;
}
