/* SPDX-License-Identifier: MIT
 *
 * kinds.h: the kinds of golden cases that have code. To add one: a line here and a file kind_<name>.c (one file may serve several).
 */
#ifndef GOLDEN_KINDS_H
#define GOLDEN_KINDS_H

#include "golden.h"

/* X(name in the config, function) */
#define GOLDEN_KINDS(X) \
    X("cascade", golden_kind_cascade) \
    X("dual_grid_to_mesh", golden_kind_dual_grid_to_mesh)

#define GOLDEN_DECLARE(kind, function) espalier_status function(golden_case *c);
GOLDEN_KINDS(GOLDEN_DECLARE)
#undef GOLDEN_DECLARE

#endif
