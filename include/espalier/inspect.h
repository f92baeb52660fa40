/* SPDX-License-Identifier: MIT
 *
 * espalier/inspect.h: what a file or directory is.
 */
#ifndef ESPALIER_INSPECT_H
#define ESPALIER_INSPECT_H

#include <espalier/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Describe a picture, weight file, model directory, mesh or dump as a JSON object: "kind", sizes, dtypes, what is missing.
 * *json is NUL-terminated; release with espalier_text_free(). ERR_INPUT or ERR_MODEL when the thing is damaged or unknown. */
ESPALIER_API espalier_status espalier_inspect(espalier_context *ctx, const char *path, char **json);
/* The same as lines for people, free of control characters; release with espalier_text_free(). */
ESPALIER_API espalier_status espalier_inspect_text(espalier_context *ctx, const char *path, char **text);
/* Any JSON object of this library as such lines. ERR_ARG: no JSON object. */
ESPALIER_API espalier_status espalier_json_text(espalier_context *ctx, const char *json, char **text);
/* Compute devices of this machine as a JSON object: CPU levels and Vulkan devices, each of which is opened and runs a short test of its
 * arithmetic. Release with espalier_text_free(). */
ESPALIER_API espalier_status espalier_devices(espalier_context *ctx, char **json);
/* The Vulkan devices alone as lines to read, or one line that says why there are none. Release with espalier_text_free(). */
ESPALIER_API espalier_status espalier_devices_text(espalier_context *ctx, char **text);
/* With the context that the text was made with. */
ESPALIER_API void espalier_text_free(espalier_context *ctx, char *text);

#ifdef __cplusplus
}
#endif
#endif
