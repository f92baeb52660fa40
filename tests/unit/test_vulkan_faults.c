/* SPDX-License-Identifier: MIT
 *
 * test_vulkan_faults.c: a device that gets lost, does not answer, cannot compile, computes wrongly, or has less than others; and that the
 * validation layer has nothing to say, neither then nor otherwise.
 */
#include "vulkan_fixture.h"

static void lost(vulkan_fixture *f, vulkan_function at, VkResult result, const char *text)
{
    float out[400];
    bool done = false;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    for (int n = 1; !done; n += n) {
        espalier_status st;
        vulkan_fault.failing = NO_FUNCTION;
        assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
        vulkan_fault.failing = at;
        vulkan_fault.result = result;
        vulkan_fault.calls = 0;
        vulkan_fault.from = n;
        st = vulkan_work(f->ctx, 100, 4, out);
        done = vulkan_fault.calls < n;
        vulkan_fault.from = 0;
        if (done) break;
        assert_int_equal(st, ESPALIER_ERR_DEVICE);
        if (!strstr(espalier_error_message(f->ctx), text)) fail_msg("%s", espalier_error_message(f->ctx));
        esi_clear_error(f->ctx);
        assert_int_equal(vulkan_work(f->ctx, 100, 4, out), ESPALIER_ERR_DEVICE);     /* once lost, always lost */
        assert_non_null(strstr(espalier_error_message(f->ctx), "lost before"));
        esi_clear_error(f->ctx);
        assert_int_equal(esi_backend_wait(f->ctx), ESPALIER_ERR_DEVICE);
        esi_clear_error(f->ctx);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    }
    vulkan_fault.from = 1;                           /* while the device is being opened */
    vulkan_fault.calls = 0;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, esi_vk_result_name(result)));
}

static void lost_at_submit(void **state) { lost(*state, AT_SUBMIT, VK_ERROR_DEVICE_LOST, "device lost"); }
static void no_answer(void **state) { lost(*state, AT_WAIT, VK_TIMEOUT, "no answer in time"); }

static void cancelled(void **state)
{
    vulkan_fixture *f = *state;
    float out[400];

    vulkan_need(f);
    espalier_context_cancel(f->ctx);
    assert_int_equal(vulkan_work(f->ctx, 100, 4, out), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(f->ctx);
    esi_clear_error(f->ctx);
    vulkan_compare(f, 100, 4);
}

/* An op that computes wrongly is found out at its first use and runs on the CPU. */
static void wrong_ops(void **state)
{
    static const char *const ops[] = {"layer_norm", "linear", "scatter_rows", "transpose", "elementwise"};
    vulkan_fixture *f = *state;
    char text[128];

    vulkan_need(f);
    for (size_t i = 0; i < ESI_COUNT(ops); i++) {
        f->hooks.spoil = ops[i];
        assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
        f->log[0] = 0;
        vulkan_compare(f, 100, 4);
        snprintf(text, sizeof text, "computes wrongly: such ops run on the CPU (%s ", ops[i]);
        assert_non_null(strstr(f->log, text));
        snprintf(text, sizeof text, "1 %s runs on the CPU", ops[i]);
        assert_non_null(strstr(f->log, text));
    }
    f->hooks.spoil = "axpby";                        /* of the test when a device is opened */
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "cannot be used: it computes wrongly: axpby"));
}

/* What a driver cannot compile runs on the CPU. */
static void failing_compiler(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
    vulkan_fault.failing = AT_PIPELINE;
    vulkan_fault.result = VK_ERROR_INITIALIZATION_FAILED;
    vulkan_fault.from = 2;
    vulkan_fault.to = 4;
    vulkan_compare(f, 100, 4);
    assert_non_null(strstr(f->log, "initialisation failed: such ops run on the CPU"));
    vulkan_fault.calls = 0;
    vulkan_fault.from = 1;
    vulkan_fault.to = 0;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "compiling probe: initialisation failed"));
}

/* ----------------------------------------------------------- lesser devices */

static void few_bindings(VkPhysicalDeviceLimits *l) { l->maxPerStageDescriptorStorageBuffers = 4; }
static void few_invocations(VkPhysicalDeviceLimits *l) { l->maxComputeWorkGroupInvocations = 64; }
static void little_shared_memory(VkPhysicalDeviceLimits *l) { l->maxComputeSharedMemorySize = 8192; }
static void small_workgroups(VkPhysicalDeviceLimits *l)
{
    l->maxComputeWorkGroupInvocations = l->maxComputeWorkGroupSize[0] = 128;
    l->maxComputeSharedMemorySize = 16384;
    l->maxComputeWorkGroupCount[0] = l->maxComputeWorkGroupCount[1] = 100;
    l->maxStorageBufferRange = 1 << 27;
}

