/* The inner loops of convolutions, by the switch in intrs_target.h. A set gives `intrs_walk_any`, and where
 * INTRS_PAIRS_OF_WEIGHTS is 1 also `intrs_walk_pairs`. Set 1 compiles for any processor, with C in place of its
 * instructions, so that tests can see it there. Set 2 is set 1 and intrs_helium.h. */
#ifndef INTRS_KERNELS_H
#define INTRS_KERNELS_H

#include <string.h>

#include "intrs_data.h"
#include "intrs_target.h"

/* One product after another, in the order in which they stand: GCC would sum four of them apart, and run out of
 * registers. */
#if defined(__GNUC__) && defined(__arm__)
#define INTRS_IN_ORDER(sum) __asm__("" : "+r"(sum))
#else
#define INTRS_IN_ORDER(sum) (void)(sum)
#endif

/* A walk through a window at one or two places: `rows` runs of values, each times the weights of one or two outputs.
 * The rows lie in a ring. Steps count values, and weights. Set 1 reads it by these offsets, and uses it up. */
typedef struct {
  const int16_t* first;  /* 0: the run's first value at the first place, in this row */
  uint32_t rows;         /* 4: to be walked, at least 1 */
  uint32_t down;         /* 8: from a row to the next */
  const int16_t* end;    /* 12: rows from here on begin again `wrap` values before */
  uint32_t wrap;         /* 16 */
  uint32_t stride;       /* 20: from the first place to the second */
  uint32_t run;          /* 24: values in a run, a multiple of 4 */
  uint32_t skip;         /* 28: weights from the end of a run to the one in the next row; twice that in pairs */
  const int16_t* pairs;  /* 32: weights of two outputs as int16, see intrs_widen */
  const int8_t* weights; /* 36: of the first output */
  uint32_t next;         /* 40: weights from the first output to the second */
} intrs_walk;

/* Sums of products for two outputs at two places: [2 * output + place]. */
typedef struct {
  int32_t at[4];
} intrs_sums;

/* Wraps instead of overflowing. No sum of a network that intrs exported comes near to it. */
static inline int32_t intrs_plus(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* The upper word of a product, and something more. */
static inline int32_t intrs_high_plus(int32_t value, int32_t multiplier, int32_t more) {
#if INTRS_DSP
  int32_t sum;
  __asm__("smmla %0, %1, %2, %3" : "=r"(sum) : "r"(value), "r"(multiplier), "r"(more));
  return sum;
#else
  return intrs_plus((int32_t)(((int64_t)value * multiplier) >> 32), more);
#endif
}

/* Saturated to int8, in one instruction where there is one. */
static inline int32_t intrs_saturated_int8(int32_t value) {
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) /* GCC warns of its own __ssat */
  int32_t code;
  __asm__("ssat %0, #8, %1" : "=r"(code) : "r"(value));
  return code;
#else
  return intrs_clamp(value, -128, 127);
#endif
}

/* intrs_rescale for shifts from 33 on, where the rounding term leaves the lower word of the product alone: one long
 * multiplication and no shift of 64 bits. tests/test_device.py compares the two. */
static inline int32_t intrs_rescale_high(int32_t value, int32_t multiplier, int shift) {
  return intrs_high_plus(value, multiplier, (int32_t)1 << (shift - 33)) >> (shift - 32);
}

static inline const int16_t* intrs_row_below(const intrs_walk* walk, const int16_t* row) {
  row += walk->down;
  return row < walk->end ? row : row - walk->wrap;
}

#define INTRS_PAIRS_OF_WEIGHTS (INTRS_KERNELS >= 1)

/* --- four products per output and place --- */

#if INTRS_KERNELS >= 1

static inline uint32_t intrs_word(const void* from) {
  uint32_t word;
  INTRS_COPY(&word, from, sizeof word); /* places may be odd */
  return word;
}

#if INTRS_DSP

