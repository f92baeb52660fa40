/* SPDX-License-Identifier: MIT
 *
 * level.c: which kernels this processor and operating system can run. A processor may have AVX units whose registers the system
 * does not save; XCR0 tells.
 */
#include "tensor/cpu/cpu.h"

#if defined(ESI_HAVE_X86_KERNELS)
#include <cpuid.h>

typedef struct x86_features { bool fma, avx2, avx512; } x86_features;

static uint64_t xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static x86_features detect(void)
{
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    x86_features f = {false, false, false};
    uint32_t a, b, c, d;
    uint64_t saved;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return f; /* OSXSAVE */
    saved = xcr0();
    if ((saved & 0x6) != 0x6 || !(c & 1u << 28) || !(c & 1u << 12) || !(c & 1u << 29)) return f; /* SSE, AVX state; AVX, FMA, F16C */
    f.fma = true;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    f.avx2 = (b & 1u << 5) != 0;
    f.avx512 = f.avx2 && (saved & 0xe6) == 0xe6 && (b & avx512) == avx512;
    return f;
}
#endif

const esi_kernels *esi_cpu_kernels(espalier_cpu_level level)
{
    switch (level) {
    case ESPALIER_CPU_GENERIC: return &esi_kernels_generic;
#if defined(ESI_HAVE_X86_KERNELS)
    case ESPALIER_CPU_GENERIC_FMA: return detect().fma ? &esi_kernels_generic_fma : NULL;
    case ESPALIER_CPU_AVX2: return detect().avx2 ? &esi_kernels_avx2 : NULL;
    case ESPALIER_CPU_AVX512: return detect().avx512 ? &esi_kernels_avx512 : NULL;
#endif
#if defined(ESI_HAVE_NEON_KERNELS)
    case ESPALIER_CPU_NEON: return &esi_kernels_neon;
#endif
    default: return NULL;
    }
}
