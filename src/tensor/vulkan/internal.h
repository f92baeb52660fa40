/* SPDX-License-Identifier: MIT
 *
 * internal.h: what the files of the Vulkan backend share.
 *
 * One device, one queue, one stream of commands for all contexts of the runtime, guarded by one lock: an op is recorded in the order of the
 * calls with a barrier in front, so that memory of a freed tensor may be given to a later op at once. Commands are sent off in pieces of
 * bounded length (submit.c). A tensor lies on the device, on the host or on both (tensors.c), so that an op that the device lacks runs on
 * the CPU and only what changes sides is copied.
 */
#ifndef ESI_VULKAN_INTERNAL_H
#define ESI_VULKAN_INTERNAL_H

#include "tensor/backend.h"
#include "tensor/vulkan/vulkan.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <pthread.h>

/* ------------------------------------------------------------------ loader */

#define ESI_VK_GLOBAL(X) X(CreateInstance) X(EnumerateInstanceExtensionProperties) X(EnumerateInstanceLayerProperties)
#define ESI_VK_INSTANCE(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties) \
    X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define ESI_VK_DEVICE(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(CreateFence) X(DestroyFence) X(ResetFences) X(WaitForFences) \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(BindBufferMemory) \
    X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateDescriptorSetLayout) \
    X(DestroyDescriptorSetLayout) X(CreateComputePipelines) X(DestroyPipeline) X(CreateDescriptorPool) X(DestroyDescriptorPool) \
    X(ResetDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets) X(CreateCommandPool) X(DestroyCommandPool) \
    X(ResetCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) X(CmdBindDescriptorSets) \
    X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CreateQueryPool) X(DestroyQueryPool) \
    X(CmdResetQueryPool) X(CmdWriteTimestamp) X(GetQueryPoolResults)

typedef struct esi_vk_api {
#define X(name) PFN_vk##name name;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    ESI_VK_GLOBAL(X)
    ESI_VK_INSTANCE(X)
    ESI_VK_DEVICE(X)
#undef X
} esi_vk_api;

typedef struct esi_vk_instance {
    void *library;
    VkInstance handle;
    esi_vk_api api;                         /* without the device's functions */
    VkDebugUtilsMessengerEXT messenger;
    esi_vulkan_hooks hooks;
} esi_vk_instance;                          /* must stay where it is: the validation layer has its address */

/* All or nothing; false with the reason in `message`. */
bool esi_vk_instance_open(esi_vk_instance *instance, const esi_vulkan_hooks *hooks, char *message);
void esi_vk_instance_close(esi_vk_instance *instance);
bool esi_vk_load_device(esi_vk_instance *instance, esi_vk_api *api, VkDevice device);
const char *esi_vk_result_name(VkResult result);

/* ----------------------------------------------------------------- shaders */

/* Made by embed.cmake from shaders/: "<shader>_<fma>" and its SPIR-V. A NULL name ends the list. */
typedef struct esi_vk_module {
    const char *name;
    const uint32_t *words;
    size_t bytes;
} esi_vk_module;
extern const esi_vk_module esi_vk_modules[];

typedef enum esi_vk_shader {
    ESI_VK_PROBE, ESI_VK_ELEMENTWISE, ESI_VK_MOVE, ESI_VK_NORM, ESI_VK_ROPE, ESI_VK_TABLE, ESI_VK_MATMUL, ESI_VK_PEAK,
    ESI_VK_ATTENTION, ESI_VK_ATTENTION_SMALL, ESI_VK_STATISTICS, ESI_VK_SHADERS
} esi_vk_shader;
/* KIND of move.comp. */
typedef enum esi_vk_move {
    ESI_VK_GATHER, ESI_VK_SCATTER, ESI_VK_REPEAT, ESI_VK_ADD_REPEAT, ESI_VK_MEAN_COLS, ESI_VK_TRANSPOSE_COLS, ESI_VK_TRANSPOSE
} esi_vk_move;

/* What a workgroup of matmul.comp computes, and an invocation of it; k per block. */
typedef struct esi_vk_tile { uint32_t rows, cols, own_rows, own_cols, depth; } esi_vk_tile;

