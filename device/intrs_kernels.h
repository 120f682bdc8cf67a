/* The inner loops, behind one switch: INTRS_KERNELS 0 is portable C99 and the meaning of the others, 1 is for the DSP
 * extension of Cortex-M4, M7, M33 and later (two 16-bit products per instruction). Left out, the compiler's target
 * decides. A set gives `intrs_dot` and nothing else; every set equals the portable one bit for bit. */
#ifndef INTRS_KERNELS_H
#define INTRS_KERNELS_H

#include <string.h>

#include "intrs_data.h"

#ifndef INTRS_KERNELS
#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP == 1 && defined(__arm__)
#define INTRS_KERNELS 1
#else
#define INTRS_KERNELS 0
#endif
#endif

/* Loops that are written once for one and for two outputs and places become a function for each, apart from the code
 * around it, so that a small processor's registers are enough. */
#if defined(__GNUC__)
#define INTRS_INLINE static inline __attribute__((always_inline))
#define INTRS_APART static __attribute__((noinline))
#else
#define INTRS_INLINE static inline
#define INTRS_APART static
#endif

/* Sums of products for two outputs at two places at once: [output][place]. */
typedef struct {
  int32_t at[2][2];
} intrs_sums;

/* Wraps instead of overflowing. No sum of a network that intrs exported comes near to it. */
static inline int32_t intrs_plus(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* intrs_rescale for shifts from 33 on, where the rounding term leaves the lower word of the product alone: one long
 * multiplication and no shift of 64 bits. tests/test_device.py compares the two. */
static inline int32_t intrs_rescale_high(int32_t value, int32_t multiplier, int shift) {
  const int32_t high = (int32_t)(((int64_t)value * multiplier) >> 32);
  return (high + ((int32_t)1 << (shift - 33))) >> (shift - 32);
}

#if INTRS_KERNELS == 0

/* Adds `count` products, a multiple of 4, of weights in the order of intrs_data.h and of the values at one or two
 * places. */
INTRS_INLINE void intrs_dot(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                            uint32_t count, int outputs, int places) {
  static const uint8_t order[4] = {0, 2, 1, 3};
  uint32_t i;
  int k, o;
  for (i = 0; i < count; i += 4) {
    for (o = 0; o < outputs; ++o, weights += 4) {
      for (k = 0; k < 4; ++k) {
        const int32_t weight = weights[order[k]];
        sums->at[o][0] = intrs_plus(sums->at[o][0], weight * first[k]);
        if (places == 2) sums->at[o][1] = intrs_plus(sums->at[o][1], weight * second[k]);
      }
    }
    first += 4;
    second += places == 2 ? 4 : 0;
  }
}

#elif INTRS_KERNELS == 1

#include <arm_acle.h>

static inline uint32_t intrs_word(const void* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof word); /* one load, even where memcpy is no builtin; places may be odd */
  return word;
}

static inline int16x2_t intrs_pair_at(const int16_t* from) {
  return (int16x2_t)intrs_word(from);
}

