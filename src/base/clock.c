/* SPDX-License-Identifier: MIT
 *
 * clock.c: time for reports. No result depends on it.
 */
#include "base/base.h"

#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t) != 0) return 0.0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double esi_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double esi_cpu_seconds(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
