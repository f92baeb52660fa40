/* SPDX-License-Identifier: MIT
 *
 * test_vulkan.c: the Vulkan backend where check_kernels does not look: which device is taken, its ways to an exact fma, many rows, two
 * jobs at once; what the embedded shaders declare. Failures: test_vulkan_faults.c; memory: test_vulkan_memory.c. Skipped where there is no
 * device.
 *
 * test_vulkan NAME runs one test (wildcards allowed).
 * test_vulkan --modules DIRECTORY writes the shaders as devices get them, for spirv-val and spirv-cross.
 */
#include "vulkan_fixture.h"

#include <math.h>
#include <pthread.h>

/* ------------------------------------------------------------------- choice */

static void missing_library(void **state)
{
    vulkan_fixture *f = *state;
    esi_vulkan_info *list;
    size_t count;

    f->hooks.library = "libvulkan-that-is-not-here.so.1";
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_null(f->device);
    assert_non_null(strstr(f->message, "libvulkan-that-is-not-here.so.1 is not installed"));
    assert_int_equal(esi_vulkan_list(esi_allocator(f->ctx), NULL, &f->hooks, true, &list, &count, f->message), ESPALIER_OK);
    assert_int_equal(count, 0);
    assert_null(list);
    f->hooks.library = "libm.so.6";                  /* a library, but not Vulkan's */
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "lacks vkGetInstanceProcAddr"));
}

static void loader_without_device(void **state)
{
    vulkan_fixture *f = *state;
    esi_vulkan_info *list;
    size_t count;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    vulkan_fault.no_devices = true;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "finds none"));
    assert_int_equal(esi_vulkan_list(esi_allocator(f->ctx), NULL, &f->hooks, false, &list, &count, f->message), ESPALIER_OK);
    assert_int_equal(count, 0);
    esi_vulkan_list_free(esi_allocator(f->ctx), list);
}

static void choice(void **state)
{
    vulkan_fixture *f = *state;
    esi_vulkan_info *list;
    char part[8], text[400];
    size_t count;

    vulkan_need(f);
    assert_int_equal(esi_vulkan_list(esi_allocator(f->ctx), f->runtime->cpu->kernels, NULL, false, &list, &count, f->message), ESPALIER_OK);
    assert_true(count > 0);
    snprintf(part, sizeof part, "%.6s", list[0].name);
    for (char *p = part; *p; p++)
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    assert_int_equal(vulkan_open(f, part), ESPALIER_OK);
    assert_int_equal(vulkan_open(f, "vulkan:0"), ESPALIER_OK);
    assert_int_equal(vulkan_open(f, "vulkan:64"), ESPALIER_ERR_DEVICE);
    assert_int_equal(vulkan_open(f, "vulkan:0x"), ESPALIER_ERR_DEVICE);
    assert_int_equal(vulkan_open(f, "no such name"), ESPALIER_ERR_DEVICE);
    snprintf(text, sizeof text, "contains 'no such name'; there is vulkan:0 %s", list[0].name);
    assert_non_null(strstr(f->message, text));
    if (count == 1 && strcmp(list[0].type, "cpu") == 0) {   /* a software device is never taken by itself */
        assert_int_equal(vulkan_open(f, "auto"), ESPALIER_ERR_DEVICE);
        assert_non_null(strstr(f->message, "no discrete or integrated Vulkan device here; there is vulkan:0 "));
    }
    esi_vulkan_list_free(esi_allocator(f->ctx), list);
}

/* A software device, an integrated and a discrete one, as many laptops have them. */
static void three_devices(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    vulkan_fault.devices = 3;
    vulkan_fault.device[0].name = "Soft Pipe";
    vulkan_fault.device[0].type = VK_PHYSICAL_DEVICE_TYPE_CPU;
    vulkan_fault.device[1].name = "Little Graphics";
    vulkan_fault.device[1].type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    vulkan_fault.device[2].name = "Big Graphics";
    vulkan_fault.device[2].type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    assert_int_equal(vulkan_open(f, "auto"), ESPALIER_OK);
    assert_int_equal(strncmp(f->message, "vulkan:2 Big Graphics (discrete; ", 33), 0);
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
    assert_non_null(strstr(f->message, "vulkan:2 Big"));
    assert_int_equal(vulkan_open(f, "vulkan:1"), ESPALIER_OK);
    assert_non_null(strstr(f->message, "vulkan:1 Little Graphics (integrated; "));
    assert_int_equal(vulkan_open(f, "soft"), ESPALIER_OK);
    assert_non_null(strstr(f->message, "vulkan:0 Soft Pipe (cpu; "));
    assert_int_equal(vulkan_open(f, "graphics"), ESPALIER_OK);
    assert_non_null(strstr(f->message, "vulkan:2 "));
    assert_int_equal(vulkan_open(f, "vulkan:3"), ESPALIER_ERR_DEVICE);
    assert_string_equal(f->message, "there is no device 'vulkan:3'; "
                                    "there is vulkan:0 Soft Pipe, vulkan:1 Little Graphics, vulkan:2 Big Graphics");
    vulkan_fault.device[2].broken = true;                   /* auto goes on to the next, a name does not */
    assert_int_equal(vulkan_open(f, "auto"), ESPALIER_OK);
    assert_non_null(strstr(f->message, "vulkan:1 Little"));
    assert_int_equal(vulkan_open(f, "big"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "vulkan:2 Big Graphics cannot be used: opening the device: initialisation failed"));
    vulkan_fault.device[1].broken = true;
    assert_int_equal(vulkan_open(f, "auto"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "vulkan:1 Little Graphics cannot be used"));
}

