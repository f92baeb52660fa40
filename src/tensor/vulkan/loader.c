/* SPDX-License-Identifier: MIT
 *
 * loader.c: libvulkan at run time, an instance, and the table of functions. A machine without the library, or with one that finds no
 * driver, has no Vulkan: that is a reason in a message, never a failure to start.
 */
#include "tensor/vulkan/internal.h"

#include <stdio.h>

const char *esi_vk_result_name(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED: return "initialisation failed";
    case VK_ERROR_DEVICE_LOST: return "device lost";
    case VK_ERROR_MEMORY_MAP_FAILED: return "cannot map memory";
    case VK_ERROR_LAYER_NOT_PRESENT: return "layer not present";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "extension not present";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "feature not present";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no driver";
    case VK_ERROR_TOO_MANY_OBJECTS: return "too many objects";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "out of pool memory";
    case VK_TIMEOUT: return "no answer in time";
    default: return "driver error";
    }
}

static void *open_library(const char *name)
{
#if defined(__APPLE__)
    static const char *const names[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib", "/opt/homebrew/lib/libvulkan.1.dylib",
                                        "/opt/homebrew/lib/libMoltenVK.dylib", "/usr/local/lib/libvulkan.1.dylib"};
#else
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
    void *library = NULL;

    if (name) return esi_library_open(name);
    for (size_t i = 0; i < ESI_COUNT(names) && !library; i++) library = esi_library_open(names[i]);
    return library;
}

/* Function pointers of all kinds have one size in Vulkan's world; memcpy spares the casts. */
#define LOAD(table, name, get) \
    do { \
        PFN_vkVoidFunction function = get; \
        memcpy(&(table)->name, &function, sizeof function); \
        if (!function) missing = "vk" #name; \
    } while (0)

static const char *load_global(esi_vk_api *api)
{
    const char *missing = NULL;
#define X(name) LOAD(api, name, api->GetInstanceProcAddr(NULL, "vk" #name));
    ESI_VK_GLOBAL(X)
#undef X
    return missing;
}

static const char *load_instance(esi_vk_api *api, VkInstance instance)
{
    const char *missing = NULL;
#define X(name) LOAD(api, name, api->GetInstanceProcAddr(instance, "vk" #name));
    ESI_VK_INSTANCE(X)
#undef X
    return missing;
}

bool esi_vk_load_device(esi_vk_instance *instance, esi_vk_api *api, VkDevice device)
{
    const char *missing = NULL;

    *api = instance->api;
#define X(name) LOAD(api, name, api->GetDeviceProcAddr(device, "vk" #name));
    ESI_VK_DEVICE(X)
#undef X
    if (instance->hooks.patch) instance->hooks.patch(api);
    return missing == NULL;
}

static bool has_instance_extension(const esi_vk_api *api, const char *layer, const char *name)
{
    VkExtensionProperties list[256];
    uint32_t n = ESI_COUNT(list);
    VkResult r = api->EnumerateInstanceExtensionProperties(layer, &n, list);

    if (r != VK_SUCCESS && r != VK_INCOMPLETE) return false;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].extensionName, name) == 0) return true;
    return false;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    const esi_vulkan_hooks *hooks = user;

    (void)severity;
    (void)types;
    hooks->validation(hooks->validation_user, data->pMessage);
    return VK_FALSE;
}

static void open_messenger(esi_vk_instance *in, const VkDebugUtilsMessengerCreateInfoEXT *info)
{
    PFN_vkVoidFunction function = in->api.GetInstanceProcAddr(in->handle, "vkCreateDebugUtilsMessengerEXT");
    PFN_vkCreateDebugUtilsMessengerEXT create;

    memcpy(&create, &function, sizeof create);
    if (create) create(in->handle, info, NULL, &in->messenger);
}

/* VK_EXT_layer_settings, which older headers lack. MoltenVK takes its settings through it, and one matters: shaders are to be compiled
 * without Metal's fast math, which MoltenVK applies to all of them unless told otherwise. Other drivers ignore it. */