#define ESI_VK_BINDINGS 8
/* The push constants of common.glsl. */
typedef struct esi_vk_push {
    uint32_t rows, cols;
    struct { uint32_t offset, stride; } at[ESI_VK_BINDINGS];
    uint32_t n[6];
    float f[2];
} esi_vk_push;

/* One module with what the device can promise about fp32 declared in it: words of `out` (room for `in` and ESI_VK_DECLARED more) used. */
#define ESI_VK_DECLARED 16
size_t esi_vk_declare(uint32_t *out, const uint32_t *in, size_t words, bool signed_zero_inf_nan, bool round_to_even);

/* ------------------------------------------------------------------ device */

typedef struct esi_vk_range {
    struct esi_vk_block *block;             /* NULL = nothing */
    uint64_t offset, size;
    struct esi_vk_range *prev, *next;       /* in the block, by offset */
} esi_vk_range;

typedef struct esi_vk_block {
    struct esi_vk_block *next;
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t size;
    esi_vk_range *first;
} esi_vk_block;

/* A part of a weight that lies on the device (weights.c). */
typedef struct esi_vk_piece {
    esi_vk_range range;
    bool filled;
    uint64_t used;                          /* d->calls when it was used last */
    struct esi_vk_piece *older, *newer;
} esi_vk_piece;

#define ESI_VK_SLOTS 3
#define ESI_VK_SETS 256                     /* dispatches per submission at most */
#define ESI_VK_STAGING (UINT64_C(4) << 20)  /* bytes at most */
#define ESI_VK_PIPELINES 256

/* One submission in the making or on its way. */
typedef struct esi_vk_slot {
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkDescriptorPool descriptors;
    VkQueryPool times;
    VkBuffer staging;
    VkDeviceMemory staging_memory;
    uint8_t *mapped;
    uint64_t staged;                        /* bytes of staging in use */
    uint32_t sets;
    double expected;                        /* nanoseconds, and how much of it each pipeline */
    double expected_of[ESI_VK_PIPELINES];
    double sent;                            /* when, by esi_now() */
    bool recording, running;
    char what[64];                          /* the last op in it, for messages */
} esi_vk_slot;

typedef struct esi_vk_pipeline {
    esi_vk_shader shader;
    int32_t kind, act;
    VkPipeline handle;
    double cost;                            /* nanoseconds for a unit of work, as far as known (submit.c) */
} esi_vk_pipeline;

/* Does a pipeline compute rightly? (trial.c) */
typedef enum esi_vk_trust { ESI_VK_UNTRIED, ESI_VK_GOOD, ESI_VK_WRONG } esi_vk_trust;
typedef struct esi_vk_trial {
    esi_vk_shader shader;
    int32_t kind, act;
    esi_vk_trust verdict;
} esi_vk_trial;

typedef struct esi_vk_device {
    esi_backend backend;                    /* first: the backend is the device */
    espalier_allocator allocator;
    esi_vk_instance instance;
    esi_vk_api vk;
    VkPhysicalDevice physical;
    VkDevice handle;
    VkQueue queue;
    uint32_t family;
    esi_vulkan_info info;
    VkPhysicalDeviceMemoryProperties memory_types;
    uint32_t host_memory;                   /* type of memory for transfers */
    uint32_t memory_order[VK_MAX_MEMORY_TYPES], n_memory_order;         /* types of memory for tensors: the device's own first */
    bool spilled;                           /* some of it lies in other memory: logged */
    uint64_t alignment;                     /* of storage buffer bindings */
    uint32_t max_groups;                    /* in one dimension */
    float timestamp_period;                 /* nanoseconds; 0 = no timestamps */
    bool memory_budget;                     /* VK_EXT_memory_budget */
    uint64_t fence_timeout;

    pthread_mutex_t lock;
    bool has_lock, lost;
    esi_vk_block *blocks;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkShaderModule modules[ESI_VK_SHADERS];
    esi_vk_pipeline pipelines[ESI_VK_PIPELINES];
    size_t n_pipelines;
    esi_vk_trial trials[ESI_VK_PIPELINES];
    size_t n_trials;
    pthread_mutex_t trial_lock;             /* one at a time; taken before `lock` */
    bool has_trial_lock, trying;
    pthread_t trying_thread;
    esi_vk_slot slots[ESI_VK_SLOTS];
    size_t slot;                            /* the one being recorded */
    uint64_t staging;                       /* bytes of each slot's */
    double last_answer;                     /* when a submission was last seen to have ended */
    esi_vk_piece *oldest, *newest;          /* of the weights that are on the device, by use */
    uint64_t weight_bytes, calls;           /* bytes of these; calls of esi_vk_run() so far: what one uses must not go before its end */
    uint64_t said;                          /* ops whose move to the CPU was logged, a bit each */
} esi_vk_device;

