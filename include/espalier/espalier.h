/* SPDX-License-Identifier: MIT
 *
 * espalier/espalier.h: everything.
 *
 * Rules that hold for every call:
 *   - A function that can fail returns espalier_status and leaves one line of text in the context (espalier_error_message()). After a
 *     failure its outputs are NULL, zero or zeroed, and nothing needs releasing.
 *   - A pointer may be NULL only where a comment says so; otherwise NULL gives ESPALIER_ERR_ARG. Functions that return a value give 0 or
 *     NULL for a NULL object, and every ..._free() accepts NULL.
 *   - Whatever a call hands out belongs to the caller and is released with the ..._free() of its type. Pointers into an object live as long
 *     as the object.
 *   - Besides the statuses that its comment names, a call that works for long may return ESPALIER_ERR_CANCELLED, one that allocates
 *     ESPALIER_ERR_RESOURCE, and any call ESPALIER_ERR_INTERNAL.
 *   - Structs with a struct_size are made by their ..._default() function; one of another size is completed or refused, never misread.
 *   - A context is used by one thread at a time, a runtime and a model by any number. Paths are UTF-8 (bytes are passed on as they are).
 */
#ifndef ESPALIER_H
#define ESPALIER_H

#include <espalier/base.h>
#include <espalier/context.h>
#include <espalier/image.h>
#include <espalier/inspect.h>
#include <espalier/matte.h>
#include <espalier/mesh.h>
#include <espalier/model.h>
#include <espalier/pipeline.h>

#endif
