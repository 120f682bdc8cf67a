/* Every kind of layer, on one sample: core/kernels/scalar.cpp says what each means. Tensors hold int8 codes in the
 * order height, width, channels. The memory plan lets some layers write over their own input, in the order of the loops
 * here: src/intrs/exchange/device/memory.py states what each layer has read by the time it writes. */
#include "intrs_kernels.h"

/* What a layer works on. */
typedef struct {
  const uint8_t* data;
  uint8_t* arena;
  const intrs_layer* layer;
  const intrs_tensor* tensors;
  const intrs_tensor* out;
} intrs_work;

static const intrs_tensor* input(const intrs_work* work, uint32_t i) {
  return &work->tensors[intrs_inputs(work->layer)[i]];
}

static int8_t* codes(const intrs_work* work, const intrs_tensor* tensor) {
  return (int8_t*)(work->arena + tensor->at);
}

/* clamp(value + zero_point, low, high) without the sum, which could overflow in a network that nobody checked. */
static inline int8_t saturated(int32_t value, int32_t zero_point, int32_t low, int32_t high) {
  return (int8_t)(intrs_clamp(value, low - zero_point, high - zero_point) + zero_point);
}

/* --- Conv --- */

typedef struct {
  const intrs_conv* conv;
  const intrs_tensor *in, *out;
  const int8_t* codes;
  int16_t* rows;           /* a ring: row y of the input lies in place y % span */
  uint32_t row, span;      /* values in a row, rows in the ring */
  uint32_t first_y, first; /* of the kernel rows that lie inside the input: the first, and its place in the ring */
  uint32_t count_y;        /* their number */
  const int32_t *bias, *multiplier;
  const int8_t *shift, *weights;
  int8_t* to; /* this row of the output */
} intrs_conv_work;

/* A row of the input as int16 without zero point. */
static void widen_row(const intrs_conv_work* c, uint32_t y) {
  const uint32_t count = c->in->width * c->in->channels;
  const int8_t* from = c->codes + y * count;
  int16_t* to = c->rows + (y % c->span) * c->row + c->conv->window.left * c->in->channels;
  const int32_t zero_point = c->conv->input_zero_point;
  uint32_t i;
  for (i = 0; i < count; ++i) to[i] = (int16_t)(from[i] - zero_point);
}

/* RESCALE of one output. */
typedef struct {
  int32_t multiplier, low, high, zero_point;
  int32_t more; /* rounding term and zero point of `quick`, as upper words */
  int shift, twice;
  int quick; /* one long multiplication is enough, and codes are saturated to int8 alone */
} intrs_scale;

static intrs_scale scale_of(const intrs_conv_work* c, uint32_t output) {
  const intrs_conv* conv = c->conv;
  const uint32_t entry = conv->scales == 1 ? 0 : output;
  intrs_scale scale;
  scale.multiplier = c->multiplier[entry];
  scale.shift = c->shift[entry];
  scale.twice = conv->twice != 0;
  scale.zero_point = conv->output_zero_point;
  scale.low = conv->low;
  scale.high = conv->high;
  scale.quick = scale.shift > 32 && scale.shift <= 54 && !scale.twice && !conv->wide;
  scale.quick = scale.quick && conv->low == -128 && conv->high == 127;
  scale.more = 0;
  if (scale.quick) { /* |more| < 2^30, and so is the product's upper word */
    scale.more = ((int32_t)1 << (scale.shift - 33)) + scale.zero_point * ((int32_t)1 << (scale.shift - 32));
  }
  return scale;
}

static inline int8_t quick_code(const intrs_scale* s, int32_t sum) {
  return (int8_t)intrs_clamp(intrs_high_plus(sum, s->multiplier, s->more) >> (s->shift - 32), -128, 127);
}

static int8_t code_of(const intrs_scale* s, int32_t sum) {
  if (s->quick) return quick_code(s, sum);
  return saturated(intrs_rescale_as(sum, s->multiplier, s->shift, s->twice), s->zero_point, s->low, s->high);
}

/* A class score, which is not saturated. */
static void store_wide(const intrs_scale* s, int8_t* to, int32_t sum) {
  const int32_t value = intrs_rescale_as(sum, s->multiplier, s->shift, s->twice);
  memcpy(to, &value, sizeof value);
}

