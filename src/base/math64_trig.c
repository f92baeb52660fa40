/* SPDX-License-Identifier: MIT
 *
 * math64_trig.c: sine, cosine and tangent in fp64 (math64.h). x = n pi/2 + r: up to 10^6 by Cody and Waite's method with four parts of
 * pi/2, beyond by multiplying with the bits of 2/pi that matter (M. Payne, R. Hanek 1983) in integer arithmetic; then Taylor series of r.
 */
#include "base/math64.h"
#include "base/math64_pair.h"

#include <math.h>
#include <stdbool.h>

#define WINDOW_WORDS 8

/* 2/pi = sum of word i times 2^(-32 (i + 1)). */
static const uint32_t two_over_pi[40] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
    0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
    0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
    0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
    0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du,
};

/* The 32 bits of 2/pi that begin after `skip` bits. */
static uint32_t word_of_two_over_pi(int skip)
{
    int i = skip / 32, shift = skip % 32;
    uint64_t both = (uint64_t)two_over_pi[i] << 32 | (i + 1 < 40 ? two_over_pi[i + 1] : 0);
    return (uint32_t)(both >> (32 - shift));
}

/* |x| > 10^6, finite: quadrant and rest. With x = m 2^e, m of 53 bits, a bit of 2/pi whose product with m 2^e is a multiple of 4 only adds
 * whole turns and is left out; 256 bits from there leave more than 130 good ones even for the double nearest to a multiple of pi/2. */
static int reduce_large(double x, esi_pair *r)
{
    static const esi_pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
    uint64_t m = (esi_bits64(x) & 0x000fffffffffffffu) | 0x0010000000000000u;
    int e = esi_exponent_field(x) - 1075;
    int skip = e > 2 ? e - 2 : 0;
    int point;                               /* bits of the product after the binary point */
    uint32_t product[WINDOW_WORDS + 2] = {0};    /* most significant word last */
    uint64_t carry = 0;
    uint32_t low = (uint32_t)m, high = (uint32_t)(m >> 32);
    uint32_t window[WINDOW_WORDS];
    double part[3] = {0.0, 0.0, 0.0};
    bool negative;
    int quadrant, top, word;
    esi_pair fraction;

    for (int i = 0; i < WINDOW_WORDS; i++) window[WINDOW_WORDS - 1 - i] = word_of_two_over_pi(skip + 32 * i);
    for (int i = 0; i < WINDOW_WORDS; i++) {
        carry += (uint64_t)window[i] * low;
        product[i] = (uint32_t)carry;
        carry >>= 32;
    }
    product[WINDOW_WORDS] = (uint32_t)carry;
    carry = 0;
    for (int i = 0; i < WINDOW_WORDS; i++) {
        carry += (uint64_t)window[i] * high + product[i + 1];
        product[i + 1] = (uint32_t)carry;
        carry >>= 32;
    }
    product[WINDOW_WORDS + 1] = (uint32_t)carry;

    /* product * 2^-point = x * 2/pi modulo 4 */
    point = 32 * WINDOW_WORDS + skip - e;
    word = point / 32;
    top = point % 32;
    quadrant = (int)((((uint64_t)(word + 1 < WINDOW_WORDS + 2 ? product[word + 1] : 0) << 32 | product[word]) >> top) & 3);
    /* the fraction as a signed number: top 96 bits that are not zero, in three exact doubles */
    product[word] &= top ? (1u << top) - 1u : 0u;
    negative = top ? product[word] >> (top - 1) != 0 : product[word - 1] >> 31 != 0;
    if (negative) {
        carry = 1;
        for (int i = 0; i <= word; i++) {
            carry += (uint32_t)~product[i];
            product[i] = (uint32_t)carry;
            carry >>= 32;
        }
        product[word] &= top ? (1u << top) - 1u : 0u;
        quadrant = (quadrant + 1) & 3;
    }
    while (word > 0 && product[word] == 0) word--;
    for (int i = 0, w = word; i < 3 && w >= 0; i++, w--) part[i] = product[w];
    fraction = esi_pair_fast_sum(part[0] * 0x1p64, part[1] * 0x1p32);
    fraction = esi_pair_fast_sum(fraction.high, fraction.low + part[2]);
    fraction.high *= esi_power_of_two(32 * (word - 2) - point);
    fraction.low *= esi_power_of_two(32 * (word - 2) - point);
    *r = esi_pair_mul(fraction, half_pi);
    if (negative != (x < 0.0)) {
        r->high = -r->high;
        r->low = -r->low;
    }
    return x < 0.0 ? -quadrant & 3 : quadrant;
}