static inline esi_vk_device *esi_vk_of(const espalier_context *ctx) { return (esi_vk_device *)(void *)ctx->backend; }
static inline void esi_vk_lock(esi_vk_device *d) { pthread_mutex_lock(&d->lock); }
static inline void esi_vk_unlock(esi_vk_device *d) { pthread_mutex_unlock(&d->lock); }

/* ctx may be NULL while the device is being made; then the text goes nowhere but `d->info.reason`. Always ESPALIER_ERR_DEVICE. */
espalier_status esi_vk_fail(espalier_context *ctx, esi_vk_device *d, const char *format, ...) ESI_PRINTF(3, 4);
/* The host's memory is used up: ESPALIER_ERR_RESOURCE. */
espalier_status esi_vk_fail_memory(espalier_context *ctx, esi_vk_device *d, const char *what);
/* The same for a Vulkan result; remembers that the device is lost. */
espalier_status esi_vk_fail_result(espalier_context *ctx, esi_vk_device *d, const char *what, VkResult result);

/* ------------------------------------------------------------------ memory */

/* `what` is for messages. Never larger than the device's largest allocation: ask esi_vk_fits() before. */
bool esi_vk_fits(const esi_vk_device *d, uint64_t bytes);
espalier_status esi_vk_range_new(espalier_context *ctx, esi_vk_device *d, esi_vk_range *r, uint64_t bytes, const char *what);
uint64_t esi_vk_largest(const esi_vk_device *d);                       /* the size of the largest range */
void esi_vk_range_free(esi_vk_device *d, esi_vk_range *r);              /* at once: later commands come after earlier ones */
void esi_vk_memory_close(esi_vk_device *d, bool on_device);             /* false: what the host holds for it alone */
/* A mapped buffer for staging. */
espalier_status esi_vk_staging_new(esi_vk_device *d, esi_vk_slot *slot);

/* ------------------------------------------------------------------ submit */

espalier_status esi_vk_slots_open(esi_vk_device *d);
void esi_vk_slots_close(esi_vk_device *d);
bool esi_vk_slots_idle(esi_vk_device *d);                              /* waits; false: no answer in time */
/* Host bytes to a range and back; offset and size in bytes, multiples of 4. Download waits. */
espalier_status esi_vk_upload(espalier_context *ctx, esi_vk_device *d, const esi_vk_range *r, uint64_t offset, const void *data,
                              uint64_t size);
espalier_status esi_vk_download(espalier_context *ctx, esi_vk_device *d, const esi_vk_range *r, uint64_t offset, void *data, uint64_t size);
/* Send what was recorded and wait until all is done. */
espalier_status esi_vk_finish(espalier_context *ctx, esi_vk_device *d);

/* Units of work (elements, multiply-adds: what an op counts) that a pipeline does in a submission of the wanted length; lock held. */
uint64_t esi_vk_work_limit(const esi_vk_device *d, esi_vk_shader shader, int32_t kind, int32_t act);
double esi_vk_cost_first(const esi_vk_device *d);

typedef struct esi_vk_binding {
    const esi_vk_range *range;              /* NULL = unused */
    uint64_t offset, size;                  /* bytes in the range */
} esi_vk_binding;

/* Records `groups` workgroups. bindings[i].offset is in bytes; the push constant at[i].offset is set here. */
espalier_status esi_vk_dispatch(espalier_context *ctx, esi_vk_device *d, const char *what, esi_vk_shader shader, int32_t kind, int32_t act,
                                const esi_vk_binding bindings[ESI_VK_BINDINGS], esi_vk_push *push, uint64_t groups, uint64_t work);

/* --------------------------------------------------------------- pipelines */

espalier_status esi_vk_pipelines_open(esi_vk_device *d);
void esi_vk_pipelines_close(esi_vk_device *d);
uint32_t esi_vk_workgroup(const esi_vk_device *d);
espalier_status esi_vk_pipeline_get(espalier_context *ctx, esi_vk_device *d, esi_vk_pipeline **out, esi_vk_shader shader, int32_t kind,
                                    int32_t act);

