/* SPDX-License-Identifier: MIT
 *
 * attention_simd.h: a block of queries against all keys of its window, part of kernels_simd.h. Scores are computed transposed,
 * [key, query]: then every step of the running softmax is one vector operation over queries, and the probabilities already lie as the tile
 * kernel wants its left operand. Running softmax over key tiles: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
 * 2018; tiling as in T. Dao et al., "FlashAttention", 2022.
 *
 * Scratch, in floats; Q = queries of the block and D = head size, both padded to X_NR / 2, S = Q made an odd number of cache lines, so
 * that the lines of a column do not share cache sets. Panels are X_NR wide, the last one perhaps half of that:
 *   qt panels of Q: [dim][width]   kt [dim][64 of 80]   vt panels of D: [64][width]   st [64][S]   o [Q][D]   m, l, c, region [Q]
 *   bt: the bias of few keys (windows), transposed once for all windows, [keys][S]; of more keys tile by tile, [64][S]
 */
#define X_KEY_STRIDE (ESI_KEY_TILE + 16)
#define X_Q_BLOCK 480
#define X_KEPT_BIAS 1024 /* keys */

typedef struct VM(attention_tiles) {
    float *qt, *kt, *vt, *st, *bt, *o, *m, *l, *c, *region;
    size_t queries, q_padded, d_padded, s_stride;
} VM(attention_tiles);

static size_t VM(padded)(size_t n) { return (n + X_NR / 2 - 1) / (X_NR / 2) * (X_NR / 2); }

static size_t VM(odd_lines)(size_t n) { return (n + 15) / 16 * 16 | 16; }

static bool VM(keeps_bias)(const esi_attention_job *job) { return job->bias && job->nk <= X_KEPT_BIAS; }

static size_t VM(bias_keys)(const esi_attention_job *job)
{
    if (!job->bias) return 0;
    return VM(keeps_bias)(job) ? job->nk : ESI_KEY_TILE;
}

static size_t VM(attention_scratch)(const esi_attention_job *job, size_t queries)
{
    size_t q = VM(padded)(queries), d = VM(padded)(job->dim);
    size_t scores = (ESI_KEY_TILE + VM(bias_keys)(job)) * VM(odd_lines)(q);
    return q * job->dim + X_KEY_STRIDE * job->dim + ESI_KEY_TILE * d + scores + q * d + 4 * q + 16;
}

static VM(attention_tiles) VM(attention_layout)(const esi_attention_job *job, size_t queries, float *scratch)
{
    VM(attention_tiles) t;
    size_t q = VM(padded)(queries), d = VM(padded)(job->dim);

    t.queries = queries;
    t.q_padded = q;
    t.d_padded = d;
    t.s_stride = VM(odd_lines)(q);
    t.o = scratch;
    t.m = t.o + q * d;
    t.l = t.m + q;
    t.c = t.l + q;
    t.region = t.c + q;
    t.vt = t.region + q;
    t.st = t.vt + ESI_KEY_TILE * d;
    t.bt = t.st + ESI_KEY_TILE * t.s_stride;
    t.qt = t.bt + VM(bias_keys)(job) * t.s_stride;
    t.kt = t.qt + q * job->dim; /* last: a transposition may spill a vector beyond its end */
    return t;
}

/* out[c * ld + r] = x[r * stride + c] for `rows` rows, at most 64; columns up to `padded` are zero. */
static void VM(transpose_matrix)(float *out, size_t ld, const float *x, size_t stride, size_t rows, size_t padded, size_t cols)
{
    const float *pointers[ESI_KEY_TILE];
    for (size_t r = 0; r < rows; r++) pointers[r] = x + r * stride;
    VM(transpose_rows)(out, ld, pointers, rows, padded, cols);
}

/* Width of the panel at column p of `padded`. */
static inline size_t VM(panel)(size_t padded, size_t p) { return ESI_MIN((size_t)X_NR, padded - p); }

