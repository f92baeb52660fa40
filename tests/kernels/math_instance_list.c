/* SPDX-License-Identifier: MIT
 *
 * math_instance_list.c: the instances this build has and this processor can run.
 */
#include "kernels/math_instance.h"

extern const math_instance math_instance_scalar, math_instance_scalar_fma, math_instance_avx2, math_instance_avx512, math_instance_neon;

const math_instance *const *math_instances(void)
{
    static const math_instance *list[6];
    int n = 0;

    list[n++] = &math_instance_scalar;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("fma")) list[n++] = &math_instance_scalar_fma;
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) list[n++] = &math_instance_avx2;
    if (__builtin_cpu_supports("avx512f")) list[n++] = &math_instance_avx512;
#elif defined(__aarch64__)
    list[n++] = &math_instance_neon;
#endif
    list[n] = NULL;
    return list;
}
