/* SPDX-License-Identifier: MIT
 *
 * malloc_failure.h: makes the C library's own allocations fail, those of other libraries included: a test that is linked with
 * malloc_failure.c has its malloc() and the like in place of the C library's.
 */
#ifndef MALLOC_FAILURE_H
#define MALLOC_FAILURE_H

#include <stdbool.h>

/* false where they cannot be put in place; then arming does nothing. */
bool malloc_failure_available(void);
/* The n-th allocation from now fails (1 = the next), in any thread; with `forever` all after it too. */
void malloc_failure_arm(long n, bool forever);
/* Number of allocations that have failed since. */
long malloc_failure_disarm(void);
/* Number of allocations since arming, failed ones included. */
long malloc_failure_count(void);
/* Blocks that are allocated at present, less those from before the program began. */
long malloc_failure_live(void);

#endif
