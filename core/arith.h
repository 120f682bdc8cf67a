/* The one definition of rounding, saturation and RESCALE: TOSA 1.0, integer profile (docs/arithmetic.md).
 * Written in the common subset of C99 and C++17, so that a device can include it as it is. */
#ifndef INTRS_ARITH_H
#define INTRS_ARITH_H

#include <stdint.h>

/* Shifting a negative number right is arithmetic on every compiler we support; fail the build where it is not. */
typedef char intrs_right_shift_is_arithmetic[(-1 >> 1) == -1 ? 1 : -1];

/* TOSA apply_scale_32 with SINGLE_ROUND. |value * multiplier| < 2^62 and the rounding term <= 2^61, so the sum fits
 * 64 bits; that the result fits 32 bits is proven when a network is loaded. */
static inline int32_t intrs_rescale(int32_t value, int32_t multiplier, int shift) {
  const int64_t product = (int64_t)value * multiplier + ((int64_t)1 << (shift - 1));
  return (int32_t)(product >> shift);
}

/* The same with DOUBLE_ROUND: gemmlowp's two roundings, first by 2^31, ties upwards, then by the rest of the shift,
 * ties away from zero, in one expression (docs/arithmetic.md). The second rounding exists for shifts of more than 31
 * only. */
static inline int32_t intrs_rescale_twice(int32_t value, int32_t multiplier, int shift) {
  const int64_t first = shift > 31 ? (int64_t)1 << 30 : 0;
  const int64_t product = (int64_t)value * multiplier + ((int64_t)1 << (shift - 1)) + (value < 0 ? -first : first);
  return (int32_t)(product >> shift);
}

static inline int32_t intrs_rescale_as(int32_t value, int32_t multiplier, int shift, int twice) {
  return twice ? intrs_rescale_twice(value, multiplier, shift) : intrs_rescale(value, multiplier, shift);
}

static inline int32_t intrs_clamp(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : value;
}

/* TOSA reciprocal_scale: the multiplier and shift by which AVG_POOL2D divides by a count >= 1. */
static inline void intrs_reciprocal(uint32_t count, int32_t* multiplier, int* shift) {
  int k = 0;
  while (((uint64_t)1 << k) < count) ++k; /* 32 - count_leading_zeros(count - 1) */
  *multiplier = (int32_t)(((((uint64_t)1 << 30) + 1) << k) / count);
  *shift = 30 + k;
}

#endif
