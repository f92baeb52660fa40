/* SPDX-License-Identifier: MIT
 *
 * private.h: shared between the files of src/base only.
 */
#ifndef ESI_BASE_PRIVATE_H
#define ESI_BASE_PRIVATE_H

#include "base/base.h"

/* Room for one esi_errno_text(). */
#define ESI_ERRNO_TEXT 48

/* A short English text for an errno value. strerror() is neither thread-safe nor independent of the locale. */
const char *esi_errno_text(char buffer[ESI_ERRNO_TEXT], int error);

/* open() with close-on-exec and mode 0666. A call that blocks on a FIFO is given up when a signal arrives and the job was asked to stop:
 * -1 with errno EINTR. */
int esi_open(espalier_context *ctx, const char *path, int flags);

/* Make `text` one clean line in place: control characters and bytes that are no UTF-8 become '?'. */
void esi_clean_line(char *text);

#endif
