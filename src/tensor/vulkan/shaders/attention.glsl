// SPDX-License-Identifier: MIT
//
// attention.glsl: softmax attention (ARCHITECTURE.md, rule 7), the text of attention.comp and attention_small.comp, which say how large the
// tiles are. A workgroup of 16 x 8 invocations has a tile of 8 * ROWS queries of one head of one window and goes over the keys, 64 at a
// time, as the rule says. An invocation holds scores of ROWS queries with the keys x, x + 16, x + 32, x + 48, so that its probabilities are
// one lane of the row sum, and sums of the same queries for every 16th column of the values. Operands come through shared memory in
// chunks, transposed where several queries are read at once. (Tiling over keys with a running maximum: Milakov and Gimelshein 2018; Dao
// et al. 2022.)
//
// DIMS: columns of queries and keys in a chunk. KIND: columns of the values that an invocation has (1 .. 8).
// Bindings: y, a queries, b keys, c values, d bias, e region of the queries, f region of the keys, g state of a tile between dispatches:
// for every query its sums, maximum and sum. Rows of y, a and e are numbered through windows with n0 queries each, rows of b, c and f
// through windows that are n1 rows apart, of which n2 are taken. rows: workgroups; n4: number of the first one: the query tile counts
// fastest, then the head, then the window. cols: columns of a head. n3: heads, + columns of the values << 16, and bits: 28 bias, 29 region,
// 30 the first keys, 31 the last ones. f0: scale.
#extension GL_EXT_control_flow_attributes : require
#define LOCAL_SIZE 128
#include "common.glsl"
#include "exact.glsl"

// Sums live in registers where all loops around them are written out; where an fma is a very long piece of code, outer loops stay loops.
#define LOOP [[dont_unroll]]
#define INNER [[unroll]]
#if FMA_KIND == 3
#define OUTER [[dont_unroll]]
#else
#define OUTER [[unroll]]
#endif
#define TILE 64u                                                                      // keys
#define QUERIES (8u * ROWS)
#define LINE (2u * ROWS + 1u)                                                         // of `tile`; odd, for the banks
#define VALUES 128u                                                                   // columns of the values at most

layout(std430, binding = 0) writeonly buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer q_buffer { float q[]; };
layout(std430, binding = 2) readonly buffer k_buffer { float k[]; };
layout(std430, binding = 3) readonly buffer v_buffer { float v[]; };
layout(std430, binding = 4) readonly buffer bias_buffer { float bias[]; };
layout(std430, binding = 5) readonly buffer region_q_buffer { int region_q[]; };
layout(std430, binding = 6) readonly buffer region_k_buffer { int region_k[]; };
layout(std430, binding = 7) buffer state_buffer { float state[]; };

const int NV = KIND;
#define LEAST uintBitsToFloat(0xff800000u)

shared vec4 tile[TILE * LINE];                    // [column][query] of the queries, then [key][query] of the probabilities
shared float lines[DIMS * (TILE + 1u)];           // [column][key] of the keys, then [key][column] of the values
shared float lanes[QUERIES * 17u];                // [query][x]
shared float top[QUERIES], factor[QUERIES];       // the new maximum; what old sums are multiplied by

uint me, x, first_row;                            // of the invocation: number, place among the 16, its first query in the tile
uint query, queries, head, window;                // of the workgroup
uint columns;                                     // of the values
float s[ROWS * 4], o[ROWS * 8];                   // scores or probabilities [query][key], sums [query][column]
float maximum, sum;                               // of query number `me`, in the first invocations

// ---------------------------------------------------------------- scores

void load_queries_and_keys(uint first, uint keys, uint d0, uint dims)
{
    uint q_at = push.a_offset + (window * push.n0 + query) * push.a_stride + head * push.cols + d0;
    uint k_at = push.b_offset + (window * push.n1 + first) * push.b_stride + head * push.cols + d0;

    for (uint i = me; i < QUERIES * DIMS; i += 128u) {
        uint d = i % DIMS, row = i / DIMS;
        tile[d * LINE + row / 4u][row % 4u] = d < dims && row < queries ? q[q_at + row * push.a_stride + d] : 0.0;
    }
    for (uint i = me; i < TILE * DIMS; i += 128u) {
        uint d = i % DIMS, key = i / DIMS;
        lines[d * (TILE + 1u) + key] = d < dims && key < keys ? k[k_at + key * push.b_stride + d] : 0.0;
    }
}