static inline uint32_t intrs_even_bytes(uint32_t word) {
  return (uint32_t)__sxtb16((int8x4_t)word);
}

/* Bytes 1 and 3; no compiler here makes one instruction of __sxtb16 and __ror. */
static inline uint32_t intrs_odd_bytes(uint32_t word) {
  uint32_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

static inline uint32_t intrs_lower_halves(uint32_t a, uint32_t b) { /* the first in the lower half */
  uint32_t both;
  __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(both) : "r"(a), "r"(b));
  return both;
}

static inline uint32_t intrs_upper_halves(uint32_t a, uint32_t b) {
  uint32_t both;
  __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(both) : "r"(b), "r"(a));
  return both;
}

static inline int32_t intrs_two(uint32_t a, uint32_t b, int32_t sum) {
  return __smlad((int16x2_t)a, (int16x2_t)b, sum);
}

#else

static inline uint32_t intrs_even_bytes(uint32_t word) {
  return (uint16_t)(int8_t)(uint8_t)word | (uint32_t)(uint16_t)(int8_t)(uint8_t)(word >> 16) << 16;
}

static inline uint32_t intrs_odd_bytes(uint32_t word) {
  return intrs_even_bytes(word >> 8);
}

static inline uint32_t intrs_lower_halves(uint32_t a, uint32_t b) {
  return (a & 0xffffu) | b << 16;
}

static inline uint32_t intrs_upper_halves(uint32_t a, uint32_t b) {
  return a >> 16 | (b & 0xffff0000u);
}

static inline int32_t intrs_two(uint32_t a, uint32_t b, int32_t sum) {
  const int32_t low = (int16_t)(uint16_t)a * (int16_t)(uint16_t)b;
  const int32_t high = (int16_t)(uint16_t)(a >> 16) * (int16_t)(uint16_t)(b >> 16);
  return intrs_plus(sum, intrs_plus(low, high));
}

#endif

/* The bytes of a word lie 0 2 and 1 3 after SXTB16, so the values are put into that order. */
INTRS_INLINE void intrs_four(int32_t sums[4], const int8_t* a, const int8_t* b, const int16_t* first,
                             const int16_t* second, int outputs, int places) {
  const uint32_t wa = intrs_word(a), wb = outputs == 2 ? intrs_word(b) : 0;
  uint32_t low = intrs_word(first), high = intrs_word(first + 2);
  uint32_t even = intrs_lower_halves(low, high), odd = intrs_upper_halves(low, high);
  sums[0] = intrs_two(intrs_odd_bytes(wa), odd, intrs_two(intrs_even_bytes(wa), even, sums[0]));
  if (outputs == 2) sums[2] = intrs_two(intrs_odd_bytes(wb), odd, intrs_two(intrs_even_bytes(wb), even, sums[2]));
  if (places == 2) {
    low = intrs_word(second);
    high = intrs_word(second + 2);
    even = intrs_lower_halves(low, high);
    odd = intrs_upper_halves(low, high);
    sums[1] = intrs_two(intrs_odd_bytes(wa), odd, intrs_two(intrs_even_bytes(wa), even, sums[1]));
    if (outputs == 2) sums[3] = intrs_two(intrs_odd_bytes(wb), odd, intrs_two(intrs_even_bytes(wb), even, sums[3]));
  }
}

#else

INTRS_INLINE void intrs_one(int32_t sums[4], int32_t a, int32_t b, int32_t x, int32_t y, int outputs, int places) {
  sums[0] = intrs_plus(sums[0], a * x);
  INTRS_IN_ORDER(sums[0]);
  if (outputs == 2) sums[2] = intrs_plus(sums[2], b * x);
  INTRS_IN_ORDER(sums[2]);
  if (places == 2) sums[1] = intrs_plus(sums[1], a * y);
  INTRS_IN_ORDER(sums[1]);
  if (outputs == 2 && places == 2) sums[3] = intrs_plus(sums[3], b * y);
  INTRS_IN_ORDER(sums[3]);
}

