/* SPDX-License-Identifier: MIT
 *
 * math64_arc.c: inverse trigonometric functions in fp64 (math64.h). All come down to the angle of a point (x, y) in the first quadrant,
 * given as pairs: arctan of a ratio q <= 1 is arctan(k/8) from a table plus the series of the arctangent of (q - k/8) / (1 + q k/8).
 */
#include "base/math64.h"
#include "base/math64_pair.h"

#include <math.h>
#include <stdbool.h>

static const esi_pair zero = {0.0, 0.0};
static const esi_pair pi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
static const esi_pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

/* arctan(k / 8) */
static const esi_pair arctan_table[9] = {
    {0.0, 0.0},
    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
};

static esi_pair subtract(esi_pair a, esi_pair b)
{
    esi_pair negative = {-b.high, -b.low};
    return esi_pair_add(a, negative);
}

static esi_pair times(esi_pair a, double b)
{
    esi_pair factor = {b, 0.0};
    return esi_pair_mul(a, factor);
}

/* arctan(y / x) for 0 <= y <= x, x > 0. */
static esi_pair arctan_of_ratio(esi_pair y, esi_pair x)
{
    double k = (y.high / x.high * 8.0 + ESI_ROUND_MAGIC) - ESI_ROUND_MAGIC;
    esi_pair t = esi_pair_div(subtract(times(y, 8.0), times(x, k)), esi_pair_add(times(x, 8.0), times(y, k)));
    double z = t.high * t.high;
    double p = 1.0 / 13.0;                       /* |t| <= 1/16 */

    p = p * z - 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z - 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z - 1.0 / 3.0;
    t = esi_pair_fast_sum(t.high, t.low + t.high * z * p);
    return esi_pair_add(arctan_table[(int)k], t);
}

/* The angle of (x, y), x and y not negative and not both zero, of moderate size. */
static esi_pair angle_of_point(esi_pair y, esi_pair x)
{
    if (y.high <= x.high) return arctan_of_ratio(y, x);
    return subtract(half_pi, arctan_of_ratio(x, y));
}

/* sqrt(1 - x^2), |x| <= 1. */
static esi_pair cosine_of_sine(double x)
{
    esi_pair square = esi_pair_product(x, x);
    esi_pair w = esi_pair_sum(1.0, -square.high);
    double root;
    esi_pair back;

    w = esi_pair_fast_sum(w.high, w.low - square.low);
    if (!(w.high > 0.0)) return zero;
    root = sqrt(w.high);
    back = esi_pair_product(root, root);
    return esi_pair_fast_sum(root, (((w.high - back.high) - back.low) + w.low) / (2.0 * root));
}

double esi_asin(double x)
{
    double a = esi_fabs(x);
    esi_pair sine = {a, 0.0}, r;

    if (x != x) return x;
    if (a > 1.0) return (double)NAN;
    if (a < 0x1p-27) return x;
    r = angle_of_point(sine, cosine_of_sine(a));
    return x < 0.0 ? -r.high : r.high;
}

double esi_acos(double x)
{
    double a = esi_fabs(x);
    esi_pair cosine = {a, 0.0}, r;

    if (x != x) return x;
    if (a > 1.0) return (double)NAN;
    r = angle_of_point(cosine_of_sine(a), cosine);
    return x < 0.0 ? subtract(pi, r).high : r.high;
}

double esi_atan(double x) { return esi_atan2(x, 1.0); }

/* y or x is infinite: the directions are the eight of the compass. */
static double angle_at_infinity(double y_size, double x)
{
    bool far = esi_fabs(x) > DBL_MAX;
    if (!(y_size > DBL_MAX)) return x > 0.0 ? 0.0 : pi.high;
    if (!far) return half_pi.high;
    return x > 0.0 ? 0.5 * half_pi.high : 0x1.2d97c7f3321d2p+1;      /* 3/4 pi */
}

/* The angle of (x, |y|) for finite numbers, not both zero. */
static double upper_angle(double y_size, double x)
{
    double x_size = esi_fabs(x);
    int y_exponent = esi_exponent_field(y_size), x_exponent = esi_exponent_field(x_size);
    int largest = y_exponent > x_exponent ? y_exponent : x_exponent;
    esi_pair py = {0.0, 0.0}, px = {0.0, 0.0}, r;
    double scale;

    if (x_exponent - y_exponent > 60) return x > 0.0 ? y_size / x_size : pi.high;
    if (y_exponent - x_exponent > 60) return half_pi.high;
    scale = esi_power_of_two(largest < 100 ? 600 : largest > 1900 ? -600 : 0);
    py.high = y_size * scale;
    px.high = x_size * scale;
    r = angle_of_point(py, px);
    return x < 0.0 ? subtract(pi, r).high : r.high;
}

double esi_atan2(double y, double x)
{
    double y_size = esi_fabs(y), angle;
    bool negative = esi_bits64(y) >> 63 != 0;

    if (x != x || y != y) return x + y;
    if (y == 0.0) angle = esi_bits64(x) >> 63 ? pi.high : 0.0;
    else if (y_size > DBL_MAX || esi_fabs(x) > DBL_MAX) angle = angle_at_infinity(y_size, x);
    else angle = upper_angle(y_size, x);
    return negative ? -angle : angle;
}
