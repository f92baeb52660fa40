/* SPDX-License-Identifier: MIT
 *
 * make_dump.c: espalier-make-dump SHAPE RESOLUTION OUT [uncertain=X] [missing=X] [seed=N] [alpha=X] [constant]: raw assets of analytic
 * shapes for tests and benchmarks. The format goes by OUT's suffix.
 */
#include "shape_dump.h"

#include "formats/dump.h"

#include <stdio.h>
#include <stdlib.h>

static int usage(void)
{
    fprintf(stderr, "usage: espalier-make-dump SHAPE RESOLUTION OUT [uncertain=X] [missing=X] [seed=N] [alpha=X] [constant]\nshapes:");
    for (int i = 0; i < SHAPE_KINDS; i++) fprintf(stderr, " %s", shape_name((shape_kind)i));
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv)
{
    shape_options o = {.seed = 1, .alpha = 1.0f};
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    shape_dump dump;

    if (argc < 4 || !shape_parse(&o.kind, argv[1])) return usage();
    o.resolution = atoi(argv[2]);
    if (o.resolution < 16 || o.resolution > 1024) return usage();
    for (int i = 4; i < argc; i++) {
        if (strncmp(argv[i], "uncertain=", 10) == 0)
            o.uncertain = atof(argv[i] + 10);
        else if (strncmp(argv[i], "missing=", 8) == 0)
            o.missing = atof(argv[i] + 8);
        else if (strncmp(argv[i], "seed=", 5) == 0)
            o.seed = strtoull(argv[i] + 5, NULL, 10);
        else if (strncmp(argv[i], "alpha=", 6) == 0)
            o.alpha = (float)atof(argv[i] + 6);
        else if (strcmp(argv[i], "constant") == 0)
            o.constant = true;
        else
            return usage();
    }
    espalier_status st = espalier_runtime_create(&runtime, NULL);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = shape_dump_create(ctx, &dump, &o);
    if (st == ESPALIER_OK) {
        st = esi_dump_write(ctx, &dump.asset, argv[3]);
        if (st == ESPALIER_OK) printf("%lld voxels, %lld faces\n", (long long)dump.asset.n_voxels, (long long)dump.asset.n_faces);
        shape_dump_free(ctx, &dump);
    }
    if (st != ESPALIER_OK) fprintf(stderr, "espalier-make-dump: %s\n", ctx ? espalier_error_message(ctx) : espalier_status_name(st));
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return (int)st;
}