/* x = n pi/2 + r; returns n modulo 4. x is finite. */
static int reduce(double x, esi_pair *r)
{
    double a = esi_fabs(x), n, t;
    esi_pair first, second;

    if (a <= 0x1.921fb54442d18p-1) {
        r->high = x;
        r->low = 0.0;
        return 0;
    }
    if (a > 1e6) return reduce_large(x, r);
    /* three parts of 33 bits: their products with n < 2^20 are exact */
    n = (x * 0x1.45f306dc9c883p-1 + ESI_ROUND_MAGIC) - ESI_ROUND_MAGIC;
    t = x - n * 0x1.921fb54400000p+0;
    first = esi_pair_sum(t, -(n * 0x1.0b4611a600000p-34));
    second = esi_pair_sum(first.high, -(n * 0x1.3198a2e000000p-69));
    *r = esi_pair_fast_sum(second.high, (first.low + second.low) - n * 0x1.b839a252049c1p-104);
    return (int)((int64_t)n & 3);
}

static esi_pair sin_series(esi_pair r)
{
    double z = r.high * r.high;
    double p = 1.0 / 355687428096000.0;          /* 1 / 17!, then down to 1 / 3!, with changing signs */

    p = p * z - 1.0 / 1307674368000.0;
    p = p * z + 1.0 / 6227020800.0;
    p = p * z - 1.0 / 39916800.0;
    p = p * z + 1.0 / 362880.0;
    p = p * z - 1.0 / 5040.0;
    p = p * z + 1.0 / 120.0;
    p = p * z - 1.0 / 6.0;
    return esi_pair_fast_sum(r.high, r.high * z * p + (r.low - 0.5 * z * r.low));
}

static esi_pair cos_series(esi_pair r)
{
    esi_pair square = esi_pair_product(r.high, r.high);
    double z = square.high;
    double half = 0.5 * z;
    double p = 1.0 / 20922789888000.0;           /* 1 / 16!, then down to 1 / 4! */
    double w = 1.0 - half;

    p = p * z - 1.0 / 87178291200.0;
    p = p * z + 1.0 / 479001600.0;
    p = p * z - 1.0 / 3628800.0;
    p = p * z + 1.0 / 40320.0;
    p = p * z - 1.0 / 720.0;
    p = p * z + 1.0 / 24.0;
    return esi_pair_fast_sum(w, ((1.0 - w) - half) + (z * z * p - (r.high * r.low + 0.5 * square.low)));
}

static double sin_in_quadrant(int quadrant, esi_pair r)
{
    esi_pair s = quadrant & 1 ? cos_series(r) : sin_series(r);
    return quadrant & 2 ? -s.high : s.high;
}

double esi_sin(double x)
{
    esi_pair r;
    int quadrant;

    if (esi_exponent_field(x) == 0x7ff) return (double)NAN;
    if (esi_fabs(x) < 0x1p-27) return x;
    quadrant = reduce(x, &r);
    return sin_in_quadrant(quadrant, r);
}

double esi_cos(double x)
{
    esi_pair r;
    int quadrant;

    if (esi_exponent_field(x) == 0x7ff) return (double)NAN;
    if (esi_fabs(x) < 0x1p-27) return 1.0;
    quadrant = reduce(x, &r);
    return sin_in_quadrant(quadrant + 1, r);
}

double esi_tan(double x)
{
    esi_pair r, s, c;
    int quadrant;

    if (esi_exponent_field(x) == 0x7ff) return (double)NAN;
    if (esi_fabs(x) < 0x1p-27) return x;
    quadrant = reduce(x, &r);
    s = sin_series(r);
    c = cos_series(r);
    if (quadrant & 1) return -esi_pair_div(c, s).high;
    return esi_pair_div(s, c).high;
}