/* Every way to an exact fma is right, or the device is refused with the reason. */
static void ways_to_an_fma(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    for (int fma = ESI_VULKAN_FMA_FUSED; fma <= ESI_VULKAN_FMA_INTEGER; fma++) {
        f->hooks.fma = (esi_vulkan_fma)fma;
        if (vulkan_open(f, "vulkan") == ESPALIER_OK) {
            vulkan_compare(f, 300, 4);
        } else {
            assert_int_not_equal(fma, ESI_VULKAN_FMA_INTEGER);
            if (fma == ESI_VULKAN_FMA_FUSED) assert_non_null(strstr(f->message, "it computes wrongly: fma"));
        }
    }
}

static void many_rows(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    vulkan_compare(f, (1 << 19) + 1, 1);
}

/* What a device may flush is computed where it is not. */
static void subnormal_factors(void **state)
{
    vulkan_fixture *f = *state;
    const float in[4] = {3e38f, -3e38f, 1.0f, 0.0f};
    float want[4], out[4];
    esi_backend *backends[2];
    float *results[2] = {want, out};

    vulkan_need(f);
    backends[0] = f->runtime->cpu;
    backends[1] = f->device;
    for (int i = 0; i < 2; i++) {
        esi_scope scope;
        esi_tensor x;
        f->ctx->backend = backends[i];
        scope = esi_scope_begin(f->ctx);
        assert_int_equal(esi_tensor_from(f->ctx, &x, 1, 4, ESI_F32, in), ESPALIER_OK);
        assert_int_equal(esi_scale(f->ctx, x, x, 1e-40f), ESPALIER_OK);
        assert_int_equal(esi_tensor_read(f->ctx, x, results[i]), ESPALIER_OK);
        esi_scope_end(f->ctx, scope);
    }
    assert_true(want[0] > 0.02f);
    assert_memory_equal(want, out, sizeof want);
}

/* Two jobs on one device at once; they share a weight, too. */
typedef struct job {
    pthread_t thread;
    espalier_context *ctx;
    int64_t rows;
    float *want, *got;
    bool same;
} job;

static void *run_job(void *arg)
{
    job *j = arg;

    j->same = true;
    for (int i = 0; i < 10 && j->same; i++)
        j->same = vulkan_work(j->ctx, j->rows, 4, j->got) == ESPALIER_OK && memcmp(j->want, j->got, (size_t)j->rows * 16) == 0;
    return NULL;
}