INTRS_INLINE void intrs_four(int32_t sums[4], const int8_t* a, const int8_t* b, const int16_t* first,
                             const int16_t* second, int outputs, int places) {
  intrs_one(sums, a[0], b[0], first[0], second[0], outputs, places);
  intrs_one(sums, a[1], b[1], first[1], second[1], outputs, places);
  intrs_one(sums, a[2], b[2], first[2], second[2], outputs, places);
  intrs_one(sums, a[3], b[3], first[3], second[3], outputs, places);
}

#endif

/* --- a whole walk, straight from the weights --- */

INTRS_INLINE void intrs_along(int32_t sums[4], const int8_t* a, const int8_t* b, const int16_t* first,
                              const int16_t* second, uint32_t count, int outputs, int places) {
  const int8_t* const end = a + count;
  for (; a != end; a += 4, b += 4, first += 4, second += 4) intrs_four(sums, a, b, first, second, outputs, places);
}

INTRS_INLINE void intrs_walk_any(intrs_walk* walk, intrs_sums* to, int outputs, int places) {
  int32_t sums[4] = {to->at[0], to->at[1], to->at[2], to->at[3]};
  const int8_t *a = walk->weights, *b = outputs == 2 ? a + walk->next : a;
  const int16_t* row = walk->first;
  uint32_t rows;
  for (rows = walk->rows; rows != 0; --rows) {
    intrs_along(sums, a, b, row, places == 2 ? row + walk->stride : row, walk->run, outputs, places);
    a += walk->run + walk->skip;
    b += walk->run + walk->skip;
    row = intrs_row_below(walk, row);
  }
  to->at[0] = sums[0];
  to->at[1] = sums[1];
  to->at[2] = sums[2];
  to->at[3] = sums[3];
}

typedef void (*intrs_walk_of)(intrs_walk* walk, intrs_sums* sums);

INTRS_APART void intrs_walk_22(intrs_walk* walk, intrs_sums* sums) {
  intrs_walk_any(walk, sums, 2, 2);
}

INTRS_APART void intrs_walk_21(intrs_walk* walk, intrs_sums* sums) {
  intrs_walk_any(walk, sums, 2, 1);
}

INTRS_APART void intrs_walk_12(intrs_walk* walk, intrs_sums* sums) {
  intrs_walk_any(walk, sums, 1, 2);
}

INTRS_APART void intrs_walk_11(intrs_walk* walk, intrs_sums* sums) {
  intrs_walk_any(walk, sums, 1, 1);
}

/* --- walks with weights that were widened once for all places of a row --- */

#if INTRS_PAIRS_OF_WEIGHTS

/* `count` weights of two outputs, a multiple of 4, as int16: of every four the first two of each output, then the
 * others. */
INTRS_APART void intrs_widen(int16_t* to, const int8_t* a, const int8_t* b, uint32_t count) {
  const int8_t* const end = a + count;
  for (; a != end; a += 4, b += 4, to += 8) {
    const uint32_t wa = intrs_word(a), wb = intrs_word(b);
    const uint32_t even_a = intrs_even_bytes(wa), odd_a = intrs_odd_bytes(wa);
    const uint32_t even_b = intrs_even_bytes(wb), odd_b = intrs_odd_bytes(wb);
    uint32_t* words = (uint32_t*)(void*)to;
    words[0] = intrs_lower_halves(even_a, odd_a);
    words[1] = intrs_lower_halves(even_b, odd_b);
    words[2] = intrs_upper_halves(even_a, odd_a);
    words[3] = intrs_upper_halves(even_b, odd_b);
  }
}

#if INTRS_DSP