void multiply_scores(uint dims)
{
    for (uint d = 0u; d < dims; d++) {
        float a[ROWS], b[4];
        INNER for (int i = 0; i < ROWS / 4; i++) {
            vec4 four = tile[d * LINE + first_row / 4u + i];
            a[4 * i] = four.x;
            a[4 * i + 1] = four.y;
            a[4 * i + 2] = four.z;
            a[4 * i + 3] = four.w;
        }
        INNER for (int j = 0; j < 4; j++) b[j] = lines[d * (TILE + 1u) + x + 16u * uint(j)];
        OUTER for (int i = 0; i < ROWS; i++)
            INNER for (int j = 0; j < 4; j++) s[4 * i + j] = exact_fma(a[i], b[j], s[4 * i + j]);
    }
}

void make_scores(uint first, uint keys)
{
    OUTER for (int i = 0; i < 4 * ROWS; i++) s[i] = 0.0;
    for (uint d0 = 0u; d0 < push.cols; d0 += DIMS) {
        uint dims = min(DIMS, push.cols - d0);
        barrier();                                                                    // what is in shared memory was used
        load_queries_and_keys(first, keys, d0, dims);
        barrier();
        multiply_scores(dims);
    }
}

// ---------------------------------------------------------------- probabilities

// Scores become final; a bit for each one that is visible.
uint mask_scores(uint first, uint keys)
{
    uint seen = 0u;

    OUTER for (int i = 0; i < ROWS; i++) {
        uint row = first_row + uint(i), real = min(row, queries - 1u);
        float most = LEAST;
        OUTER for (int j = 0; j < 4; j++) {
            uint key = x + 16u * uint(j), real_key = min(key, keys - 1u);
            float t = exact_mul(s[4 * i + j], push.f0);
            bool visible = key < keys;
            if ((push.n3 & 0x10000000u) != 0u)
                t = exact_add(t, bias[push.d_offset + (head * push.n0 + query + real) * push.d_stride + first + real_key]);
            if ((push.n3 & 0x20000000u) != 0u)
                visible = visible && region_k[push.f_offset + (window * push.n1 + first + real_key) * push.f_stride] ==
                                     region_q[push.e_offset + (window * push.n0 + query + real) * push.e_stride];
            if (visible) most = exact_max(most, t);
            seen |= visible ? 1u << uint(4 * i + j) : 0u;
            s[4 * i + j] = t;
        }
        lanes[row * 17u + x] = most;
    }
    return seen;
}

void find_maximum()
{
    float m = maximum;

    if (me >= QUERIES) return;
    for (uint i = 0u; i < 16u; i++) m = exact_max(m, lanes[me * 17u + i]);
    factor[me] = maximum == m ? 1.0 : esi_v_exp(exact_sub(maximum, m));
    top[me] = maximum = m;
}

// Four rows at a time from and to shared memory, because an exponential is too long to be written out for every score.
void make_probabilities(uint seen)
{
    OUTER for (int j = 0; j < 4; j++)
        OUTER for (int i = 0; i < ROWS / 4; i++)
            tile[(x + 16u * uint(j)) * LINE + first_row / 4u + i] =
                vec4(s[16 * i + j], s[16 * i + 4 + j], s[16 * i + 8 + j], s[16 * i + 12 + j]);
    LOOP for (uint i = 0u; i < ROWS / 4; i++) {
        uint row = first_row + 4u * i;
        vec4 m = vec4(top[row], top[row + 1u], top[row + 2u], top[row + 3u]), lane = vec4(0.0);
        LOOP for (uint j = 0u; j < 4u; j++) {
            uint at = (x + 16u * j) * LINE + row / 4u, bits = seen >> (16u * i + j);
            vec4 p = tile[at];
            OUTER for (int e = 0; e < 4; e++) {
                p[e] = (bits >> (4u * uint(e)) & 1u) != 0u ? stored(esi_v_exp(exact_sub(p[e], m[e]))) : 0.0;
                lane[e] = exact_add(lane[e], p[e]);
            }
            tile[at] = p;
        }
        lanes[row * 17u + x] = lane.x;
        lanes[row * 17u + 17u + x] = lane.y;
        lanes[row * 17u + 34u + x] = lane.z;
        lanes[row * 17u + 51u + x] = lane.w;
    }
    OUTER for (int i = 0; i < ROWS; i++) {
        float c = factor[first_row + uint(i)];
        if (c != 1.0) OUTER for (int n = 0; n < NV; n++) o[8 * i + n] = stored(exact_mul(o[8 * i + n], c));
    }
}

void add_sum()
{
    float t[16];

    if (me >= QUERIES) return;
    for (int i = 0; i < 16; i++) t[i] = lanes[me * 17u + uint(i)];
    for (int half_ = 8; half_ >= 1; half_ /= 2)
        for (int i = 0; i < half_; i++) t[i] = exact_add(t[i], t[i + half_]);
    sum = exact_fma(sum, factor[me], t[0]);
}

// ---------------------------------------------------------------- values

