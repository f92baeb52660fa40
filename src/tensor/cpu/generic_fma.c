/* SPDX-License-Identifier: MIT
 *
 * generic_fma.c: generic.c compiled with hardware fma.
 */
#define ESI_GENERIC_FMA 1
#include "tensor/cpu/generic.c"
