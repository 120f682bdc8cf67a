/* Every kind of layer, on one sample: core/kernels/scalar.cpp says what each means. Tensors hold int8 codes in the
 * order height, width, channels. The memory plan lets some layers write over their own input, in the order of the loops
 * here: src/intrs/exchange/device/memory.py states what each layer has read by the time it writes. */
#include "intrs_layers.h"

#include <string.h>

#include "intrs_helium.h"

/* --- pools --- */

typedef struct {
  uint32_t begin, end;
} intrs_extent; /* of a window along one axis, inside the input */

static intrs_extent extent(uint32_t place, uint32_t stride, uint32_t kernel, uint32_t before, uint32_t size) {
  const uint32_t begin = place * stride, end = begin + kernel;
  intrs_extent found;
  found.begin = begin < before ? 0 : begin - before;
  found.end = end < before ? 0 : end - before;
  if (found.begin > size) found.begin = size;
  if (found.end > size) found.end = size;
  return found;
}

static int8_t largest(const int8_t* from, const intrs_tensor* in, intrs_extent rows, intrs_extent columns) {
  int8_t best = -128;
  uint32_t y, x;
  for (y = rows.begin; y < rows.end; ++y) {
    for (x = columns.begin; x < columns.end; ++x) {
      const int8_t code = from[(y * in->width + x) * in->channels];
      if (code > best) best = code;
    }
  }
  return best;
}

static int32_t total(const int8_t* from, const intrs_tensor* in, intrs_extent rows, intrs_extent columns,
                     int32_t zero_point) {
  int32_t sum = 0;
  uint32_t y, x;
  for (y = rows.begin; y < rows.end; ++y) {
    for (x = columns.begin; x < columns.end; ++x) sum += from[(y * in->width + x) * in->channels] - zero_point;
  }
  return sum;
}

static void run_max_pool(const intrs_work* work) {
  const intrs_window* w = &((const intrs_pool*)intrs_fields(work->layer))->window;
  const intrs_tensor* in = intrs_input(work, 0);
  int8_t* to = intrs_codes(work, work->out);
  uint32_t y, x, c;
  for (y = 0; y < work->out->height; ++y) {
    const intrs_extent rows = extent(y, w->stride_y, w->height, w->top, in->height);
    for (x = 0; x < work->out->width; ++x) {
      const intrs_extent columns = extent(x, w->stride_x, w->width, w->left, in->width);
      for (c = 0; c < in->channels; ++c) *to++ = largest(intrs_codes(work, in) + c, in, rows, columns);
    }
  }
}

static void run_avg_pool(const intrs_work* work) {
  const intrs_pool* pool = (const intrs_pool*)intrs_fields(work->layer);
  const intrs_window* w = &pool->window;
  const intrs_tensor* in = intrs_input(work, 0);
  int8_t* to = intrs_codes(work, work->out);
  uint32_t y, x, c, count = 0;
  int32_t multiplier = 0;
  int shift = 0;
  for (y = 0; y < work->out->height; ++y) {
    const intrs_extent rows = extent(y, w->stride_y, w->height, w->top, in->height);
    for (x = 0; x < work->out->width; ++x) {
      const intrs_extent columns = extent(x, w->stride_x, w->width, w->left, in->width);
      const uint32_t places = (rows.end - rows.begin) * (columns.end - columns.begin);
      if (places != count) intrs_reciprocal(count = places, &multiplier, &shift); /* a division of 64 bits */
      for (c = 0; c < in->channels; ++c) {
        const int32_t sum = total(intrs_codes(work, in) + c, in, rows, columns, pool->input_zero_point);
        *to++ = intrs_saturated(intrs_rescale(sum, multiplier, shift), pool->output_zero_point, -128, 127);
      }
    }
  }
}

/* --- layers of codes one by one --- */

/* Two inputs, of which one may be a single pixel that stands for all places. */
typedef struct {
  const int8_t *a, *b;
  uint32_t places, channels;
  uint32_t step_a, step_b; /* from one place to the next; 0 for a single pixel */
} intrs_pair;

static intrs_pair pair_of(const intrs_work* work) {
  const intrs_tensor *a = intrs_input(work, 0), *b = intrs_input(work, 1);
  intrs_pair pair;
  pair.a = intrs_codes(work, a);
  pair.b = intrs_codes(work, b);
  pair.places = work->out->height * work->out->width;
  pair.channels = work->out->channels;
  pair.step_a = a->height == work->out->height && a->width == work->out->width ? pair.channels : 0;
  pair.step_b = b->height == work->out->height && b->width == work->out->width ? pair.channels : 0;
  return pair;
}