void load_values(uint first, uint keys, uint chunk)
{
    uint width = 16u * uint(NV), v_at = push.c_offset + (window * push.n1 + first) * push.c_stride + head * push.cols;

    for (uint i = me; i < chunk * width; i += 128u) {
        uint col = i % width, key = i / width;
        lines[i] = key < keys && col < columns ? v[v_at + key * push.c_stride + col] : 0.0;
    }
}

void add_values(uint first, uint keys)
{
    for (uint j = 0u; j < keys; j++) {
        float p[ROWS];
        INNER for (int i = 0; i < ROWS / 4; i++) {
            vec4 four = tile[(first + j) * LINE + first_row / 4u + i];
            p[4 * i] = four.x;
            p[4 * i + 1] = four.y;
            p[4 * i + 2] = four.z;
            p[4 * i + 3] = four.w;
        }
        OUTER for (int n = 0; n < NV; n++) {
            float value = lines[j * 16u * uint(NV) + x + 16u * uint(n)];
            INNER for (int i = 0; i < ROWS; i++) o[8 * i + n] = exact_fma(p[i], value, o[8 * i + n]);
        }
    }
}

void attend(uint first, uint keys)
{
    uint chunk = NV > 4 ? DIMS / 2u : NV > 2 ? DIMS : 2u * DIMS, seen;                // so many keys' values fit

    make_scores(first, keys);
    seen = mask_scores(first, keys);
    barrier();
    find_maximum();
    barrier();
    make_probabilities(seen);
    for (uint j = 0u; j < keys; j += chunk) {
        barrier();
        if (j == 0u) add_sum();
        load_values(first + j, keys - j, chunk);
        barrier();
        add_values(j, min(chunk, keys - j));
    }
}

// ---------------------------------------------------------------- beginning and end

void begin(bool resume)
{
    uint at = push.g_offset + group_number() * push.g_stride;

    maximum = LEAST;
    sum = 0.0;
    OUTER for (int i = 0; i < 8 * ROWS; i++) o[i] = 0.0;
    if (!resume) return;
    if (me < QUERIES) {
        maximum = state[at + me * (columns + 2u) + columns];
        sum = state[at + me * (columns + 2u) + columns + 1u];
    }
    OUTER for (int i = 0; i < ROWS; i++)
        OUTER for (int n = 0; n < NV; n++) {
            uint col = x + 16u * uint(n);
            if (col < columns) o[8 * i + n] = state[at + (first_row + uint(i)) * (columns + 2u) + col];
        }
}

void keep()
{
    uint at = push.g_offset + group_number() * push.g_stride;

    if (me < QUERIES) {
        state[at + me * (columns + 2u) + columns] = maximum;
        state[at + me * (columns + 2u) + columns + 1u] = sum;
    }
    OUTER for (int i = 0; i < ROWS; i++)
        OUTER for (int n = 0; n < NV; n++) {
            uint col = x + 16u * uint(n);
            if (col < columns) state[at + (first_row + uint(i)) * (columns + 2u) + col] = o[8 * i + n];
        }
}

// Sixteen columns at a time through shared memory, because a division is too long to be written out for every sum.
void finish()
{
    uint y_at = push.y_offset + (window * push.n0 + query) * push.y_stride + head * push.cols;

    if (me < QUERIES) top[me] = sum;
    OUTER for (int n = 0; n < NV; n++) {
        barrier();
        OUTER for (int i = 0; i < ROWS / 4; i++)
            tile[x * LINE + first_row / 4u + i] = vec4(o[32 * i + n], o[32 * i + 8 + n], o[32 * i + 16 + n], o[32 * i + 24 + n]);
        barrier();
        LOOP for (uint i = me; i < QUERIES * 16u; i += 128u) {
            uint row = i / 16u, col = i % 16u;
            float l = top[row], value = l == 0.0 ? 0.0 : stored(exact_div(tile[col * LINE + row / 4u][row % 4u], l));
            if (row < queries && col + 16u * uint(n) < columns) y[y_at + row * push.y_stride + col + 16u * uint(n)] = value;
        }
    }
}

void main()
{
    uint group = group_number(), number = group + push.n4, tiles = (push.n0 + QUERIES - 1u) / QUERIES, heads = push.n3 & 0xffffu;

    if (group >= push.rows) return;
    me = gl_LocalInvocationID.x;
    x = me % 16u;
    first_row = me / 16u * ROWS;
    query = number % tiles * QUERIES;
    queries = min(QUERIES, push.n0 - query);
    head = number / tiles % heads;
    window = number / tiles / heads;
    columns = push.n3 >> 16 & 0xffu;
    begin((push.n3 & 0x40000000u) == 0u);
    for (uint first = 0u; first < push.n2; first += TILE) attend(first, min(TILE, push.n2 - first));
    if ((push.n3 & 0x80000000u) != 0u) finish();
    else keep();
}
