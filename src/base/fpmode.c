/* SPDX-License-Identifier: MIT
 *
 * fpmode.c: the floating-point mode the arithmetic is defined in: round to nearest even, subnormals kept, exceptions masked.
 * The caller's program may run with another one (audio code sets flush-to-zero, interval code rounds upward).
 */
#include "base/base.h"

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>

void esi_fp_set_default(esi_fp_state *saved)
{
    saved->word = _mm_getcsr();
    _mm_setcsr(0x1F80);              /* value after reset: all exceptions masked, nearest, no flush-to-zero, no denormals-are-zero */
}

void esi_fp_restore(const esi_fp_state *saved)
{
    _mm_setcsr((unsigned)saved->word);
}

#elif defined(__aarch64__) && defined(__GNUC__)

static uint64_t read_fpcr(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

static void write_fpcr(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

void esi_fp_set_default(esi_fp_state *saved)
{
    saved->word = read_fpcr();
    write_fpcr(0);                   /* nearest, no flush-to-zero, no default NaN, traps off */
}

void esi_fp_restore(const esi_fp_state *saved)
{
    write_fpcr(saved->word);
}

#else
#include <fenv.h>

void esi_fp_set_default(esi_fp_state *saved)
{
    int mode = fegetround();
    saved->word = mode < 0 ? (uint64_t)FE_TONEAREST : (uint64_t)mode;
    fesetround(FE_TONEAREST);
}

void esi_fp_restore(const esi_fp_state *saved)
{
    fesetround((int)saved->word);
}

#endif
