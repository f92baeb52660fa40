/* SPDX-License-Identifier: MIT
 *
 * mesh_unwrap.c: espalier-bench unwrap.
 */
#include "bench_mesh.h"

espalier_status bench_mesh_unwrap(bench_mesh *b)
{
    return esi_fail(b->ctx, ESPALIER_ERR_INTERNAL, "unwrap: not there yet");
}