/* Sixteen products: r0 weights, r1 and r2 values, r10 to r12 and lr sums. LDM wants values at multiples of 4. */
#define INTRS_FOUR(first, second)     \
  "ldmia r0!, {r4-r7}\n\t" first      \
  "smlad r10, r4, r8, r10\n\t"        \
  "smlad r12, r5, r8, r12\n\t"        \
  "smlad r10, r6, r9, r10\n\t"        \
  "smlad r12, r7, r9, r12\n\t" second \
  "smlad r11, r4, r8, r11\n\t"        \
  "smlad lr, r5, r8, lr\n\t"          \
  "smlad r11, r6, r9, r11\n\t"        \
  "smlad lr, r7, r9, lr\n\t"
#define INTRS_FIRST_FOUR /* of new sums */ \
  "ldmia r0!, {r4-r7}\n\t"                 \
  "ldmia r1!, {r8, r9}\n\t"                \
  "smuad r10, r4, r8\n\t"                  \
  "smuad r12, r5, r8\n\t"                  \
  "smlad r10, r6, r9, r10\n\t"             \
  "smlad r12, r7, r9, r12\n\t"             \
  "ldmia r2!, {r8, r9}\n\t"                \
  "smuad r11, r4, r8\n\t"                  \
  "smuad lr, r5, r8\n\t"                   \
  "smlad r11, r6, r9, r11\n\t"             \
  "smlad lr, r7, r9, lr\n\t"
#define INTRS_EVEN_FOUR INTRS_FOUR("ldmia r1!, {r8, r9}\n\t", "ldmia r2!, {r8, r9}\n\t")
#define INTRS_ODD_FOUR \
  INTRS_FOUR("ldr r8, [r1], #4\n\tldr r9, [r1], #4\n\t", "ldr r8, [r2], #4\n\tldr r9, [r2], #4\n\t")

/* Sixteen values at a time, as long as there are so many. */
#define INTRS_SIXTEENS(four)   \
  "subs r3, #16\n\t"           \
  "blo 3f\n\t"                 \
  "2:\n\t" four four four four \
  "subs r3, #16\n\t"           \
  "bhs 2b\n\t"                 \
  "3: adds r3, #16\n\t"        \
  "beq 5f\n\t"

/* The whole walk in one function without compiled code around it, because it needs all registers. */
#define INTRS_WALK_PAIRS(many, four)                                   \
  __asm__ volatile(                                                    \
      "push {r0, r1, r4-r11, lr}\n\t"                                  \
      "ldm r1, {r10, r11, r12, lr}\n\t"                                \
      "mov r3, r0\n\t"                                                 \
      "ldr r0, [r3, #32]\n\t"                                          \
      "ldr r1, [r3]\n\t"                                               \
      "ldr r9, [r3, #20]\n\t"                                          \
      "1: add r2, r1, r9, lsl #1\n\t"                                  \
      "ldr r3, [r3, #24]\n\t" many "4:\n\t" four                       \
      "subs r3, #4\n\t"                                                \
      "bne 4b\n\t"                                                     \
      "5: ldr r3, [sp]\n\t"                                            \
      "ldm r3, {r4-r9}\n\t" /* first, rows, down, end, wrap, stride */ \
      "subs r5, #1\n\t"                                                \
      "beq 6f\n\t"                                                     \
      "add r1, r4, r6, lsl #1\n\t"                                     \
      "cmp r1, r7\n\t"                                                 \
      "it hs\n\t"                                                      \
      "subhs r1, r1, r8, lsl #1\n\t"                                   \
      "strd r1, r5, [r3]\n\t"                                          \
      "ldr r4, [r3, #28]\n\t"                                          \
      "add r0, r0, r4, lsl #2\n\t"                                     \
      "b 1b\n\t"                                                       \
      "6: ldr r1, [sp, #4]\n\t"                                        \
      "stm r1, {r10, r11, r12, lr}\n\t"                                \
      "add sp, #8\n\t"                                                 \
      "pop {r4-r11, pc}\n\t" ::                                        \
          : "memory")

