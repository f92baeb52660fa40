/* SPDX-License-Identifier: MIT
 *
 * fma_loop.h: the calibration loop over a vector vocabulary: 24 independent chains, enough for any latency times width. Returns the number
 * of floating-point operations done, in a way the compiler cannot skip the work.
 */
#if defined(__clang__)
#  define LOOP_UNROLL _Pragma("clang loop unroll(full)")
#else
#  define LOOP_UNROLL _Pragma("GCC unroll 24")
#endif

double LOOP_NAME(uint64_t rounds)
{
    VF acc[LOOP_CHAINS], a = V_SET1(0.999f), b = V_SET1(1e-3f);
    volatile float sink[V_LANES];
    float out[V_LANES];

    LOOP_UNROLL for (int i = 0; i < LOOP_CHAINS; i++) acc[i] = V_SET1((float)i);
    for (uint64_t r = 0; r < rounds; r++) {
        LOOP_UNROLL for (int i = 0; i < LOOP_CHAINS; i++) acc[i] = V_FMA(acc[i], a, b);
    }
    LOOP_UNROLL for (int i = 1; i < LOOP_CHAINS; i++) acc[0] = V_ADD(acc[0], acc[i]);
    V_STORE(out, acc[0]);
    for (int i = 0; i < V_LANES; i++) sink[i] = out[i];
    (void)sink;
    return 2.0 * LOOP_CHAINS * V_LANES * (double)rounds;
}