/* Panels of v; columns from dim on stay zero. */
static void VM(pack_values)(const VM(attention_tiles) *t, const float *v, size_t stride, size_t n, size_t dim)
{
    for (size_t p = 0; p < dim; p += X_NR) {
        size_t width = VM(panel)(t->d_padded, p), end = ESI_MIN(p + width, dim);
        for (size_t i = 0; i < n; i++)
            for (size_t d = p; d < end; d += V_LANES)
                V_STORE(t->vt + p * ESI_KEY_TILE + i * width + d - p, VM(load)(v + i * stride + d, dim - d));
    }
}

/* bt[j][i] = bias[i][j] for the block's queries and n keys. */
static void VM(transpose_bias)(const VM(attention_tiles) *t, float *bt, const float *bias, size_t stride, size_t n)
{
    for (size_t i = 0; i < t->q_padded; i += ESI_KEY_TILE) {
        size_t rows = t->queries > i ? ESI_MIN((size_t)ESI_KEY_TILE, t->queries - i) : 0;
        VM(transpose_matrix)(bt + i, t->s_stride, bias + i * stride, stride, rows, ESI_MIN((size_t)ESI_KEY_TILE, t->q_padded - i), n);
    }
}

/* Scores of n keys: st[j][i] = q_i . k_j. */
static void VM(scores)(const VM(attention_tiles) *t, size_t dim, size_t n)
{
    float *rows[X_MR];

    for (size_t p = 0; p < t->q_padded; p += X_NR)
        for (size_t j = 0; j < n; j += X_MR) {
            size_t m = ESI_MIN((size_t)X_MR, (n - j + X_M_STEP - 1) / X_M_STEP * X_M_STEP);
            for (size_t i = 0; i < m; i++) rows[i] = t->st + (j + i) * t->s_stride;
            VM(gemm)(m, dim, t->kt + j, X_KEY_STRIDE, t->qt + p * dim, VM(panel)(t->q_padded, p), rows, p, true);
        }
}

/* Lanes where the query at q and the key of `region` are in different regions become `other`. */
static inline VF VM(if_visible)(const float *q_region, int32_t key_region, VF v, VF other)
{
    VI difference = VI_XOR(V_BITS(V_LOAD(q_region)), VI_SET1(key_region));
    return V_SELECT(V_EQ(V_FROM_INT(difference), V_ZERO()), v, other);
}

/* From scores to probabilities for the V_LANES queries at q; updates m and l, leaves the factor of the old values in c. */
static void VM(softmax_step)(const VM(attention_tiles) *t, const esi_attention_job *job, const float *bt, const int32_t *region, size_t q,
                             size_t n)
{
    float *st = t->st + q;
    size_t ld = t->s_stride;
    VF scale = V_SET1(job->scale), old = V_LOAD(t->m + q), m = old, c, lane[16];

    for (size_t j = 0; j < n; j++) {
        VF s = V_MUL(V_LOAD(st + j * ld), scale), larger;
        if (bt) s = V_ADD(s, V_LOAD(bt + q + j * ld));
        larger = V_MAX(m, s);
        m = region ? VM(if_visible)(t->region + q, region[j * job->region_stride], larger, m) : larger;
        V_STORE(st + j * ld, s);
    }
    for (size_t r = 0; r < 16; r++) {
        lane[r] = V_ZERO();
        for (size_t j = r; j < n; j += 16) {
            VF p = V_STORE_RULE(VM(exp)(V_SUB(V_LOAD(st + j * ld), m)));
            if (region) p = VM(if_visible)(t->region + q, region[j * job->region_stride], p, V_ZERO());
            lane[r] = V_ADD(lane[r], p);
            V_STORE(st + j * ld, p);
        }
    }
    for (size_t half = 8; half >= 1; half /= 2)
        for (size_t r = 0; r < half; r++) lane[r] = V_ADD(lane[r], lane[r + half]);
    c = V_SELECT(V_EQ(old, m), V_SET1(1.0f), VM(exp)(V_SUB(old, m)));
    V_STORE(t->m + q, m);
    V_STORE(t->c + q, c);
    V_STORE(t->l + q, V_FMA(V_LOAD(t->l + q), c, lane[0]));
}