INTRS_NAKED void intrs_walk_pairs_even(INTRS_UNUSED intrs_walk* walk, INTRS_UNUSED intrs_sums* sums) {
  INTRS_WALK_PAIRS(INTRS_SIXTEENS(INTRS_EVEN_FOUR), INTRS_EVEN_FOUR);
}

INTRS_NAKED void intrs_walk_pairs_odd(INTRS_UNUSED intrs_walk* walk, INTRS_UNUSED intrs_sums* sums) {
  INTRS_WALK_PAIRS("", INTRS_ODD_FOUR);
}

#else

INTRS_APART void intrs_walk_pairs_odd(intrs_walk* walk, intrs_sums* to) {
  const int16_t *w = walk->pairs, *row = walk->first;
  uint32_t rows, left;
  for (rows = walk->rows; rows != 0; --rows, w += 2 * walk->skip, row = intrs_row_below(walk, row)) {
    const int16_t *first = row, *second = row + walk->stride;
    for (left = walk->run; left != 0; left -= 2, w += 4, first += 2, second += 2) {
      const uint32_t a = intrs_word(w), b = intrs_word(w + 2), x = intrs_word(first), y = intrs_word(second);
      to->at[0] = intrs_two(a, x, to->at[0]);
      to->at[1] = intrs_two(a, y, to->at[1]);
      to->at[2] = intrs_two(b, x, to->at[2]);
      to->at[3] = intrs_two(b, y, to->at[3]);
    }
  }
}

#define intrs_walk_pairs_even intrs_walk_pairs_odd

#endif

#endif

/* --- tiles --- */

#if INTRS_WITH_TILES

/* Sums for two outputs at two tiles, at each of their 16 places: weights [place][two channels][output][channel of the
 * two], values [place][channel]. */
#if INTRS_DSP

INTRS_NAKED void intrs_walk_pairs_tile(INTRS_UNUSED const int16_t* weights, INTRS_UNUSED const int16_t* first,
                                       INTRS_UNUSED const int16_t* second, INTRS_UNUSED uint32_t channels,
                                       INTRS_UNUSED intrs_sums* to) {
  __asm__ volatile(
      "mov r12, #16\n\t"
      "push {r3-r12, lr}\n\t"
      "1:\n\t" INTRS_FIRST_FOUR
      "lsls r4, r3, #28\n\t" /* multiples of 16 go the shorter way */
      "bne 5f\n\t"
      "b 3f\n\t"
      "2:\n\t" INTRS_EVEN_FOUR "3:\n\t" INTRS_EVEN_FOUR INTRS_EVEN_FOUR INTRS_EVEN_FOUR
      "subs r3, #16\n\t"
      "bne 2b\n\t"
      "4: ldr r3, [sp, #44]\n\t" /* to */
      "ldr r4, [sp, #36]\n\t"    /* places left */
      "stmia r3!, {r10, r11, r12, lr}\n\t"
      "str r3, [sp, #44]\n\t"
      "ldr r3, [sp]\n\t"
      "subs r4, #1\n\t"
      "str r4, [sp, #36]\n\t"
      "bne 1b\n\t"
      "pop {r3-r12, pc}\n\t"
      "6:\n\t" INTRS_EVEN_FOUR
      "5: subs r3, #4\n\t"
      "bne 6b\n\t"
      "b 4b\n\t" ::
          : "memory");
}

#else