static void not_coherent(VkPhysicalDeviceMemoryProperties *m)
{
    for (uint32_t i = 0; i < m->memoryTypeCount; i++)
        m->memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

static void lesser_devices(void **state)
{
    static const struct { void (*limits)(VkPhysicalDeviceLimits *); const char *text; } refused[] = {
        {few_bindings, "it has at most 4 storage buffers in a shader, 8 are needed"},
        {few_invocations, "it has at most 64 invocations in a workgroup, 128 are needed"},
        {little_shared_memory, "it has at most 8192 bytes of shared memory, 16384 are needed"}};
    vulkan_fixture *f = *state;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    for (size_t i = 0; i < ESI_COUNT(refused); i++) {
        vulkan_fault.limits = refused[i].limits;
        assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
        if (!strstr(f->message, refused[i].text)) fail_msg("%s", f->message);
    }
    vulkan_fault.limits = NULL;
    vulkan_fault.memory = not_coherent;              /* no such device may exist */
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "it has no memory that we can use"));
    vulkan_fault.memory = NULL;
    vulkan_fault.limits = small_workgroups;
    vulkan_fault.no_fp64 = vulkan_fault.no_storage16 = vulkan_fault.no_timestamps = true;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
    assert_null(strstr(f->message, "fma fp64"));
    vulkan_compare(f, 3000, 4);
}

/* --------------------------------------------------------------- validation */

static void count_message(void *user, const char *message)
{
    if (!vulkan_fault.no_barriers) print_message("%s\n", message);
    ++*(int *)user;
}

static void need_validation(vulkan_fixture *f, int *messages)
{
    vulkan_need(f);
    f->hooks.validation = count_message;
    f->hooks.validation_user = messages;
    if (vulkan_open(f, "vulkan") == ESPALIER_OK) return;
    if (!strstr(f->message, "layer not present")) fail_msg("%s", f->message);
    print_message("SKIPPED: the Khronos validation layer is not installed\n");
    skip();
}

/* Synchronisation included. */
static void validation_layer_is_silent(void **state)
{
    vulkan_fixture *f = *state;
    int messages = 0;

    f->hooks.max_range = 65536;
    f->hooks.max_allocation = 1 << 20;
    need_validation(f, &messages);
    vulkan_compare(f, 70000, 4);
    vulkan_close(f);
    assert_int_equal(messages, 0);
    vulkan_fault.no_barriers = true;                 /* the layer is there: it misses a barrier */
    f->hooks.patch = vulkan_patch;
    vulkan_open(f, "vulkan");
    vulkan_close(f);
    assert_true(messages > 0);
}

static void validation_of_failures(void **state)
{
    static const struct { vulkan_function at; VkResult result; int from; } faults[] = {
        {AT_SUBMIT, VK_ERROR_DEVICE_LOST, 2}, {AT_SUBMIT, VK_ERROR_OUT_OF_HOST_MEMORY, 3}, {AT_ALLOCATE, VK_ERROR_OUT_OF_DEVICE_MEMORY, 1},
        {AT_WAIT, VK_ERROR_DEVICE_LOST, 4}, {AT_PIPELINE, VK_ERROR_OUT_OF_DEVICE_MEMORY, 3}};
    vulkan_fixture *f = *state;
    float *out = malloc(20000 * 4 * sizeof *out);
    int messages = 0;

    assert_non_null(out);
    need_validation(f, &messages);
    f->hooks.patch = vulkan_patch;
    f->hooks.max_allocation = 65536;
    for (size_t i = 0; i < ESI_COUNT(faults); i++) {
        vulkan_fault.from = 0;
        assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
        vulkan_fault.failing = faults[i].at;
        vulkan_fault.result = faults[i].result;
        vulkan_fault.from = faults[i].from;
        vulkan_fault.calls = 0;
        vulkan_work(f->ctx, 20000, 4, out);
        assert_true(vulkan_fault.calls >= faults[i].from);
        esi_clear_error(f->ctx);
        vulkan_close(f);
        assert_int_equal(messages, 0);
    }
    free(out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        VULKAN_TEST(lost_at_submit),
        VULKAN_TEST(no_answer),
        VULKAN_TEST(cancelled),
        VULKAN_TEST(wrong_ops),
        VULKAN_TEST(failing_compiler),
        VULKAN_TEST(lesser_devices),
        VULKAN_TEST(validation_layer_is_silent),
        VULKAN_TEST(validation_of_failures),
    };

    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
