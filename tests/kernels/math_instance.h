/* SPDX-License-Identifier: MIT
 *
 * math_instance.h: the vector vocabulary and vmath.h built once per instruction set (math_instance.c), behind one table, for the programs
 * that compare the instances.
 */
#ifndef MATH_INSTANCE_H
#define MATH_INSTANCE_H

#include "kernels/math_reference.h"

#include <stddef.h>

#define MATH_LANES 16        /* counts given to run() and run2() are multiples of this */

typedef struct math_unary {
    const char *name;
    void (*run)(float *y, const float *x, size_t n);
} math_unary;

typedef struct math_binary {
    const char *name;
    void (*run)(float *y, const float *a, const float *b, size_t n);
} math_binary;

typedef struct math_instance {
    const char *name;
    const math_unary *functions;        /* MATH_FUNCTIONS of them */
    const math_binary *words;           /* the vocabulary; ends with a null name */
    float (*row_sum)(const float *x, size_t n);       /* sum of squares by 16 lanes and the tree, any n */
    float (*row_max)(const float *x, size_t n);
    void (*copy)(float *y, const float *x, size_t n); /* through the partial loads and stores, store rule applied, any n */
} math_instance;

/* The instances that this processor can run, the definition (plain C) first; ends with NULL. */
const math_instance *const *math_instances(void);

#endif
