/* SPDX-License-Identifier: MIT
 *
 * srgb.h: the transfer function of sRGB (IEC 61966-2-1), values 0..1.
 */
#ifndef ESI_SRGB_H
#define ESI_SRGB_H

#include "base/math64.h"

static inline double esi_srgb_decode(double encoded)
{
    return encoded <= 0.04045 ? encoded / 12.92 : esi_pow((encoded + 0.055) / 1.055, 2.4);
}

static inline double esi_srgb_encode(double linear)
{
    return linear <= 0.0031308 ? linear * 12.92 : 1.055 * esi_pow(linear, 1.0 / 2.4) - 0.055;
}

#endif
