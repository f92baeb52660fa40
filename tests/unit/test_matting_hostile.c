/* SPDX-License-Identifier: MIT
 *
 * Matting networks from weights that were changed at random: shapes, names, types, values that are no numbers. Whatever a file says,
 * opening and running end with a result or a one-line error, and leave nothing behind. `test_matting_hostile N [SEED]` tries N files of
 * each network, for the sanitizers.
 */
#include "matting_fixture.h"

#include "models/birefnet.h"
#include "models/u2net.h"

enum { SIDE = 64 };

static uint64_t rounds = 60, state_of_random = 1;

static uint64_t draw(uint64_t limit)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (state_of_random >> 11) % limit;
}

/* Room for the values of a shape, all the same; the file's sizes stay consistent, which is the parser's business. */
static void resize(net *n, net_tensor *t)
{
    size_t count = 1;
    for (int k = 0; k < t->rank; k++) count *= (size_t)t->shape[k];
    if (count > 1 << 18) { /* too much for a test: back to something small */
        t->rank = 1;
        t->shape[0] = 3;
        count = 3;
    }
    float *values = calloc(count + 1, sizeof *values);
    assert_non_null(values);
    assert_true(n->n_owned < ESI_COUNT(n->owned));
    n->owned[n->n_owned++] = values;
    for (size_t i = 0; i < count; i++) values[i] = 0.25f;
    t->dtype = ESI_FILE_F32;
    t->data = (const uint8_t *)values;
    t->size = count * sizeof *values;
}

static void change_shape(net *n, net_tensor *t)
{
    static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 25, 31, 49, 64, 0};
    const int k = (int)draw((uint64_t)t->rank);
    switch (draw(4)) {
    case 0: t->shape[k] = extents[draw(ESI_COUNT(extents))]; break;
    case 1: t->shape[k] += draw(2) ? 1 : t->shape[k] > 0 ? -1 : 0; break;
    case 2: {
        const int other = (int)draw((uint64_t)t->rank);
        const int64_t extent = t->shape[k];
        t->shape[k] = t->shape[other];
        t->shape[other] = extent;
        break;
    }
    default:
        if (t->rank < 4) t->shape[t->rank++] = 1;
        else t->rank--;
    }
    resize(n, t);
}

static void change_value(net *n, net_tensor *t)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e30f, 1e-45f, -0.0f, 0.0f, -1.0f, 1e6f, -1e6f};
    float *all = net_values(n, t);
    const size_t count = t->size / sizeof *all;
    const float value = values[draw(ESI_COUNT(values))];
    if (count == 0) return;
    if (draw(2)) all[draw(count)] = value;
    else
        for (size_t i = 0; i < count; i++) all[i] = value;
}

/* Renaming gives one network's name to another's part, and a block a far number. */
static void change_name(net *n, net_tensor *t)
{
    char *dot = strchr(t->name, '.');
    switch (draw(3)) {
    case 0:
        for (char *p = t->name; *p; p++)
            if (*p >= '0' && *p <= '9' && draw(2)) *p = (char)('0' + draw(10));
        break;
    case 1:
        if (dot) dot[1] = 'x';
        break;
    default: snprintf(t->name, sizeof t->name, "extra.%u.weight", (unsigned)draw(1000000));
    }
    for (size_t i = 0; i < n->count; i++) /* no two of one name: the parser refuses that */
        if (&n->tensors[i] != t && strcmp(n->tensors[i].name, t->name) == 0) snprintf(t->name, sizeof t->name, "e.%p", (void *)t);
}

static void mutate(net *n)
{
    for (uint64_t changes = 1 + draw(4); changes > 0; changes--) {
        net_tensor *t = &n->tensors[draw(n->count)];
        switch (draw(5)) {
        case 0: change_shape(n, t); break;
        case 1: change_name(n, t); break;
        case 2: n->tensors[draw(n->count)].name[0] ^= 1; break;
        default: change_value(n, t);
        }
    }
}

static void expect_clean(fixture *f, espalier_status st)
{
    if (st == ESPALIER_OK) return;
    const char *text = espalier_error_message(f->ctx);
    if (st != ESPALIER_ERR_MODEL && st != ESPALIER_ERR_RESOURCE) fail_msg("status %d, \"%s\"", (int)st, text);
    assert_true(text[0] != '\0' && strchr(text, '\n') == NULL);
}

/* Number of files that ran to the end. */
static uint64_t try_files(const char *case_name, bool birefnet)
{
    static float pixels[3 * SIDE * SIDE];
    uint64_t ran = 0;
    for (int i = 0; i < 3 * SIDE * SIDE; i++) pixels[i] = (float)(i * 37 % 101) / 40.0f - 1.2f;
    for (uint64_t i = 0; i < rounds; i++) {
        fixture f;
        net n;
        esi_birefnet *b = NULL;
        esi_u2net *u = NULL;
        esi_tensor y;
        open_fixture(&f, ESPALIER_CPU_BEST, 2);
        net_load(&f, &n, case_name);
        mutate(&n);
        esi_weight_file *file = net_whole_file(&f, &n);
        espalier_context_set_memory_budget(f.ctx, 64 << 20);
        espalier_status st = birefnet ? esi_birefnet_open(f.ctx, &b, file) : esi_u2net_open(f.ctx, &u, file);
        expect_clean(&f, st);
        esi_clear_error(f.ctx);
        if (st == ESPALIER_OK) {
            const int64_t side = birefnet ? ESI_MAX((int64_t)SIDE, 2 * esi_birefnet_multiple(b)) : SIDE;
            esi_scope scope = esi_scope_begin(f.ctx);
            if (side == SIDE)
                st = birefnet ? esi_birefnet_forward(f.ctx, b, &y, pixels, side, side)
                              : esi_u2net_forward(f.ctx, u, &y, pixels, side, side);
            esi_scope_end(f.ctx, scope);
            expect_clean(&f, st);
            esi_clear_error(f.ctx);
            ran += st == ESPALIER_OK;
            assert_int_equal(espalier_context_memory_now(f.ctx), 0);
            /* what the pipeline asks before a run */
            expect_clean(&f, esi_weights_check_finite(f.ctx, birefnet ? esi_birefnet_weights(b) : esi_u2net_weights(u)));
        }
        esi_birefnet_free(f.ctx, b);
        esi_u2net_free(f.ctx, u);
        net_free(&n);
        close_fixture(&f);
    }
    print_message("%s: %llu of %llu ran\n", case_name, (unsigned long long)ran, (unsigned long long)rounds);
    return ran;
}

static void test_u2netp(void **state)
{
    (void)state;
    assert_true(try_files("u2netp", false) > 0);
}

static void test_isnet(void **state)
{
    (void)state;
    assert_true(try_files("isnet_tiny", false) > 0);
}

static void test_birefnet(void **state)
{
    (void)state;
    assert_true(try_files("birefnet_tiny", true) > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_u2netp), cmocka_unit_test(test_isnet), cmocka_unit_test(test_birefnet)};
    if (argc > 1) rounds = strtoull(argv[1], NULL, 10);
    if (argc > 2) state_of_random = strtoull(argv[2], NULL, 10) * 2 + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