/* One or two outputs of a group, for all places of a row. */
typedef struct {
  intrs_walk walk;
  const int16_t* values;    /* of this place, in the first row of the ring */
  uint32_t runs, step;      /* in a kernel row; values from one to the next */
  uint32_t output, outputs; /* the first one, and 1 or 2 */
  int8_t* to;               /* the first output's code at this place */
  intrs_scale first, second;
  intrs_sums bias;
} intrs_conv_pair;

/* The sums of the window at one or two places. */
static void conv_block(const intrs_conv_work* c, intrs_conv_pair* p, intrs_walk_of walk_of, intrs_sums* sums) {
  const int8_t* const weights = p->walk.weights;
  const int16_t *const pairs = p->walk.pairs, *values = p->values;
  uint32_t t;
  *sums = p->bias;
  if (c->count_y == 0) return;
  for (t = 0;;) {
    p->walk.first = values + c->first * c->row;
    p->walk.end = values + p->walk.wrap;
    p->walk.rows = c->count_y;
    walk_of(&p->walk, sums);
    if (++t == p->runs) break;
    values += p->step;
    p->walk.weights += p->walk.run;
    if (pairs) p->walk.pairs += 2 * p->walk.run;
  }
  p->walk.weights = weights;
  p->walk.pairs = pairs;
}

/* The codes of one or two places. */
static void store(const intrs_conv_pair* p, const intrs_sums* sums, uint32_t channels, int places) {
  int8_t* to = p->to;
  if (p->first.quick && p->second.quick && p->outputs == 2 && places == 2) {
    to[0] = quick_code(&p->first, sums->at[0]);
    to[1] = quick_code(&p->second, sums->at[2]);
    to[channels] = quick_code(&p->first, sums->at[1]);
    to[channels + 1] = quick_code(&p->second, sums->at[3]);
    return;
  }
  to[0] = code_of(&p->first, sums->at[0]);
  if (places == 2) to[channels] = code_of(&p->first, sums->at[1]);
  if (p->outputs == 1) return;
  to[1] = code_of(&p->second, sums->at[2]);
  if (places == 2) to[channels + 1] = code_of(&p->second, sums->at[3]);
}

/* A row of these outputs, two places at a time. */
static void conv_places(const intrs_conv_work* c, intrs_conv_pair* p, intrs_walk_of two) {
  const intrs_walk_of one = p->outputs == 2 ? intrs_walk_21 : intrs_walk_11;
  const uint32_t channels = c->out->channels;
  uint32_t left;
  intrs_sums sums;
  for (left = c->out->width; left >= 2; left -= 2, p->to += 2 * channels) {
    conv_block(c, p, two, &sums);
    store(p, &sums, channels, 2);
    p->values += 2 * p->walk.stride;
  }
  if (left == 0) return;
  conv_block(c, p, one, &sums);
  if (c->conv->wide) { /* class scores have one place */
    store_wide(&p->first, p->to, sums.at[0]);
    if (p->outputs == 2) store_wide(&p->second, p->to + 4, sums.at[2]);
  } else {
    store(p, &sums, channels, 1);
  }
}

#if INTRS_PAIRS_OF_WEIGHTS
/* The weights of two outputs, for the kernel rows inside the input, as int16 in the scratch behind the rows. */
static intrs_walk_of widen_pair(const intrs_conv_work* c, intrs_conv_pair* p) {
  int16_t* to = c->rows + c->span * c->row + INTRS_CONV_SLACK;
  const int8_t* weights = p->walk.weights;
  p->walk.pairs = to;
  intrs_widen(to, weights, weights + p->walk.next, c->count_y * p->runs * p->walk.run);
  return c->in->channels % 2 == 0 && c->conv->per_group % 2 == 0 ? intrs_walk_pairs_even : intrs_walk_pairs_odd;
}
#endif

static void conv_pair(const intrs_conv_work* c, intrs_conv_pair* p) {
  const uint32_t last = p->output + p->outputs - 1;
  intrs_walk_of two = p->outputs == 2 ? intrs_walk_22 : intrs_walk_12;
  p->first = scale_of(c, p->output);
  p->second = scale_of(c, last);
  p->bias.at[0] = p->bias.at[1] = c->bias[p->output];
  p->bias.at[2] = p->bias.at[3] = c->bias[last];
  p->to = c->to + p->output * (c->conv->wide ? 4u : 1u);
  p->walk.pairs = 0;
#if INTRS_PAIRS_OF_WEIGHTS
  if (c->conv->method == INTRS_PAIRS && p->outputs == 2) two = widen_pair(c, p);
#endif
  conv_places(c, p, two);
}