#define LAYER_SETTINGS "VK_EXT_layer_settings"
typedef struct layer_setting {
    const char *layer, *name;
    int32_t type;                           /* 1: int32_t */
    uint32_t count;
    const void *values;
} layer_setting;
typedef struct layer_settings {
    VkStructureType sType;
    const void *pNext;
    uint32_t count;
    const layer_setting *settings;
} layer_settings;
#define STRUCTURE_LAYER_SETTINGS ((VkStructureType)1000496000)

static VkResult create_instance(esi_vk_instance *in)
{
    static const int32_t never = 0;
    static const layer_setting setting = {"MoltenVK", "MVK_CONFIG_FAST_MATH_ENABLED", 1, 1, &never};
    const layer_settings settings = {STRUCTURE_LAYER_SETTINGS, NULL, 1, &setting};
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    static const VkValidationFeatureEnableEXT checks[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const char *extensions[4];
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "espalier",
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application,
                                 .ppEnabledExtensionNames = extensions};
    VkValidationFeaturesEXT validation = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, .enabledValidationFeatureCount = 1,
                                          .pEnabledValidationFeatures = checks};
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message};
    VkResult r;

    if (has_instance_extension(&in->api, NULL, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions[info.enabledExtensionCount++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }
    if (has_instance_extension(&in->api, NULL, LAYER_SETTINGS)) {
        extensions[info.enabledExtensionCount++] = LAYER_SETTINGS;
        info.pNext = messenger.pNext = &settings;
    }
    if (in->hooks.validation) {
        messenger.pUserData = &in->hooks;
        validation.pNext = &messenger;
        info.pNext = &validation;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        extensions[info.enabledExtensionCount++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
        if (has_instance_extension(&in->api, layer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME))
            extensions[info.enabledExtensionCount++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
    }
    r = in->api.CreateInstance(&info, NULL, &in->handle);
    if (r != VK_SUCCESS) in->handle = NULL;
    else if (in->hooks.validation) open_messenger(in, &messenger);
    return r;
}

bool esi_vk_instance_open(esi_vk_instance *in, const esi_vulkan_hooks *hooks, char *message)
{
    const char *missing;
    esi_function entry;
    VkResult r;

    memset(in, 0, sizeof *in);
    if (hooks) in->hooks = *hooks;
    in->library = open_library(in->hooks.library);
    if (!in->library) {
        snprintf(message, ESI_VULKAN_TEXT, "no Vulkan here: the library %s is not installed",
                 in->hooks.library ? in->hooks.library : "libvulkan");
        return false;
    }
    entry = esi_library_function(in->library, "vkGetInstanceProcAddr");
    memcpy(&in->api.GetInstanceProcAddr, &entry, sizeof entry);
    missing = entry ? load_global(&in->api) : "vkGetInstanceProcAddr";
    if (missing) {
        snprintf(message, ESI_VULKAN_TEXT, "no Vulkan here: its library lacks %s", missing);
        goto failed;
    }
    if (in->hooks.patch) in->hooks.patch(&in->api);
    r = create_instance(in);
    if (r != VK_SUCCESS) {
        snprintf(message, ESI_VULKAN_TEXT, "no Vulkan here: %s", esi_vk_result_name(r));
        goto failed;
    }
    missing = load_instance(&in->api, in->handle);
    if (missing) {
        snprintf(message, ESI_VULKAN_TEXT, "no Vulkan here: its library lacks %s (Vulkan 1.2 is needed)", missing);
        goto failed;
    }
    if (in->hooks.patch) in->hooks.patch(&in->api);
    return true;
failed:
    esi_vk_instance_close(in);
    return false;
}

void esi_vk_instance_close(esi_vk_instance *in)
{
    if (in->messenger) {
        PFN_vkVoidFunction function = in->api.GetInstanceProcAddr(in->handle, "vkDestroyDebugUtilsMessengerEXT");
        PFN_vkDestroyDebugUtilsMessengerEXT destroy;
        memcpy(&destroy, &function, sizeof destroy);
        if (destroy) destroy(in->handle, in->messenger, NULL);
    }
    if (in->handle && in->api.DestroyInstance) in->api.DestroyInstance(in->handle, NULL);
    esi_library_close(in->library);
    memset(in, 0, sizeof *in);
}