INTRS_APART void intrs_walk_pairs_tile(const int16_t* weights, const int16_t* first, const int16_t* second,
                                       uint32_t channels, intrs_sums* to) {
  uint32_t place, left;
  for (place = 0; place < 16; ++place, ++to) {
    int32_t s00 = 0, s01 = 0, s10 = 0, s11 = 0;
    for (left = channels; left != 0; left -= 2, weights += 4, first += 2, second += 2) {
      s00 = intrs_plus(s00, weights[0] * first[0]);
      s10 = intrs_plus(s10, weights[2] * first[0]);
      s01 = intrs_plus(s01, weights[0] * second[0]);
      s11 = intrs_plus(s11, weights[2] * second[0]);
      INTRS_IN_ORDER(s00);
      INTRS_IN_ORDER(s10);
      INTRS_IN_ORDER(s01);
      INTRS_IN_ORDER(s11);
      s00 = intrs_plus(s00, weights[1] * first[1]);
      s10 = intrs_plus(s10, weights[3] * first[1]);
      s01 = intrs_plus(s01, weights[1] * second[1]);
      s11 = intrs_plus(s11, weights[3] * second[1]);
    }
    to->at[0] = s00;
    to->at[1] = s01;
    to->at[2] = s10;
    to->at[3] = s11;
  }
}

#endif

#endif

/* Values of one or two channels, added and subtracted at once. They stay within 16 bits: four codes at most. */
#if INTRS_KERNELS >= 1

#define INTRS_LANES 2u
typedef uint32_t intrs_lanes;

static inline intrs_lanes intrs_load_lanes(const int16_t* from) {
  return intrs_word(from);
}

static inline void intrs_store_lanes(int16_t* to, intrs_lanes lanes) {
  INTRS_COPY(to, &lanes, sizeof lanes);
}

#if INTRS_DSP

static inline intrs_lanes intrs_lanes_plus(intrs_lanes a, intrs_lanes b) {
  return (intrs_lanes)__sadd16((int16x2_t)a, (int16x2_t)b);
}

static inline intrs_lanes intrs_lanes_minus(intrs_lanes a, intrs_lanes b) {
  return (intrs_lanes)__ssub16((int16x2_t)a, (int16x2_t)b);
}

#else

static inline intrs_lanes intrs_lanes_plus(intrs_lanes a, intrs_lanes b) {
  return ((a + b) & 0xffffu) | ((a >> 16) + (b >> 16)) << 16;
}

static inline intrs_lanes intrs_lanes_minus(intrs_lanes a, intrs_lanes b) {
  return ((a - b) & 0xffffu) | ((a >> 16) - (b >> 16)) << 16;
}

#endif

#else

#define INTRS_LANES 1u
typedef int32_t intrs_lanes;

static inline intrs_lanes intrs_load_lanes(const int16_t* from) {
  return *from;
}

static inline void intrs_store_lanes(int16_t* to, intrs_lanes lanes) {
  *to = (int16_t)lanes;
}

static inline intrs_lanes intrs_lanes_plus(intrs_lanes a, intrs_lanes b) {
  return a + b;
}

static inline intrs_lanes intrs_lanes_minus(intrs_lanes a, intrs_lanes b) {
  return a - b;
}

#endif

INTRS_INLINE intrs_lanes intrs_combined(const int16_t* a, const int16_t* b, int minus) {
  const intrs_lanes x = intrs_load_lanes(a), y = intrs_load_lanes(b);
  return minus ? intrs_lanes_minus(x, y) : intrs_lanes_plus(x, y);
}

/* --- codes as int16 without zero point --- */

static inline void intrs_widen_codes(int16_t* to, const int8_t* from, uint32_t count, int32_t zero_point) {
  const int8_t* const end = from + count;
#if INTRS_KERNELS >= 1
  const uint32_t zero = intrs_lower_halves((uint32_t)zero_point, (uint32_t)zero_point);
  const int8_t* const whole = from + (count & ~3u);
  for (; from != whole; from += 4, to += 4) {
    const uint32_t word = intrs_word(from);
    const uint32_t even = intrs_lanes_minus(intrs_even_bytes(word), zero);
    const uint32_t odd = intrs_lanes_minus(intrs_odd_bytes(word), zero);
    intrs_store_lanes(to, intrs_lower_halves(even, odd));
    intrs_store_lanes(to + 2, intrs_upper_halves(even, odd));
  }
#endif
  while (from != end) *to++ = (int16_t)(*from++ - zero_point);
}

#endif