/* A row of one group: outputs in pairs, the last one alone if their number is odd. */
static void conv_group(const intrs_conv_work* c, uint32_t group) {
  const intrs_conv* conv = c->conv;
  const uint32_t each = c->out->channels / conv->groups, end = (group + 1) * each;
  intrs_conv_pair p;
  p.runs = intrs_conv_runs(conv);
  p.step = conv->window.dilation_x * c->in->channels;
  p.walk.run = intrs_conv_run(conv);
  p.walk.down = conv->window.dilation_y * c->row;
  p.walk.wrap = c->span * c->row;
  p.walk.stride = conv->window.stride_x * c->in->channels;
  p.walk.skip = (p.runs - 1) * p.walk.run;
  p.walk.next = conv->window.height * p.runs * p.walk.run;
  for (p.output = group * each; p.output < end; p.output += p.outputs) {
    p.outputs = p.output + 1 < end ? 2 : 1;
    p.values = c->rows + group * conv->per_group;
    p.walk.weights = c->weights + p.output * p.walk.next + c->first_y * p.runs * p.walk.run;
    conv_pair(c, &p);
  }
}

/* One channel at one place, where every channel has a kernel of its own. */
static void conv_channel(const intrs_conv_work* c, uint32_t channel, uint32_t x) {
  const intrs_conv* conv = c->conv;
  const uint32_t channels = c->in->channels, kernel_row = conv->window.width * channels;
  const uint32_t step = conv->window.dilation_x * channels;
  const int8_t* weight = c->weights + c->first_y * kernel_row + channel;
  int32_t sum = c->bias[channel];
  intrs_scale scale;
  uint32_t k, t, place = c->first;
  for (k = 0; k < c->count_y; ++k) {
    const int16_t* value = c->rows + place * c->row + x * conv->window.stride_x * channels + channel;
    for (t = 0; t < conv->window.width; ++t, weight += channels, value += step) {
      sum = intrs_plus(sum, *weight * *value);
    }
    place += conv->window.dilation_y;
    if (place >= c->span) place -= c->span;
  }
  scale = scale_of(c, channel);
  if (conv->wide) {
    store_wide(&scale, c->to + 4 * channel, sum);
  } else {
    c->to[x * channels + channel] = code_of(&scale, sum);
  }
}

static void conv_row(const intrs_conv_work* c) {
  uint32_t i, x;
  if (!c->conv->by_channel) {
    for (i = 0; i < c->conv->groups; ++i) conv_group(c, i);
    return;
  }
  for (x = 0; x < c->out->width; ++x) {
    for (i = 0; i < c->out->channels; ++i) conv_channel(c, i, x);
  }
}

/* Which rows of the kernel lie inside the input at row `y` of the output: the first tap is `top` above it. */
static void place_kernel(intrs_conv_work* c, uint32_t y) {
  const intrs_window* w = &c->conv->window;
  const uint32_t begin = y * w->stride_y; /* in the padded input */
  uint32_t end = w->height;
  c->first_y = begin < w->top ? (w->top - begin + w->dilation_y - 1) / w->dilation_y : 0;
  if (begin + (w->height - 1) * w->dilation_y >= w->top + c->in->height) {
    const uint32_t bottom = w->top + c->in->height; /* the first padded row below the input */
    end = begin < bottom ? (bottom - begin + w->dilation_y - 1) / w->dilation_y : 0;
  }
  c->count_y = c->first_y < end ? end - c->first_y : 0;
  c->first = c->count_y ? (begin + c->first_y * w->dilation_y - w->top) % c->span : 0;
}

