/* SPDX-License-Identifier: MIT
 *
 * Matting networks under smaller and smaller memory budgets: the same bits while they fit, an error that names the need when they do not,
 * nothing left behind; and the need that is told is near the truth.
 */
#include "matting_fixture.h"

#include "models/birefnet.h"
#include "models/u2net.h"

typedef struct network {
    fixture f;
    net n;
    esi_birefnet *birefnet; /* this or the other */
    esi_u2net *u2net;
    int64_t side;
    float *pixels, *out;
} network;

static void open_network(network *k, const char *case_name, bool birefnet, int64_t side)
{
    memset(k, 0, sizeof *k);
    open_fixture(&k->f, ESPALIER_CPU_BEST, 2);
    net_load(&k->f, &k->n, case_name);
    esi_weight_file *file = net_whole_file(&k->f, &k->n);
    const espalier_status st = birefnet ? esi_birefnet_open(k->f.ctx, &k->birefnet, file) : esi_u2net_open(k->f.ctx, &k->u2net, file);
    if (st != ESPALIER_OK) fail_msg("%s", espalier_error_message(k->f.ctx));
    k->side = side;
    k->pixels = malloc((size_t)(3 * side * side) * sizeof(float));
    k->out = malloc((size_t)(side * side) * sizeof(float));
    assert_true(k->pixels && k->out);
    for (int64_t i = 0; i < 3 * side * side; i++) k->pixels[i] = (float)(i * 37 % 101) / 40.0f - 1.2f;
}

static void close_network(network *k)
{
    esi_birefnet_free(k->f.ctx, k->birefnet);
    esi_u2net_free(k->f.ctx, k->u2net);
    net_free(&k->n);
    close_fixture(&k->f);
    free(k->pixels);
    free(k->out);
}

static espalier_status run(network *k, uint64_t budget)
{
    espalier_context *ctx = k->f.ctx;
    espalier_context_set_memory_budget(ctx, budget);
    esi_clear_error(ctx);
    esi_memory_reset_high_water(ctx);
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor y;
    espalier_status st = k->birefnet ? esi_birefnet_forward(ctx, k->birefnet, &y, k->pixels, k->side, k->side)
                                     : esi_u2net_forward(ctx, k->u2net, &y, k->pixels, k->side, k->side);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, y, k->out);
    esi_scope_end(ctx, scope);
    espalier_context_set_memory_budget(ctx, 0);
    assert_int_equal(espalier_context_memory_now(ctx), 0);
    return st;
}

/* At least one part in `parts` of the memory that a run takes must be spared by smaller pieces (0: pieces are nothing beside the maps). */
static void sweep(const char *case_name, bool birefnet, int64_t side, uint64_t parts)
{
    const size_t bytes = (size_t)(side * side) * sizeof(float);
    network k;
    open_network(&k, case_name, birefnet, side);
    float *want = malloc(bytes);
    assert_non_null(want);

    assert_int_equal(run(&k, 0), ESPALIER_OK);
    memcpy(want, k.out, bytes);
    const uint64_t peak = esi_memory_high_water(k.f.ctx);
    const uint64_t least = birefnet ? esi_birefnet_memory_least(k.birefnet, side, side) : esi_u2net_memory_least(k.u2net, side, side);
    uint64_t smallest = 0;
    for (int part = 32; part > 0; part--) {
        const uint64_t budget = peak * (uint64_t)part / 32;
        const espalier_status st = run(&k, budget);
        if (st == ESPALIER_OK) {
            assert_memory_equal(k.out, want, bytes);
            assert_true(esi_memory_high_water(k.f.ctx) <= budget);
            assert_true(budget >= least);
            smallest = budget;
            continue;
        }
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_non_null(strstr(espalier_error_message(k.f.ctx), "--mem-budget"));
        if (budget < least) assert_non_null(strstr(espalier_error_message(k.f.ctx), "needs a memory budget of about"));
    }
    print_message("%s at %lld: %llu bytes, at least %llu, told %llu\n", case_name, (long long)side, (unsigned long long)peak,
                  (unsigned long long)smallest, (unsigned long long)least);
    /* What is told must be enough, and no run under less may succeed. */
    assert_int_equal(run(&k, least + least / 16 + (8 << 20)), ESPALIER_OK);
    assert_memory_equal(k.out, want, bytes);
    assert_int_equal(run(&k, least - 1), ESPALIER_ERR_RESOURCE);
    assert_true(smallest > 0 && (parts == 0 || smallest <= peak - peak / parts));
    free(want);
    close_network(&k);
}

static void test_birefnet(void **state)
{
    (void)state;
    sweep("birefnet_tiny", true, 384, 2);
}

static void test_u2netp(void **state)
{
    (void)state;
    sweep("u2netp", false, 180, 0);
}

static void test_isnet(void **state)
{
    (void)state;
    sweep("isnet_tiny", false, 400, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_birefnet), cmocka_unit_test(test_u2netp), cmocka_unit_test(test_isnet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