/* o = o * c where c is not 1, then o += p v over n keys in order. */
static void VM(add_values)(const VM(attention_tiles) *t, size_t n)
{
    float *rows[X_MR];

    for (size_t q = 0; q < t->queries; q += X_MR) {
        size_t m = ESI_MIN((size_t)X_MR, (t->queries - q + X_M_STEP - 1) / X_M_STEP * X_M_STEP);
        for (size_t i = 0; i < m; i++) {
            float c = t->c[q + i], *o = rows[i] = t->o + (q + i) * t->d_padded;
            if (c == 1.0f) continue;
            for (size_t d = 0; d < t->d_padded; d += V_LANES) V_STORE(o + d, V_STORE_RULE(V_MUL(V_LOAD(o + d), V_SET1(c))));
        }
        for (size_t d = 0; d < t->d_padded; d += X_NR)
            VM(gemm)(m, n, t->st + q, t->s_stride, t->vt + d * ESI_KEY_TILE, VM(panel)(t->d_padded, d), rows, d, false);
    }
}

static void VM(attention)(const esi_attention_job *job, size_t window, size_t head, size_t q0, size_t q1, bool again, float *scratch)
{
    VM(attention_tiles) t = VM(attention_layout)(job, q1 - q0, scratch);
    size_t dim = job->dim, first = window * job->nq + q0;
    const float *q = job->q + first * job->q_stride + head * dim;
    const float *k = job->k + window * job->nk * job->k_stride + head * dim;
    const float *v = job->v + window * job->nk * job->v_stride + head * dim;

    const float *bias = job->bias ? job->bias + (head * job->nq + q0) * job->bias_stride : NULL;
    bool keeps_bias = VM(keeps_bias)(job);

    for (size_t i = 0; i < t.q_padded; i += X_NR) {
        size_t rows = ESI_MIN((size_t)X_NR, t.queries - i), width = VM(panel)(t.q_padded, i);
        VM(transpose_matrix)(t.qt + i * dim, width, q + i * job->q_stride, job->q_stride, rows, width, dim);
    }
    if (keeps_bias && !again) VM(transpose_bias)(&t, t.bt, bias, job->bias_stride, job->nk);
    memset(t.o, 0, t.q_padded * t.d_padded * sizeof *t.o);
    memset(t.vt, 0, ESI_KEY_TILE * t.d_padded * sizeof *t.vt);
    memset(t.region, 0, t.q_padded * sizeof *t.region);
    for (size_t i = 0; i < t.q_padded; i++) t.m[i] = -HUGE_VALF, t.l[i] = 0.0f;
    for (size_t i = 0; job->region && i < t.queries; i++) memcpy(t.region + i, job->region + (first + i) * job->region_stride, 4);

    for (size_t j = 0; j < job->nk; j += ESI_KEY_TILE) {
        size_t n = ESI_MIN((size_t)ESI_KEY_TILE, job->nk - j);
        const int32_t *region = job->region ? job->region + (window * job->nk + j) * job->region_stride : NULL;
        const float *bt = !bias ? NULL : keeps_bias ? t.bt + j * t.s_stride : t.bt;

        VM(transpose_matrix)(t.kt, X_KEY_STRIDE, k + j * job->k_stride, job->k_stride, n, ESI_KEY_TILE, dim);
        VM(pack_values)(&t, v + j * job->v_stride, job->v_stride, n, dim);
        if (bias && !keeps_bias) VM(transpose_bias)(&t, t.bt, bias + j, job->bias_stride, n);
        VM(scores)(&t, dim, n);
        for (size_t i = 0; i < t.q_padded; i += V_LANES) VM(softmax_step)(&t, job, bt, region, i, n);
        VM(add_values)(&t, n);
    }
    for (size_t i = 0; i < t.queries; i++) {
        float *y = job->y + (first + i) * job->y_stride + head * dim;
        if (t.l[i] == 0.0f) memset(y, 0, dim * sizeof *y);
        else {
            memcpy(y, t.o + i * t.d_padded, dim * sizeof *y);
            VM(divide)(y, t.l[i], dim);
        }
    }
}
