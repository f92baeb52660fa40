/* SPDX-License-Identifier: MIT
 *
 * decisions.c: how close the yes/no decisions of the networks are to their threshold, for the report.
 */
#include "voxel/voxel.h"

#include <math.h>

void esi_decision_stats_add(esi_decision_stats *s, const float *values, int64_t count)
{
    float min_abs = s->count == 0 ? INFINITY : (float)s->min_abs;

    if (count <= 0) return;
    for (int64_t i = 0; i < count; i++) {
        const float v = values[i], a = fabsf(v);

        /* A NaN fails every comparison: counted, never yes, never near. */
        s->yes += v > 0.0f;
        s->within_1e4 += a <= 1e-4f;
        s->within_1e3 += a <= 1e-3f;
        s->within_1e2 += a <= 1e-2f;
        if (a < min_abs) min_abs = a;
    }
    s->count += (uint64_t)count;
    s->min_abs = (double)min_abs;
}
