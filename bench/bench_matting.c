/* SPDX-License-Identifier: MIT
 *
 * bench_matting.c: matting networks with random weights on a random picture. FLOPs are what the network asks for: taps within the picture;
 * of a window's attention the pairs of a token that is kept with a key that it may see (padding is seen, but has no use for seeing).
 */
#include "bench.h"
#include "op_profile.h"

#include "model_plan.h"
#include "models/birefnet.h"
#include "models/u2net.h"

#include <stdio.h>

typedef struct matting_args {
    const esi_birefnet *birefnet; /* this or the other */
    const esi_u2net *u2net;
    const float *pixels;
    int64_t side;
} matting_args;

static espalier_status forward_once(bench *b, void *arg)
{
    const matting_args *a = arg;
    esi_tensor y;
    esi_scope scope = esi_scope_begin(b->ctx);
    espalier_status st = a->birefnet ? esi_birefnet_forward(b->ctx, a->birefnet, &y, a->pixels, a->side, a->side)
                                     : esi_u2net_forward(b->ctx, a->u2net, &y, a->pixels, a->side, a->side);
    esi_scope_end(b->ctx, scope);
    return st;
}

/* ------------------------------------------------------------ useful attention */

/* Pairs of a kept query and a visible key in the windows of a block. */
static espalier_status count_pairs(espalier_context *ctx, double *pairs, esi_grid grid, int64_t window, bool odd)
{
    const int64_t area = window * window, rows = esi_window_count(grid, window) * area;
    int32_t *table = esi_alloc(ctx, (size_t)rows, 2 * sizeof *table, "windows"), *place = table, *zone = table + rows;
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor index, region;
    espalier_status st = table ? esi_window_tables(ctx, &index, &region, grid, window, odd ? window / 2 : 0) : ESPALIER_ERR_RESOURCE;

    *pairs = 0;
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, index, place);
    if (st == ESPALIER_OK && !esi_tensor_is_null(region)) st = esi_tensor_read(ctx, region, zone);
    if (st == ESPALIER_OK && esi_tensor_is_null(region)) memset(zone, 0, (size_t)rows * sizeof *zone);
    for (int64_t i = 0; st == ESPALIER_OK && i < rows; i++) {
        const int32_t *keys = zone + i / area * area;
        for (int64_t j = 0; place[i] >= 0 && j < area; j++) *pairs += keys[j] == zone[i];
    }
    esi_scope_end(ctx, scope);
    esi_free(ctx, table);
    return st;
}

static espalier_status attention_flops(espalier_context *ctx, double *flops, const esi_swin *swin, esi_grid picture)
{
    espalier_status st = ESPALIER_OK;

    for (int i = 0; st == ESPALIER_OK && i < ESI_SWIN_STAGES; i++) {
        const esi_swin_stage *s = &swin->stages[i];
        for (int b = 0; st == ESPALIER_OK && b < s->depth; b++) {
            double pairs;
            st = count_pairs(ctx, &pairs, esi_swin_grid(swin, picture, i), s->window, b % 2);
            *flops += 4.0 * pairs * (double)s->channels;
        }
    }
    return st;
}

/* One run, cut up. */
static espalier_status profile_once(bench *b, op_profile *p, matting_args *a)
{
    double *attention = &p->flops[OP_ATTENTION];
    espalier_status st;

    op_profile_begin(p, b->ctx);
    st = forward_once(b, a);
    op_profile_end(p, b->ctx);
    if (st != ESPALIER_OK || !a->birefnet) return st;
    *attention = 0;
    st = attention_flops(b->ctx, attention, &a->birefnet->backbone, (esi_grid){a->side, a->side});
    if (st != ESPALIER_OK) return st;
    return attention_flops(b->ctx, attention, &a->birefnet->backbone, (esi_grid){a->side / 2, a->side / 2});
}

static espalier_status report_groups(bench *b, const char *name, const op_profile *p)
{
    const double peak = b->results[b->n_results - 1].peak_gflops;
    espalier_status st = ESPALIER_OK;

    for (int g = 0; st == ESPALIER_OK && g < OP_GROUP_COUNT; g++) {
        const double cpu = p->cpu_seconds[g];
        bench_result r = {.flops = p->flops[g], .seconds = cpu / b->threads, .cpu_seconds = cpu, .peak_gflops = peak};
        if (cpu <= 0) continue;
        r.share = r.flops / cpu * 1e-9 / peak;
        snprintf(r.name, sizeof r.name, "%s:%s", name, op_group_name((op_group)g));
        snprintf(r.formula, sizeof r.formula, "one run");
        st = bench_add(b, &r);
    }
    return st;
}

static espalier_status run_network(bench *b, const char *name, matting_args *a)
{
    op_profile p;
    double sum = 0;
    espalier_status st = profile_once(b, &p, a);

    for (int g = 0; g < OP_GROUP_COUNT; g++) sum += p.flops[g];
    if (st == ESPALIER_OK)
        st = bench_measure(b, name, sum, "2 * multiply-adds of matrix products, present taps, visible pairs of kept queries",
                           forward_once, a);
    return st == ESPALIER_OK ? report_groups(b, name, &p) : st;
}

static espalier_status run_preset(bench *b, const matting_preset *preset, const char *name, int64_t side)
{
    espalier_context *ctx = b->ctx;
    const size_t count = (size_t)(3 * side * side);
    matting_args a = {.side = side};
    file_plan plan = {0};
    esi_weight_file *file = NULL;
    esi_birefnet *birefnet = NULL;
    esi_u2net *u2net = NULL;
    float *pixels = esi_alloc(ctx, count, sizeof *pixels, "pixels");
    uint64_t state = 1;
    espalier_status st = pixels ? matting_plan_make(ctx, &plan, preset, 1) : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK) st = bench_open_plan(ctx, &file, &plan);
    if (st != ESPALIER_OK) goto done;
    st = esi_birefnet_recognise(file) ? esi_birefnet_open(ctx, &birefnet, file) : esi_u2net_open(ctx, &u2net, file);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < count; i++) pixels[i] = (float)(bench_next(&state) >> 40) * 0x1p-22f - 2.0f;
    a.birefnet = birefnet;
    a.u2net = u2net;
    a.pixels = pixels;
    st = run_network(b, name, &a);
done:
    esi_birefnet_free(ctx, birefnet);
    esi_u2net_free(ctx, u2net);
    file_plan_free(&plan);
    esi_free(ctx, pixels);
    return st;
}

espalier_status bench_matte(bench *b, const char *only)
{
    static const struct {
        const char *name, *preset;
        int64_t side;
    } networks[] = {{"matte/u2netp-320", "u2netp", 320},
                    {"matte/u2net-320", "u2net", 320},
                    {"matte/isnet-1024", "isnet", 1024},
                    {"matte/birefnet-swin-t-1024", "birefnet-swin-t", 1024},
                    {"matte/birefnet-swin-l-1024", "birefnet-swin-l", 1024}};
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(networks); i++)
        if (bench_wanted(only, networks[i].name))
            st = run_preset(b, matting_preset_find(networks[i].preset, strlen(networks[i].preset)), networks[i].name, networks[i].side);
    return st;
}
