/* SPDX-License-Identifier: MIT
 *
 * math64.h: our own fp64 functions for host-side tables, schedules, noise, image filters and geometry. Only + - * / sqrt, fma-free,
 * and bit operations in one fixed order, so every machine gets the same bits (compiled with -ffp-contract=off). docs/math.md has the
 * proven bounds. All follow C for special values (exp(-inf) = 0, ln(0) = -inf, pow as far as base > 0 or an integer exponent, ...).
 */
#ifndef ESI_MATH64_H
#define ESI_MATH64_H

double esi_exp(double x);
double esi_ln(double x);           /* natural logarithm; not esi_log, which writes to the log */
double esi_log1p(double x);
double esi_pow(double base, double exponent);
double esi_sin(double x);          /* exact reduction for every finite x */
double esi_cos(double x);
double esi_tan(double x);
double esi_asin(double x);
double esi_acos(double x);
double esi_atan(double x);
double esi_atan2(double y, double x);
double esi_cbrt(double x);
double esi_floor(double x);
double esi_ceil(double x);
double esi_trunc(double x);
double esi_round_half_even(double x);
double esi_fabs(double x);

#endif