/* The rows of the input below `wanted` are in the ring before any row of the output that needs them is written. */
static void run_conv(const intrs_work* work) {
  const intrs_conv* conv = (const intrs_conv*)intrs_fields(work->layer);
  const intrs_window* w = &conv->window;
  const uint32_t out_row = work->out->width * work->out->channels * (conv->wide ? 4u : 1u);
  intrs_conv_work c;
  uint32_t y, loaded = 0;
  c.conv = conv;
  c.in = input(work, 0);
  c.out = work->out;
  c.codes = codes(work, c.in);
  c.rows = (int16_t*)(void*)(work->arena + work->layer->scratch);
  c.row = intrs_conv_row(conv, c.in);
  c.span = intrs_conv_span(conv);
  c.bias = (const int32_t*)intrs_words(work->data, conv->bias_at);
  c.multiplier = (const int32_t*)intrs_words(work->data, conv->multiplier_at);
  c.shift = (const int8_t*)(work->data + conv->shift_at);
  c.weights = (const int8_t*)(work->data + conv->weights_at);
  c.to = codes(work, c.out);
  memset(c.rows, 0, sizeof(int16_t) * (c.span * c.row + INTRS_CONV_SLACK));
  for (y = 0; y < c.out->height; ++y, c.to += out_row) {
    const uint32_t below = y * w->stride_y + c.span; /* in the padded input */
    const uint32_t inside = below > w->top ? below - w->top : 0;
    const uint32_t wanted = inside < c.in->height ? inside : c.in->height;
    if (loaded + c.span < wanted) loaded = wanted - c.span; /* a stride beyond the kernel leaves rows out */
    for (; loaded < wanted; ++loaded) widen_row(&c, loaded);
    place_kernel(&c, y);
    conv_row(&c);
  }
}

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
  const intrs_tensor* in = input(work, 0);
  int8_t* to = codes(work, work->out);
  uint32_t y, x, c;
  for (y = 0; y < work->out->height; ++y) {
    const intrs_extent rows = extent(y, w->stride_y, w->height, w->top, in->height);
    for (x = 0; x < work->out->width; ++x) {
      const intrs_extent columns = extent(x, w->stride_x, w->width, w->left, in->width);
      for (c = 0; c < in->channels; ++c) *to++ = largest(codes(work, in) + c, in, rows, columns);
    }
  }
}

static void run_avg_pool(const intrs_work* work) {
  const intrs_pool* pool = (const intrs_pool*)intrs_fields(work->layer);
  const intrs_window* w = &pool->window;
  const intrs_tensor* in = input(work, 0);
  int8_t* to = codes(work, work->out);
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
        const int32_t sum = total(codes(work, in) + c, in, rows, columns, pool->input_zero_point);
        *to++ = saturated(intrs_rescale(sum, multiplier, shift), pool->output_zero_point, -128, 127);
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
  const intrs_tensor *a = input(work, 0), *b = input(work, 1);
  intrs_pair pair;
  pair.a = codes(work, a);
  pair.b = codes(work, b);
  pair.places = work->out->height * work->out->width;
  pair.channels = work->out->channels;
  pair.step_a = a->height == work->out->height && a->width == work->out->width ? pair.channels : 0;
  pair.step_b = b->height == work->out->height && b->width == work->out->width ? pair.channels : 0;
  return pair;
}

static void run_add(const intrs_work* work) {
  const intrs_add* add = (const intrs_add*)intrs_fields(work->layer);
  const uint32_t half = (uint32_t)1 << (add->shift - 1);
  intrs_pair pair = pair_of(work);
  int8_t* to = codes(work, work->out);
  uint32_t i, c;
  for (i = 0; i < pair.places; ++i, pair.a += pair.step_a, pair.b += pair.step_b) {
    for (c = 0; c < pair.channels; ++c) {
      const uint32_t a = (uint32_t)(pair.a[c] - add->zero_point_a) * (uint32_t)add->multiplier_a;
      const uint32_t b = (uint32_t)(pair.b[c] - add->zero_point_b) * (uint32_t)add->multiplier_b;
      const int32_t sum = (int32_t)(a + b + half);
      *to++ = saturated(sum >> add->shift, add->output_zero_point, add->low, add->high);
    }
  }
}

static void run_mul(const intrs_work* work) {
  const intrs_mul* mul = (const intrs_mul*)intrs_fields(work->layer);
  intrs_pair pair = pair_of(work);
  int8_t* to = codes(work, work->out);
  uint32_t i, c;
  for (i = 0; i < pair.places; ++i, pair.a += pair.step_a, pair.b += pair.step_b) {
    for (c = 0; c < pair.channels; ++c) {
      const int32_t product = (pair.a[c] - mul->zero_point_a) * (pair.b[c] - mul->zero_point_b);
      const int32_t value = intrs_rescale_as(product, mul->multiplier, mul->shift, mul->twice != 0);
      *to++ = saturated(value, mul->output_zero_point, mul->low, mul->high);
    }
  }
}

