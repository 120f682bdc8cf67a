/* Compares the compiled roundings with their definitions by division, for every 32-bit value at some scales:
 *
 *   exhaustive STEP MULTIPLIER SHIFT [MULTIPLIER SHIFT ...]
 *
 * With STEP 1 it takes all 2^32 values, half a minute per scale. proofs/check_primitives.py proves the same for all
 * scales, of expressions that stand for this code. */
#include <stdio.h>
#include <stdlib.h>

#include "intrs_kernels.h"

/* floor(a / b) for b > 0 */
static int64_t floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

static int64_t nearest(int64_t number, int shift) {
  const int64_t unit = (int64_t)1 << shift;
  return floor_of(number + unit / 2, unit);
}

static int64_t nearest_twice(int64_t number, int shift) {
  const int64_t once = nearest(number, shift > 31 ? 31 : shift);
  if (shift <= 31) return once;
  return once < 0 ? -nearest(-once, shift - 31) : nearest(once, shift - 31);
}

static int differs(int32_t value, int32_t multiplier, int shift) {
  const int64_t product = (int64_t)value * multiplier;
  const int64_t once = nearest(product, shift), twice = nearest_twice(product, shift);
  if (once >= INT32_MIN && once <= INT32_MAX && intrs_rescale(value, multiplier, shift) != once) return 1;
  if (twice >= INT32_MIN && twice <= INT32_MAX && intrs_rescale_twice(value, multiplier, shift) != twice) return 2;
  return shift > 32 && intrs_rescale_high(value, multiplier, shift) != once ? 3 : 0;
}

int main(int count, char** words) {
  int64_t value, compared = 0, step = count > 1 ? atoll(words[1]) : 0;
  int i;
  if (step < 1 || count < 4) return 2;
  for (i = 2; i + 1 < count; i += 2) {
    const int32_t multiplier = (int32_t)atoll(words[i]);
    const int shift = atoi(words[i + 1]);
    for (value = INT32_MIN; value <= INT32_MAX; value += step, ++compared) {
      const int wrong = differs((int32_t)value, multiplier, shift);
      if (wrong) {
        printf("value %lld, multiplier %d, shift %d: %d\n", (long long)value, (int)multiplier, shift, wrong);
        return 1;
      }
    }
  }
  printf("%lld equal\n", (long long)compared);
  return 0;
}
