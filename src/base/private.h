/* SPDX-License-Identifier: MIT
 *
 * private.h: shared between the files of src/base only.
 */
#ifndef ESI_BASE_PRIVATE_H
#define ESI_BASE_PRIVATE_H

#include "base/base.h"

#if defined(__SANITIZE_ADDRESS__)
#  define ESI_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define ESI_ASAN 1
#  endif
#endif

/* In front of every esi_alloc() block, in ESI_ALIGN bytes. */
typedef struct esi_block {
    size_t size;                     /* bytes asked for: what the account was charged */
    size_t mapped;                   /* large.c: bytes of its own mapping; 0 = from the allocator */
    size_t resident;                 /* large.c: the first bytes of the mapping that may be in memory */
} esi_block;

/* large.c: blocks with a mapping of their own, kept for reuse after release. NULL: no memory. */
bool esi_large_applies(const espalier_context *ctx, size_t total);
esi_block *esi_large_take(espalier_context *ctx, size_t total);
void esi_large_give(espalier_context *ctx, esi_block *block);
/* Keep at most `allowed` bytes of released blocks in memory. */
void esi_large_trim(espalier_context *ctx, uint64_t allowed);

/* Room for one esi_errno_text(). */
#define ESI_ERRNO_TEXT 48

/* A short English text for an errno value. strerror() is neither thread-safe nor independent of the locale. */
const char *esi_errno_text(char buffer[ESI_ERRNO_TEXT], int error);

/* open() with close-on-exec and mode 0666. A call that blocks on a FIFO is given up when a signal arrives and the job was asked to stop:
 * -1 with errno EINTR. */
int esi_open(espalier_context *ctx, const char *path, int flags);

#endif