static void run_scaled_add(const intrs_work* work) {
  const intrs_scaled_add* add = (const intrs_scaled_add*)intrs_fields(work->layer);
  const int32_t unit = (int32_t)1 << add->left_shift;
  intrs_pair pair = pair_of(work);
  int8_t* to = codes(work, work->out);
  uint32_t i, c;
  for (i = 0; i < pair.places; ++i, pair.a += pair.step_a, pair.b += pair.step_b) {
    for (c = 0; c < pair.channels; ++c) {
      const int32_t a = intrs_rescale_twice((pair.a[c] - add->zero_point_a) * unit, add->multiplier_a, add->shift_a);
      const int32_t b = intrs_rescale_twice((pair.b[c] - add->zero_point_b) * unit, add->multiplier_b, add->shift_b);
      const int32_t sum = (int32_t)(add->subtract ? (uint32_t)a - (uint32_t)b : (uint32_t)a + (uint32_t)b);
      const int32_t value = intrs_rescale_twice(sum, add->multiplier_sum, add->shift_sum);
      *to++ = saturated(value, add->output_zero_point, add->low, add->high);
    }
  }
}

static void run_requantise(const intrs_work* work) {
  const intrs_requantise* layer = (const intrs_requantise*)intrs_fields(work->layer);
  const int8_t* from = codes(work, input(work, 0));
  int8_t* to = codes(work, work->out);
  const uint32_t count = intrs_size(work->out);
  uint32_t i;
  for (i = 0; i < count; ++i) {
    const int32_t code = from[i] - layer->input_zero_point;
    const int32_t value = intrs_rescale_as(code, layer->multiplier, layer->shift, layer->twice != 0);
    to[i] = saturated(value, layer->output_zero_point, layer->low, layer->high);
  }
}

static void run_code_table(const intrs_work* work) {
  const intrs_code_table* table = (const intrs_code_table*)intrs_fields(work->layer);
  const int8_t* results = (const int8_t*)(work->data + table->results_at);
  const int8_t* from = codes(work, input(work, 0));
  int8_t* to = codes(work, work->out);
  const uint32_t count = intrs_size(work->out);
  uint32_t i;
  for (i = 0; i < count; ++i) to[i] = results[from[i] + 128];
}

/* --- layers that move codes --- */

static void run_concat(const intrs_work* work) {
  const uint32_t places = work->out->height * work->out->width;
  uint32_t i, place, c, first = 0;
  for (i = 0; i < work->layer->inputs; ++i) {
    const intrs_tensor* in = input(work, i);
    const int8_t* from = codes(work, in);
    int8_t* to = codes(work, work->out) + first;
    for (place = 0; place < places; ++place, to += work->out->channels) {
      for (c = 0; c < in->channels; ++c) to[c] = *from++;
    }
    first += in->channels;
  }
}

static void run_pad(const intrs_work* work) {
  const intrs_pad* pad = (const intrs_pad*)intrs_fields(work->layer);
  const intrs_tensor *in = input(work, 0), *out = work->out;
  const int8_t* from = codes(work, in);
  uint32_t y, i;
  memset(codes(work, out), (int)(uint8_t)pad->value, intrs_size(out));
  for (y = 0; y < in->height; ++y) {
    int8_t* to = codes(work, out) + ((y + pad->top) * out->width + pad->left) * out->channels;
    for (i = 0; i < in->width * in->channels; ++i) to[i] = *from++;
  }
}

static uint32_t gathered(const uint8_t* data, uint32_t count, uint32_t at, uint32_t i) {
  return count ? intrs_words(data, at)[i] : i;
}

static void run_gather(const intrs_work* work) {
  const intrs_gather* gather = (const intrs_gather*)intrs_fields(work->layer);
  const intrs_tensor* in = input(work, 0);
  int8_t* to = codes(work, work->out);
  uint32_t y, x, c;
  for (y = 0; y < work->out->height; ++y) {
    const uint32_t row = gathered(work->data, gather->rows, gather->rows_at, y) * in->width;
    for (x = 0; x < work->out->width; ++x) {
      const uint32_t column = gathered(work->data, gather->columns, gather->columns_at, x);
      const int8_t* from = codes(work, in) + (row + column) * in->channels;
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
    case INTRS_CONV_DOUBLE: run_conv(work); break;
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
