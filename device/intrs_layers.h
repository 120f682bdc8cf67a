/* What the kinds of layers share, for the files of the runtime alone. */
#ifndef INTRS_LAYERS_H
#define INTRS_LAYERS_H

#include "intrs_data.h"

/* What a layer works on. */
typedef struct {
  const uint8_t* data;
  uint8_t* arena;
  const intrs_layer* layer;
  const intrs_tensor* tensors;
  const intrs_tensor* out;
} intrs_work;

static inline const intrs_tensor* intrs_input(const intrs_work* work, uint32_t i) {
  return &work->tensors[intrs_inputs(work->layer)[i]];
}

static inline int8_t* intrs_codes(const intrs_work* work, const intrs_tensor* tensor) {
  return (int8_t*)(work->arena + tensor->at);
}

/* clamp(value + zero_point, low, high) without the sum, which could overflow in a network that nobody checked. */
static inline int8_t intrs_saturated(int32_t value, int32_t zero_point, int32_t low, int32_t high) {
  return (int8_t)(intrs_clamp(value, low - zero_point, high - zero_point) + zero_point);
}

/* The numbers of an addition of codes: clamp((a * multiplier_a + b * multiplier_b + all) >> shift, low, high) +
 * zero_point. intrs_helium.h knows their order. */
typedef struct {
  uint32_t multiplier_a, multiplier_b, all;
  int32_t shift, low, high, zero_point;
} intrs_adding;

void intrs_run_conv(const intrs_work* work); /* intrs_conv.c */

#endif