#if INTRS_KERNELS != 2
static void intrs_walk_add(int8_t* to, const int8_t* a, const int8_t* b, uint32_t count, const intrs_adding* adding) {
  const intrs_adding add = *adding; /* a copy: stores of codes could change it otherwise, to a compiler */
  uint32_t i;
  for (i = 0; i < count; ++i) {
    const uint32_t sum = (uint32_t)a[i] * add.multiplier_a + (uint32_t)b[i] * add.multiplier_b + add.all;
    to[i] = (int8_t)(intrs_clamp((int32_t)sum >> add.shift, add.low, add.high) + add.zero_point);
  }
}
#endif

static void run_add(const intrs_work* work) {
  const intrs_add* add = (const intrs_add*)intrs_fields(work->layer);
  intrs_pair pair = pair_of(work);
  int8_t* to = intrs_codes(work, work->out);
  uint32_t i;
  intrs_adding adding;
  adding.multiplier_a = (uint32_t)add->multiplier_a;
  adding.multiplier_b = (uint32_t)add->multiplier_b;
  adding.all = ((uint32_t)1 << (add->shift - 1)) - (uint32_t)add->zero_point_a * adding.multiplier_a -
               (uint32_t)add->zero_point_b * adding.multiplier_b;
  adding.shift = add->shift;
  adding.low = add->low - add->output_zero_point;
  adding.high = add->high - add->output_zero_point;
  adding.zero_point = add->output_zero_point;
  if (pair.step_a != 0 && pair.step_b != 0) { /* all places at once */
    pair.channels *= pair.places;
    pair.places = 1;
  }
  for (i = 0; i < pair.places; ++i, pair.a += pair.step_a, pair.b += pair.step_b, to += pair.channels) {
    intrs_walk_add(to, pair.a, pair.b, pair.channels, &adding);
  }
}

static void run_mul(const intrs_work* work) {
  const intrs_mul* mul = (const intrs_mul*)intrs_fields(work->layer);
  intrs_pair pair = pair_of(work);
  int8_t* to = intrs_codes(work, work->out);
  uint32_t i, c;
  for (i = 0; i < pair.places; ++i, pair.a += pair.step_a, pair.b += pair.step_b) {
    for (c = 0; c < pair.channels; ++c) {
      const int32_t product = (pair.a[c] - mul->zero_point_a) * (pair.b[c] - mul->zero_point_b);
      const int32_t value = intrs_rescale_as(product, mul->multiplier, mul->shift, mul->twice != 0);
      *to++ = intrs_saturated(value, mul->output_zero_point, mul->low, mul->high);
    }
  }
}

static void run_scaled_add(const intrs_work* work) {
  const intrs_scaled_add* add = (const intrs_scaled_add*)intrs_fields(work->layer);
  const int32_t unit = (int32_t)1 << add->left_shift;
  intrs_pair pair = pair_of(work);
  int8_t* to = intrs_codes(work, work->out);
  uint32_t i, c;
  for (i = 0; i < pair.places; ++i, pair.a += pair.step_a, pair.b += pair.step_b) {
    for (c = 0; c < pair.channels; ++c) {
      const int32_t a = intrs_rescale_twice((pair.a[c] - add->zero_point_a) * unit, add->multiplier_a, add->shift_a);
      const int32_t b = intrs_rescale_twice((pair.b[c] - add->zero_point_b) * unit, add->multiplier_b, add->shift_b);
      const int32_t sum = (int32_t)(add->subtract ? (uint32_t)a - (uint32_t)b : (uint32_t)a + (uint32_t)b);
      const int32_t value = intrs_rescale_twice(sum, add->multiplier_sum, add->shift_sum);
      *to++ = intrs_saturated(value, add->output_zero_point, add->low, add->high);
    }
  }
}

static void run_requantise(const intrs_work* work) {
  const intrs_requantise* layer = (const intrs_requantise*)intrs_fields(work->layer);
  const int8_t* from = intrs_codes(work, intrs_input(work, 0));
  int8_t* to = intrs_codes(work, work->out);
  const uint32_t count = intrs_size(work->out);
  uint32_t i;
  for (i = 0; i < count; ++i) {
    const int32_t code = from[i] - layer->input_zero_point;
    const int32_t value = intrs_rescale_as(code, layer->multiplier, layer->shift, layer->twice != 0);
    to[i] = intrs_saturated(value, layer->output_zero_point, layer->low, layer->high);
  }
}

static void run_code_table(const intrs_work* work) {
  const intrs_code_table* table = (const intrs_code_table*)intrs_fields(work->layer);
  const int8_t* results = (const int8_t*)(work->data + table->results_at);
  const int8_t* from = intrs_codes(work, intrs_input(work, 0));
  int8_t* to = intrs_codes(work, work->out);
  const uint32_t count = intrs_size(work->out);
  uint32_t i;
  for (i = 0; i < count; ++i) to[i] = results[from[i] + 128];
}