/* --------------------------------------------------------------- self-test */

/* Chooses d->info.fma and checks the arithmetic; ESPALIER_ERR_DEVICE with the reason in d->info.reason. */
espalier_status esi_vk_self_test(esi_vk_device *d, esi_vulkan_fma forced);

/* Before a pipeline is used, without the lock. ESI_VK_UNTRIED: it could not be found out, for want of memory or because the device is
 * lost. */
esi_vk_trust esi_vk_try(espalier_context *ctx, esi_vk_device *d, const char *what, esi_vk_shader shader, int32_t kind, int32_t act);

/* ----------------------------------------------------------------- tensors */

/* Where a tensor's numbers are; esi_buffer.device. */
typedef struct esi_vk_weight esi_vk_weight;
typedef struct esi_vk_tensor {
    esi_vk_weight *weight;                  /* of weights alone; then the rest is unused */
    esi_vk_range only, *parts;              /* cut between rows where one allocation cannot hold it; parts = &only where it can */
    size_t n_parts;                         /* 0: no row fits an allocation; such a tensor never lies on the device */
    uint64_t part_bytes;                    /* of each part but the last */
    bool on_device, on_host;                /* which copies are right; neither: not written yet */
    uint64_t charged;                       /* bytes of device memory on the job's account */
} esi_vk_tensor;

espalier_status esi_vk_buffer_new(espalier_context *ctx, struct esi_buffer *b);
void esi_vk_buffer_free(espalier_context *ctx, struct esi_buffer *b);
espalier_status esi_vk_write(espalier_context *ctx, esi_tensor t, const void *data);
espalier_status esi_vk_read(espalier_context *ctx, esi_tensor t, void *data);
espalier_status esi_vk_wait(espalier_context *ctx);

/* Can this tensor be an operand on the device? A weight as a vector; not a view that has a row in two parts of its tensor. */
bool esi_vk_placeable(const esi_vk_device *d, esi_tensor t);
/* With the lock held. Input: the numbers are on the device afterwards. Output: the same for what the op does not overwrite, and only the
 * device's copy is right from now on. */
espalier_status esi_vk_input(espalier_context *ctx, esi_vk_device *d, esi_tensor t);
espalier_status esi_vk_output(espalier_context *ctx, esi_vk_device *d, esi_tensor t);
/* Where element (0, 0) lies in the device's copy: the range, and bytes in it; weights: as vectors. A tensor may lie in several ranges: what
 * is bound must not be larger than esi_vk_rows_bound() says. */
uint64_t esi_vk_offset(esi_tensor t);
const esi_vk_range *esi_vk_range_of(esi_tensor t);
/* Bytes from there to the end of the range. */
uint64_t esi_vk_bytes_after(esi_tensor t);
/* Before an op runs on the CPU, without the lock: operands to the host; the last `outputs` of them will be written. Logs once per op. */
espalier_status esi_vk_to_host(espalier_context *ctx, const char *op, int number, const esi_tensor *operands, size_t n, size_t outputs);

/* ----------------------------------------------------------------- weights */

espalier_status esi_vk_weight_new(espalier_context *ctx, struct esi_buffer *b);
/* The rest is called with the lock held. */
void esi_vk_weight_free(esi_vk_device *d, struct esi_buffer *b);
/* Weights that were not used for the longest time leave the device until `bytes` of them are gone; false when none may go. */
bool esi_vk_weights_evict(esi_vk_device *d, uint64_t bytes);

/* A vector, as fp32. */
bool esi_vk_vector_placeable(const esi_vk_device *d, esi_tensor t);
espalier_status esi_vk_vector_input(espalier_context *ctx, esi_vk_device *d, esi_tensor t);
const esi_vk_range *esi_vk_vector_range(esi_tensor t);
uint64_t esi_vk_vector_offset(esi_tensor t);

/* A matrix, as stored. How many rows of the view, from its first on, lie in one piece; 0 = not even its first. All else is for views of so
 * many rows at most. */