static void two_jobs(void **state)
{
    vulkan_fixture *f = *state;
    job jobs[2];

    vulkan_need(f);
    for (int i = 0; i < 2; i++) {
        job *j = &jobs[i];
        j->rows = 500 + 700 * i;
        j->want = malloc((size_t)j->rows * 16);
        j->got = malloc((size_t)j->rows * 16);
        assert_true(j->want && j->got);
        assert_int_equal(espalier_context_create(&j->ctx, f->runtime), ESPALIER_OK);
        assert_int_equal(vulkan_work(j->ctx, j->rows, 4, j->want), ESPALIER_OK);
        j->ctx->backend = f->device;
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(jobs[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(jobs[i].same);
        espalier_context_free(jobs[i].ctx);
        free(jobs[i].want);
        free(jobs[i].got);
    }
}

static void keep_line(void *user, espalier_log_level level, const char *line)
{
    snprintf(user, ESI_VULKAN_TEXT, "%d %s", (int)level, line);
}

/* The device as programs choose it. */
static void runtimes(void **state)
{
    vulkan_fixture *f = *state;
    espalier_runtime_options o = espalier_runtime_options_default();
    char line[ESI_VULKAN_TEXT] = "";
    espalier_runtime *runtime;
    espalier_context *ctx;

    vulkan_need(f);
    o.log = keep_line;
    o.log_user = line;
    o.device = "no such name";
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_ERR_DEVICE);
    assert_null(runtime);
    assert_non_null(strstr(line, "3 no Vulkan device's name contains 'no such name'"));
    o.struct_size = (uint32_t)offsetof(espalier_runtime_options, device);       /* a program that knows nothing of devices */
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    assert_string_equal(espalier_runtime_device(runtime), "cpu");
    espalier_runtime_free(runtime);
    o.struct_size = sizeof o;
    o.device = "vulkan:0";
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    assert_int_equal(strncmp(espalier_runtime_device(runtime), "vulkan:0 ", 9), 0);
    assert_int_equal(espalier_context_create(&ctx, runtime), ESPALIER_OK);
    assert_string_equal(ctx->backend->name, "vulkan");
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    o.device = "auto";
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    if (strcmp(espalier_runtime_device(runtime), "cpu") == 0) assert_non_null(strstr(line, "1 networks run on the CPU: "));
    espalier_runtime_free(runtime);
}

/* ------------------------------------------------------------------ SPIR-V */

enum {
    OP_DECORATE = 71, NO_CONTRACTION = 42, OP_FADD = 129, OP_FSUB = 131, OP_FMUL = 133, OP_FDIV = 136, EXECUTION_MODE = 16, CAPABILITY = 17
};

static bool is_decorated(const uint32_t *words, size_t n, uint32_t id)
{
    for (size_t i = 5; i < n; i += words[i] >> 16)
        if ((words[i] & 0xffffu) == OP_DECORATE && words[i + 1] == id && words[i + 2] == NO_CONTRACTION) return true;
    return false;
}

/* A driver may fuse or reorder what is not marked. */
static void arithmetic_is_not_contracted(void **state)
{
    size_t modules = 0;

    (void)state;
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++, modules++) {
        size_t n = m->bytes / 4, operations = 0;
        for (size_t i = 5; i < n; i += m->words[i] >> 16) {
            uint32_t op = m->words[i] & 0xffffu;
            if (op != OP_FADD && op != OP_FSUB && op != OP_FMUL && op != OP_FDIV) continue;
            operations++;
            if (!is_decorated(m->words, n, m->words[i + 2])) fail_msg("%s: operation %u at word %zu may be contracted", m->name, op, i);
        }
        assert_true(operations > 0);
    }
    assert_int_equal(modules, 3 * ESI_VK_SHADERS);
}

static void declarations(void **state)
{
    (void)state;
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++) {
        size_t n = m->bytes / 4;
        uint32_t *out = malloc((n + ESI_VK_DECLARED) * sizeof *out);
        size_t used, modes = 0, capabilities = 0;

        assert_non_null(out);
        assert_int_equal(esi_vk_declare(out, m->words, n, false, false), n);
        assert_memory_equal(out, m->words, m->bytes);
        used = esi_vk_declare(out, m->words, n, true, true);
        assert_int_equal(used, n + 12);
        for (size_t i = 5; i < used; i += out[i] >> 16) {
            modes += (out[i] & 0xffffu) == EXECUTION_MODE && (out[i + 2] == 4461 || out[i + 2] == 4462) && out[i + 3] == 32;
            capabilities += (out[i] & 0xffffu) == CAPABILITY && (out[i + 1] == 4466 || out[i + 1] == 4467);
        }
        assert_int_equal(modes, 2);
        assert_int_equal(capabilities, 2);
        assert_int_equal(esi_vk_declare(out, m->words, 6, true, true), 0);          /* an instruction that does not end */
        free(out);
    }
}

static int write_modules(const char *directory)
{
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++) {
        size_t n = m->bytes / 4;
        uint32_t *out = malloc((n + ESI_VK_DECLARED) * sizeof *out);
        char path[1024];
        FILE *file;

        snprintf(path, sizeof path, "%s/%s.spv", directory, m->name);
        file = fopen(path, "wb");
        if (!out || !file) return 1;
        n = esi_vk_declare(out, m->words, n, true, true);
        if (fwrite(out, sizeof *out, n, file) != n || fclose(file) != 0) return 1;
        free(out);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        VULKAN_TEST(missing_library),
        VULKAN_TEST(loader_without_device),
        VULKAN_TEST(choice),
        VULKAN_TEST(three_devices),
        VULKAN_TEST(ways_to_an_fma),
        VULKAN_TEST(many_rows),
        VULKAN_TEST(subnormal_factors),
        VULKAN_TEST(two_jobs),
        VULKAN_TEST(runtimes),
        cmocka_unit_test(arithmetic_is_not_contracted),
        cmocka_unit_test(declarations),
    };

    if (argc == 3 && strcmp(argv[1], "--modules") == 0) return write_modules(argv[2]);
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
