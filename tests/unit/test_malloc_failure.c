/* SPDX-License-Identifier: MIT
 *
 * Opening models while malloc() fails at every place in turn, in the JSON library as in our own code: a clean error, the true result where
 * the failure could be borne, nothing leaked.
 */
#include "weights_fixture.h"

#include <espalier/model.h>

#include "unit/malloc_failure.h"

#define MOST_RUNS 300

typedef struct subject {
    espalier_context *ctx;
    const char *path;
    char expected[4096]; /* what a run without failures has found; empty until then */
} subject;

/* One run: a description of what was found, in `found`. */
typedef espalier_status (*operation)(const subject *s, char found[4096]);

static espalier_status open_model(const subject *s, char found[4096])
{
    espalier_model *model = NULL;
    espalier_status st = espalier_model_open(s->ctx, &model, s->path, NULL);
    size_t len = 0;

    for (int role = 0; st == ESPALIER_OK && role < ESPALIER_ROLE_COUNT; role++) {
        const char *path = espalier_model_role_path(model, (espalier_role)role);
        len += (size_t)snprintf(found + len, 4096 - len, "%s %llu\n", path ? path : "-",
                                (unsigned long long)espalier_model_role_parameters(model, (espalier_role)role));
    }
    if (st == ESPALIER_OK) snprintf(found + len, 4096 - len, "%s", espalier_pipeline_name(espalier_model_default_pipeline(model)));
    espalier_model_free(model);
    return st;
}

static espalier_status open_weights(const subject *s, char found[4096])
{
    esi_weight_file *file = NULL;
    espalier_status st = esi_weight_file_open(s->ctx, &file, s->path);
    size_t len = 0;

    for (size_t i = 0; st == ESPALIER_OK && i < file->count; i++) {
        const esi_file_tensor *t = &file->tensors[i];
        len += (size_t)snprintf(found + len, 4096 - len, "%s %s %d %lld %llu\n", t->name, t->type_name, t->rank, (long long)t->shape[0],
                                (unsigned long long)t->offset);
        assert_true(len < 4096);
    }
    esi_weight_file_free(file);
    return st;
}

/* The n-th allocation fails (or all from there on). Returns the number of allocations that were made. */
static long run(subject *s, operation operate, long n, bool forever)
{
    char found[4096] = "";
    long live = malloc_failure_live(), failed;

    esi_clear_error(s->ctx);
    malloc_failure_arm(n, forever);
    espalier_status st = operate(s, found);
    failed = malloc_failure_disarm();
    assert_int_equal(malloc_failure_live(), live);
    assert_int_equal(espalier_context_memory_now(s->ctx), 0);
    if (st == ESPALIER_OK) {
        if (s->expected[0] == '\0') memcpy(s->expected, found, sizeof found);
        assert_string_equal(found, s->expected);
    } else if (failed == 0 || st != ESPALIER_ERR_RESOURCE || espalier_error_message(s->ctx)[0] == '\0') {
        fail_msg("allocation %ld: %s: %s", n, espalier_status_name(st), espalier_error_message(s->ctx));
    }
    return malloc_failure_count();
}

static void fail_everywhere(espalier_context *ctx, const char *path, operation operate, long least)
{
    subject s = {.ctx = ctx, .path = path};
    long total;

    if (!malloc_failure_available()) skip();
    run(&s, operate, 0, false); /* for what is allocated once in a program */
    total = run(&s, operate, 0, false);
    assert_true(s.expected[0] != '\0');
    if (total < least) fail_msg("only %ld allocations", total);
    for (long i = 0; i < ESI_MIN(total, MOST_RUNS); i++) {
        long n = total <= MOST_RUNS ? i + 1 : 1 + (long)((double)i * (double)(total - 1) / (MOST_RUNS - 1));
        run(&s, operate, n, false);
        run(&s, operate, n, true);
    }
}

static espalier_context *new_context(espalier_runtime **runtime)
{
    espalier_runtime_options options = espalier_runtime_options_default();
    espalier_context *ctx;

    options.threads = 1;
    assert_int_equal(espalier_runtime_create(runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&ctx, *runtime), ESPALIER_OK);
    return ctx;
}

static void model_directory(void **state)
{
    espalier_runtime *runtime;
    espalier_context *ctx = new_context(&runtime);

    (void)state;
    fail_everywhere(ctx, ESPALIER_TEST_DATA "/golden/micro_model", open_model, 1000);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
}

static void safetensors_header(void **state)
{
    espalier_runtime *runtime;
    espalier_context *ctx = new_context(&runtime);
    char header[4000] = "{\"__metadata__\":{\"format\":\"pt\"}", path[] = "/tmp/espalier-test-XXXXXX";
    size_t len = strlen(header);
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < 12; i++)
        len += (size_t)snprintf(
            header + len, sizeof header - len,
            ",\"blocks.%d.a_name_as_long_as_the_real_ones_%.*s\":{\"dtype\":\"F32\",\"shape\":[1,1],"
            "\"data_offsets\":[%d,%d]}",
            i, 8 * i, "................................................................................................", 4 * i, 4 * i + 4);
    len += (size_t)snprintf(header + len, sizeof header - len, "}");
    bytes b = safetensors_file(header, 48);
    assert_int_equal(write(fd, b.data, b.len), b.len);
    close(fd);
    fail_everywhere(ctx, path, open_weights, 100);
    unlink(path);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_directory),
        cmocka_unit_test(safetensors_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