int64_t esi_vk_matrix_rows(const esi_vk_device *d, esi_tensor t);
/* Is there memory for it? Without an error. */
bool esi_vk_matrix_reserve(esi_vk_device *d, esi_tensor t);
espalier_status esi_vk_matrix_input(espalier_context *ctx, esi_vk_device *d, esi_tensor t);
/* Where it lies: a binding from a whole word on; how: bit 0 says that its first element begins 16 bits later; its type is in the others. */
void esi_vk_matrix_bind(esi_tensor t, esi_vk_binding *binding, uint32_t *how);
/* Are all numbers of the whole weight finite? */
bool esi_vk_matrix_is_finite(esi_tensor t);

/* ----------------------------------------------------------------- cutting */

/* How an operand follows the rows of a call. */
typedef enum esi_vk_cut {
    ESI_VK_NONE,                            /* a vector, bound whole */
    ESI_VK_ROWS,                            /* row by row */
    ESI_VK_COLS,                            /* a column for each row */
    ESI_VK_WINDOW,                          /* rows named by an index: the call is repeated for parts of it */
    ESI_VK_WHOLE,                           /* a matrix, bound whole */
    ESI_VK_WEIGHT                           /* a matrix of weights as stored (weights.c), bound whole; n[5]: esi_vk_matrix_bind */
} esi_vk_cut;

typedef struct esi_vk_operand {
    esi_tensor t;
    esi_vk_cut cut;
    bool output;
} esi_vk_operand;

/* An op on the device, every element of whose result depends on its own row (and on operands that are bound whole) alone. */
typedef struct esi_vk_call {
    const char *what;
    esi_vk_shader shader;
    int32_t kind, act;
    esi_vk_operand operands[ESI_VK_BINDINGS];
    esi_vk_push push;                       /* cols, n, f */
    int64_t rows, work;                     /* of the call; elements per row */
    uint32_t lanes;                         /* invocations that share an item: 1, or 16 for row sums */
    int64_t items;                          /* per row; 0 = push.cols */
    esi_vk_tile tile;                       /* of y for each workgroup; rows = 0: items are shared out to invocations one by one */
} esi_vk_call;

/* Elements that one binding can hold; rows of t, from its first on, that one can, 0 when not even one. */
int64_t esi_vk_elements_bound(const esi_vk_device *d);
int64_t esi_vk_rows_bound(const esi_vk_device *d, esi_tensor t);
/* Limits allow it, and its pipeline computes rightly: at its first use that is tried. */
bool esi_vk_can_run(const esi_vk_device *d, const esi_vk_call *c);
/* Operands to the device, the work recorded; takes the lock. */
espalier_status esi_vk_run(espalier_context *ctx, esi_vk_device *d, const esi_vk_call *c);

/* --------------------------------------------------------------------- ops */

/* Numbers of ops that can run on the CPU, for esi_vk_to_host(). */
enum {
    OP_LINEAR, OP_CONV, OP_ATTENTION, OP_LAYER_NORM, OP_GROUP_NORM, OP_RMS_NORM_HEADS, OP_ROPE, OP_ELEMENTWISE, OP_COPY, OP_GATHER_ROWS,
    OP_SCATTER_ROWS, OP_REPEAT_COLS, OP_MEAN_COLS, OP_TRANSPOSE_COLS, OP_TRANSPOSE, OP_POOL_ROWS, OP_WEIGHTED_GATHER, OP_MEAN_ROWS,
    OP_ROW_SUMS, OP_COUNT_NONFINITE
};
#define TO_HOST(op, number, outputs, ...) \
    esi_vk_to_host(ctx, op, number, (const esi_tensor[]){__VA_ARGS__}, sizeof((const esi_tensor[]){__VA_ARGS__}) / sizeof(esi_tensor), \
                   outputs)

/* ops.c; the others are called by it. */
void esi_vk_set_ops(esi_backend *b);
/* ops_product.c */
esi_vk_tile esi_vk_product_tile(const esi_vk_device *d, int32_t kind);
espalier_status esi_vk_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e);
espalier_status esi_vk_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                            const esi_epilogue *e);
/* ops_attention.c */
espalier_status esi_vk_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                 const esi_attention_args *a);
/* ops_statistics.c */
espalier_status esi_vk_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a);
espalier_status esi_vk_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x);
espalier_status esi_vk_row_sums(espalier_context *ctx, esi_tensor x, float *sum, float *sum_of_squares);
espalier_status esi_vk_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count);

#endif
