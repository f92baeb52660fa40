/* SPDX-License-Identifier: MIT
 *
 * vec_wide.h: a vector of 16 lanes, W, made of 16 / V_LANES vectors of the instance: the unit of row sums (ARCHITECTURE.md, rule 5: lane j
 * takes elements j, j + 16, ...; then the lanes are added by the tree 8, 4, 2, 1). Included at the end of every vec_*.h.
 */
#ifndef ESI_VEC_WIDE_H
#define ESI_VEC_WIDE_H

/* In front of a loop over the registers of one value, which must become straight code. */
#if !defined(V_UNROLL) && defined(__clang__)
#  define V_UNROLL _Pragma("clang loop unroll(full)")
#elif !defined(V_UNROLL)
#  define V_UNROLL _Pragma("GCC unroll 16")
#endif

#define W_PARTS (16 / V_LANES)
#define W       VM(wide)

typedef struct W { VF part[W_PARTS]; } W;

#define ESI_WIDE_UNARY(name, expression) \
    static inline W VM(wide_##name)(W a) \
    { \
        W r; \
        V_UNROLL for (int i = 0; i < W_PARTS; i++) r.part[i] = expression; \
        return r; \
    }
#define ESI_WIDE_BINARY(name, expression) \
    static inline W VM(wide_##name)(W a, W b) \
    { \
        W r; \
        V_UNROLL for (int i = 0; i < W_PARTS; i++) r.part[i] = expression; \
        return r; \
    }

ESI_WIDE_BINARY(add, V_ADD(a.part[i], b.part[i]))
ESI_WIDE_BINARY(sub, V_SUB(a.part[i], b.part[i]))
ESI_WIDE_BINARY(mul, V_MUL(a.part[i], b.part[i]))
ESI_WIDE_BINARY(div, V_DIV(a.part[i], b.part[i]))
ESI_WIDE_BINARY(max, V_MAX(a.part[i], b.part[i]))
ESI_WIDE_UNARY(sqrt, V_SQRT(a.part[i]))
ESI_WIDE_UNARY(store_rule, V_STORE_RULE(a.part[i]))

static inline W VM(wide_set1)(float x)
{
    W r;
    V_UNROLL for (int i = 0; i < W_PARTS; i++) r.part[i] = V_SET1(x);
    return r;
}

static inline W VM(wide_fma)(W a, W b, W c)
{
    W r;
    V_UNROLL for (int i = 0; i < W_PARTS; i++) r.part[i] = V_FMA(a.part[i], b.part[i], c.part[i]);
    return r;
}

static inline W VM(wide_load)(const float *p)
{
    W r;
    V_UNROLL for (int i = 0; i < W_PARTS; i++) r.part[i] = V_LOAD(p + i * V_LANES);
    return r;
}

static inline void VM(wide_store)(float *p, W a)
{
    V_UNROLL for (int i = 0; i < W_PARTS; i++) V_STORE(p + i * V_LANES, a.part[i]);
}

/* How many of the first n lanes of a W lie in its part i. */
static inline size_t VM(wide_count)(size_t n, int i)
{
    size_t first = (size_t)i * V_LANES;
    if (n <= first) return 0;
    return n - first < V_LANES ? n - first : V_LANES;
}

/* The first n lanes, n <= 16; the others read as +0 and are not written. */
static inline W VM(wide_load_n)(const float *p, size_t n)
{
    W r;
    V_UNROLL for (int i = 0; i < W_PARTS; i++) {
        size_t count = VM(wide_count)(n, i);
        r.part[i] = V_LOAD_N(count ? p + i * V_LANES : p, count);
    }
    return r;
}

static inline void VM(wide_store_n)(float *p, W a, size_t n)
{
    V_UNROLL for (int i = 0; i < W_PARTS; i++) {
        size_t count = VM(wide_count)(n, i);
        V_STORE_N(count ? p + i * V_LANES : p, a.part[i], count);
    }
}

#if !ESI_VEC_REDUCE_DEFINED
static inline float esi_scalar_reduce_sum(W w)
{
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++) w.part[j] = w.part[j] + w.part[j + half];
    return w.part[0];
}

static inline float esi_scalar_reduce_max(W w)
{
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++) w.part[j] = V_MAX(w.part[j], w.part[j + half]);
    return w.part[0];
}
#  define V_REDUCE_SUM(w) esi_scalar_reduce_sum(w)
#  define V_REDUCE_MAX(w) esi_scalar_reduce_max(w)
#endif

static inline float VM(wide_reduce_sum)(W w) { return V_REDUCE_SUM(w); }
static inline float VM(wide_reduce_max)(W w) { return V_REDUCE_MAX(w); }

#define W_SET1(x)           VM(wide_set1)(x)
#define W_ZERO()            VM(wide_set1)(0.0f)
#define W_ADD(a, b)         VM(wide_add)(a, b)
#define W_SUB(a, b)         VM(wide_sub)(a, b)
#define W_MUL(a, b)         VM(wide_mul)(a, b)
#define W_DIV(a, b)         VM(wide_div)(a, b)
#define W_MAX(a, b)         VM(wide_max)(a, b)
#define W_SQRT(a)           VM(wide_sqrt)(a)
#define W_FMA(a, b, c)      VM(wide_fma)(a, b, c)
#define W_STORE_RULE(a)     VM(wide_store_rule)(a)
#define W_LOAD(p)           VM(wide_load)(p)
#define W_STORE(p, a)       VM(wide_store)(p, a)
#define W_LOAD_N(p, n)      VM(wide_load_n)(p, n)
#define W_STORE_N(p, a, n)  VM(wide_store_n)(p, a, n)
#define W_REDUCE_SUM(a)     VM(wide_reduce_sum)(a)
#define W_REDUCE_MAX(a)     VM(wide_reduce_max)(a)

#endif
