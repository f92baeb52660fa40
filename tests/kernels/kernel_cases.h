/* SPDX-License-Identifier: MIT
 *
 * kernel_cases.h: what a case of the kernel checker is: one op with inputs made from a seed, run in a given context.
 */
#ifndef KERNEL_CASES_H
#define KERNEL_CASES_H

#include "base/context.h"
#include "tensor/ops.h"

typedef enum fill { FILL_RANDOM, FILL_ZERO, FILL_TINY, FILL_EXTREME, FILL_COUNT } fill;

/* State of one case in one context. Inputs come from a generator seeded by the case, so every context sees the same. */
typedef struct case_state {
    espalier_context *ctx;
    uint64_t seed;
    fill fill;
    espalier_status status;         /* first failure */
    void *host[32];                 /* memory behind weights and tables, freed with the state */
    size_t n_host;
    esi_tensor weights[16];
    size_t n_weights;
    esi_tensor y_parent;            /* the tensor around the output view: rows before and after, columns left and right */
    int64_t y_row, y_col;
    int64_t y_rows, y_cols;
    double numbers[4];              /* results of ops that give numbers */
} case_state;

typedef struct kernel_case {
    const char *op;
    void (*run)(case_state *s, const int64_t *p);
    int64_t p[10];
    fill fill;
} kernel_case;

/* Calls visit() for every case. */
void for_each_case(void (*visit)(void *user, const kernel_case *c), void *user);
/* Checks of the plain C kernels against double-precision loops; the number of failures. */
int check_against_double(espalier_context *ctx);

uint64_t next_random(uint64_t *state);
float random_value(case_state *s);

#endif
