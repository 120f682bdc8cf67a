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

/* Sums of products for two outputs at two places at once: [output][place]. */
typedef struct {
  int32_t at[2][2];
} intrs_sums;

/* Wraps instead of overflowing. No sum of a network that intrs exported comes near to it. */
static inline int32_t intrs_plus(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}

#if INTRS_KERNELS == 0

/* Adds `count` products, a multiple of 4, of weights in the order 0 2 1 3 (intrs_data.h) and values. With `outputs` or
 * `places` of 1 the second weights or values are not read. */
static inline void intrs_dot(intrs_sums* sums, const int8_t* const weights[2], const int16_t* const values[2],
                             uint32_t count, int outputs, int places) {
  static const uint8_t order[4] = {0, 2, 1, 3};
  uint32_t i;
  int k, o, p;
  for (i = 0; i < count; i += 4) {
    for (k = 0; k < 4; ++k) {
      for (o = 0; o < outputs; ++o) {
        const int32_t weight = weights[o][i + order[k]];
        for (p = 0; p < places; ++p) sums->at[o][p] = intrs_plus(sums->at[o][p], weight * values[p][i + (uint32_t)k]);
      }
    }
  }
}

#elif INTRS_KERNELS == 1

#include <arm_acle.h>

static inline uint32_t intrs_word(const void* from) {
  uint32_t word;
  memcpy(&word, from, sizeof word); /* values may lie at odd multiples of 2 */
  return word;
}

static inline void intrs_dot(intrs_sums* sums, const int8_t* const weights[2], const int16_t* const values[2],
                             uint32_t count, int outputs, int places) {
  const int8_t *w0 = weights[0], *w1 = weights[1];
  const int16_t *x0 = values[0], *x1 = values[1];
  int32_t s00 = sums->at[0][0], s01 = sums->at[0][1], s10 = sums->at[1][0], s11 = sums->at[1][1];
  const int8_t* const end = w0 + count;
  while (w0 != end) {
    const uint32_t a = intrs_word(w0), b = outputs == 2 ? intrs_word(w1) : 0;
    const int16x2_t a01 = __sxtb16(a), a23 = __sxtb16(__ror(a, 8));
    const int16x2_t b01 = __sxtb16(b), b23 = __sxtb16(__ror(b, 8));
    int16x2_t x = (int16x2_t)intrs_word(x0);
    s00 = __smlad(a01, x, s00);
    if (outputs == 2) s10 = __smlad(b01, x, s10);
    x = (int16x2_t)intrs_word(x0 + 2);
    s00 = __smlad(a23, x, s00);
    if (outputs == 2) s10 = __smlad(b23, x, s10);
    if (places == 2) {
      x = (int16x2_t)intrs_word(x1);
      s01 = __smlad(a01, x, s01);
      if (outputs == 2) s11 = __smlad(b01, x, s11);
      x = (int16x2_t)intrs_word(x1 + 2);
      s01 = __smlad(a23, x, s01);
      if (outputs == 2) s11 = __smlad(b23, x, s11);
      x1 += 4;
    }
    w0 += 4;
    w1 += outputs == 2 ? 4 : 0;
    x0 += 4;
  }
  sums->at[0][0] = s00;
  sums->at[0][1] = s01;
  sums->at[1][0] = s10;
  sums->at[1][1] = s11;
}

#else
#error "INTRS_KERNELS: choose 0 (portable) or 1 (Cortex-M with DSP extension)"
#endif

#endif