/* --- layers that move codes --- */

static void run_concat(const intrs_work* work) {
  const uint32_t places = work->out->height * work->out->width;
  uint32_t i, place, c, first = 0;
  for (i = 0; i < work->layer->inputs; ++i) {
    const intrs_tensor* in = intrs_input(work, i);
    const int8_t* from = intrs_codes(work, in);
    int8_t* to = intrs_codes(work, work->out) + first;
    for (place = 0; place < places; ++place, to += work->out->channels) {
      for (c = 0; c < in->channels; ++c) to[c] = *from++;
    }
    first += in->channels;
  }
}

static void run_pad(const intrs_work* work) {
  const intrs_pad* pad = (const intrs_pad*)intrs_fields(work->layer);
  const intrs_tensor *in = intrs_input(work, 0), *out = work->out;
  const int8_t* from = intrs_codes(work, in);
  uint32_t y, i;
  memset(intrs_codes(work, out), (int)(uint8_t)pad->value, intrs_size(out));
  for (y = 0; y < in->height; ++y) {
    int8_t* to = intrs_codes(work, out) + ((y + pad->top) * out->width + pad->left) * out->channels;
    for (i = 0; i < in->width * in->channels; ++i) to[i] = *from++;
  }
}

static uint32_t gathered(const uint8_t* data, uint32_t count, uint32_t at, uint32_t i) {
  return count ? intrs_words(data, at)[i] : i;
}

static void run_gather(const intrs_work* work) {
  const intrs_gather* gather = (const intrs_gather*)intrs_fields(work->layer);
  const intrs_tensor* in = intrs_input(work, 0);
  int8_t* to = intrs_codes(work, work->out);
  uint32_t y, x, c;
  for (y = 0; y < work->out->height; ++y) {
    const uint32_t row = gathered(work->data, gather->rows, gather->rows_at, y) * in->width;
    for (x = 0; x < work->out->width; ++x) {
      const uint32_t column = gathered(work->data, gather->columns, gather->columns_at, x);
      const int8_t* from = intrs_codes(work, in) + (row + column) * in->channels;
      for (c = 0; c < work->out->channels; ++c) {
        *to++ = from[gathered(work->data, gather->channels, gather->channels_at, c)];
      }
    }
  }
}

/* --- all of them --- */

static void run_layer(const intrs_work* work) {
  switch (work->layer->kind) {
    case INTRS_CONV:
    case INTRS_CONV_DOUBLE: intrs_run_conv(work); break;
    case INTRS_ADD: run_add(work); break;
    case INTRS_MAX_POOL: run_max_pool(work); break;
    case INTRS_AVG_POOL: run_avg_pool(work); break;
    case INTRS_REQUANTISE:
    case INTRS_REQUANTISE_DOUBLE: run_requantise(work); break;
    case INTRS_CONCAT: run_concat(work); break;
    case INTRS_PAD: run_pad(work); break;
    case INTRS_CODE_TABLE: run_code_table(work); break;
    case INTRS_MUL: run_mul(work); break;
    case INTRS_SCALED_ADD: run_scaled_add(work); break;
    case INTRS_GATHER: run_gather(work); break;
    default: break; /* intrs_check lets no other kind pass */
  }
}

void intrs_run_layers(const intrs_net* net) {
  const intrs_header* header = intrs_header_of(net->data);
  uint32_t i, at = header->layers_at;
  intrs_work work;
  work.data = net->data;
  work.arena = net->arena;
  work.tensors = intrs_tensors_of(net->data);
  for (i = 1; i < header->tensors; ++i) {
    work.layer = (const intrs_layer*)(const void*)intrs_words(net->data, at);
    work.out = &work.tensors[i];
    run_layer(&work);
    at += 4 * work.layer->words;
  }
}

int32_t intrs_score(const intrs_net* net, uint32_t label) {
  const intrs_header* header = intrs_header_of(net->data);
  const uint8_t* scores = net->arena + intrs_tensors_of(net->data)[header->tensors - 1].at;
  int32_t score;
  if (!header->wide) return ((const int8_t*)scores)[label];
  memcpy(&score, scores + 4 * label, sizeof score);
  return score;
}

/* The lowest class at equal scores, as TOSA ARGMAX. */
uint32_t intrs_top_class(const intrs_net* net) {
  const uint32_t classes = intrs_classes(net);
  uint32_t label, best = 0;
  for (label = 1; label < classes; ++label) {
    if (intrs_score(net, label) > intrs_score(net, best)) best = label;
  }
  return best;
}