/* Bytes 1 and 3 of a word as a pair; no compiler here makes one instruction of __sxtb16 and __ror. */
static inline int16x2_t intrs_odd_bytes(uint32_t word) {
  int16x2_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

/* Four products per output and place. */
INTRS_INLINE void intrs_dot_4(intrs_sums* s, const int8_t* weights, const int16_t* first, const int16_t* second,
                              int outputs, int places) {
  const uint32_t a = intrs_word(weights), b = outputs == 2 ? intrs_word(weights + 4) : 0;
  int16x2_t wa = __sxtb16((int8x4_t)a), wb = __sxtb16((int8x4_t)b), x = intrs_pair_at(first);
  s->at[0][0] = __smlad(wa, x, s->at[0][0]);
  if (outputs == 2) s->at[1][0] = __smlad(wb, x, s->at[1][0]);
  if (places == 2) {
    x = intrs_pair_at(second);
    s->at[0][1] = __smlad(wa, x, s->at[0][1]);
    if (outputs == 2) s->at[1][1] = __smlad(wb, x, s->at[1][1]);
  }
  wa = intrs_odd_bytes(a);
  wb = intrs_odd_bytes(b);
  x = intrs_pair_at(first + 2);
  s->at[0][0] = __smlad(wa, x, s->at[0][0]);
  if (outputs == 2) s->at[1][0] = __smlad(wb, x, s->at[1][0]);
  if (places == 2) {
    x = intrs_pair_at(second + 2);
    s->at[0][1] = __smlad(wa, x, s->at[0][1]);
    if (outputs == 2) s->at[1][1] = __smlad(wb, x, s->at[1][1]);
  }
}

/* The same for two outputs at two places, in 17 instructions. LDRD takes the weights of both outputs, which lie at a
 * multiple of 4; compilers add to every pointer apart. */
INTRS_INLINE void intrs_dot_4_22(intrs_sums* sums, const int8_t** weights, const int16_t** first,
                                 const int16_t** second) {
  uint32_t a, b, x, y, t;
  __asm__(
      "ldrd %[a], %[b], [%[w]], #8\n\t"
      "ldr %[x], [%[f]], #4\n\t"
      "ldr %[y], [%[s]], #4\n\t"
      "sxtb16 %[t], %[a]\n\t"
      "smlad %[s00], %[t], %[x], %[s00]\n\t"
      "smlad %[s01], %[t], %[y], %[s01]\n\t"
      "sxtb16 %[t], %[b]\n\t"
      "smlad %[s10], %[t], %[x], %[s10]\n\t"
      "smlad %[s11], %[t], %[y], %[s11]\n\t"
      "ldr %[x], [%[f]], #4\n\t"
      "ldr %[y], [%[s]], #4\n\t"
      "sxtb16 %[t], %[a], ror #8\n\t"
      "smlad %[s00], %[t], %[x], %[s00]\n\t"
      "smlad %[s01], %[t], %[y], %[s01]\n\t"
      "sxtb16 %[t], %[b], ror #8\n\t"
      "smlad %[s10], %[t], %[x], %[s10]\n\t"
      "smlad %[s11], %[t], %[y], %[s11]\n\t"
      : [w] "+r"(*weights), [f] "+r"(*first), [s] "+r"(*second), [s00] "+r"(sums->at[0][0]), [s01] "+r"(sums->at[0][1]),
        [s10] "+r"(sums->at[1][0]), [s11] "+r"(sums->at[1][1]), [a] "=&r"(a), [b] "=&r"(b), [x] "=&r"(x), [y] "=&r"(y),
        [t] "=&r"(t)
      :
      : "memory");
}

INTRS_INLINE void intrs_dot_pairs(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                                  uint32_t count) {
  const int16_t* end = first + (count & ~15u);
  intrs_sums s = *sums;
  while (first != end) {
    intrs_dot_4_22(&s, &weights, &first, &second);
    intrs_dot_4_22(&s, &weights, &first, &second);
    intrs_dot_4_22(&s, &weights, &first, &second);
    intrs_dot_4_22(&s, &weights, &first, &second);
  }
  for (end += count & 15u; first != end;) intrs_dot_4_22(&s, &weights, &first, &second);
  *sums = s;
}

INTRS_INLINE void intrs_dot(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                            uint32_t count, int outputs, int places) {
  intrs_sums s = *sums;
  if (outputs == 2 && places == 2) {
    intrs_dot_pairs(sums, weights, first, second, count);
    return;
  }
  for (; count != 0; count -= 4) {
    intrs_dot_4(&s, weights, first, second, outputs, places);
    weights += 4 * outputs;
    first += 4;
    second += places == 2 ? 4 : 0;
  }
  *sums = s;
}

#else
#error "INTRS_KERNELS: choose 0 (portable) or 1 (Cortex-M with DSP extension)"
#endif

typedef void (*intrs_dot_of)(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                             uint32_t count);

INTRS_APART void intrs_dot_22(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                              uint32_t count) {
  intrs_dot(sums, weights, first, second, count, 2, 2);
}

INTRS_APART void intrs_dot_21(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                              uint32_t count) {
  intrs_dot(sums, weights, first, second, count, 2, 1);
}

INTRS_APART void intrs_dot_12(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                              uint32_t count) {
  intrs_dot(sums, weights, first, second, count, 1, 2);
}

INTRS_APART void intrs_dot_11(intrs_sums* sums, const int8_t* weights, const int16_t* first, const int16_t* second,
                              uint32_t count) {
  intrs_dot(sums, weights, first, second, count, 1, 1);
}

#endif
