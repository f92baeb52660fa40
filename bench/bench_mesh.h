/* SPDX-License-Identifier: MIT
 *
 * bench_mesh.h: benchmarks of the mesh layer on a mesh from a file:
 *
 *   espalier-bench unwrap|simplify|remesh|post --mesh FILE [--threads N] [--size N] [--faces N] [--res N] [--seconds S] [--json]
 *
 * To add one: a function in a file of its own and a line in the table of bench_mesh.c.
 */
#ifndef ESI_BENCH_MESH_H
#define ESI_BENCH_MESH_H

#include "base/context.h"
#include "base/surface.h"

typedef struct bench_mesh_number {
    char name[40];
    double value;
} bench_mesh_number;

typedef struct bench_mesh {
    espalier_context *ctx;
    const char *name;              /* of the benchmark */
    const char *path;              /* --mesh */
    esi_mesh mesh;                 /* read from path and sanitised, unless the item reads it itself */
    int threads;
    uint32_t size;                 /* --size: atlas or texture side; 1024 */
    int64_t faces;                 /* --faces: target; 0 = a tenth of the mesh */
    int32_t resolution;            /* --res; 256 */
    double min_seconds;            /* --seconds: repeat for so long, keep the fastest run; 0 = one run */
    bool json;
    double seconds, cpu_seconds;   /* of the run kept */
    uint64_t peak_bytes;           /* of the account, inputs included */
    bench_mesh_number numbers[64]; /* printed after the times */
    size_t n_numbers;
    char remark[256];              /* printed below; "" = none */
} bench_mesh;

/* Called once; calls bench_mesh_time() for the part to be timed, then bench_mesh_report() for what it wants to tell. */
typedef espalier_status (*bench_mesh_fn)(bench_mesh *b);

/* Runs fn(b, arg) at least once and for min_seconds; keeps the fastest. Before every run but the first `reset(b, arg)` undoes the last (may
 * be NULL when a run leaves nothing behind). */
typedef espalier_status (*bench_mesh_run)(bench_mesh *b, void *arg);
espalier_status bench_mesh_time(bench_mesh *b, bench_mesh_run fn, void (*reset)(bench_mesh *b, void *arg), void *arg);
/* One more number for the report; name with its unit: "hausdorff_voxels". */
void bench_mesh_report(bench_mesh *b, const char *name, double value);

espalier_status bench_mesh_unwrap(bench_mesh *b);
espalier_status bench_mesh_remesh(bench_mesh *b);
espalier_status bench_mesh_post(bench_mesh *b);
espalier_status bench_mesh_simplify(bench_mesh *b);

/* True when argv[1] is one of these benchmarks: then *rc is the program's exit status. */
bool bench_mesh_main(int argc, char **argv, int *rc);
void bench_mesh_list(void);

#endif
