/* Convolutions, row by row or by tiles. The input is read in rows of int16 without zero point, in a scratch part of the
 * arena; see intrs_data.h for the methods. */
#include "intrs_helium.h"
#include "intrs_kernels.h"
#include "intrs_layers.h"

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
  int plain;  /* codes are rounded once, and saturated to int8 alone */
  int8_t* to; /* this row of the output */
#if INTRS_KERNELS == 2
  int helium; /* the ring holds codes as they are, for Helium */
#endif
} intrs_conv_work;

/* A row of the input as int16 without zero point, in this place of the ring. */
static void widen_row(const intrs_conv_work* c, uint32_t y, uint32_t place) {
  const uint32_t count = c->in->width * c->in->channels;
  int16_t* to = c->rows + place * c->row + c->conv->window.left * c->in->channels;
  intrs_widen_codes(to, c->codes + y * count, count, c->conv->input_zero_point);
}

#if INTRS_KERNELS == 2

static void load_row(const intrs_conv_work* c, uint32_t y, uint32_t place) {
  const uint32_t count = c->in->width * c->in->channels;
  int8_t* codes = (int8_t*)c->rows + place * c->row + c->conv->window.left * c->in->channels;
  if (c->helium) {
    intrs_copy_codes(codes, c->codes + y * count, count);
  } else {
    widen_row(c, y, place);
  }
}

#else

#define load_row widen_row

#endif

/* Padding stands for 0. */
static void clear_ring(const intrs_conv_work* c) {
  const uint32_t values = c->span * c->row + INTRS_CONV_SLACK;
#if INTRS_KERNELS == 2
  if (c->helium) {
    memset(c->rows, c->conv->input_zero_point, values);
    return;
  }
#endif
  memset(c->rows, 0, sizeof(int16_t) * values);
}

/* RESCALE of one output. */
typedef struct {
  int32_t multiplier;
  int32_t more; /* rounding term and zero point of `quick`, as upper words */
  int shift;
  int down;  /* shift of the upper words */
  int quick; /* one long multiplication is enough */
} intrs_scale;

static intrs_scale scale_of(const intrs_conv_work* c, uint32_t output) {
  const uint32_t entry = c->conv->scales == 1 ? 0 : output;
  intrs_scale scale;
  scale.multiplier = c->multiplier[entry];
  scale.shift = c->shift[entry];
  scale.down = scale.shift - 32;
  scale.quick = c->plain && scale.down > 0 && scale.down <= 22;
  scale.more = 0;
  if (scale.quick) { /* |more| < 2^30, and so is the product's upper word */
    scale.more = (1 + 2 * c->conv->output_zero_point) * ((int32_t)1 << (scale.down - 1));
  }
  return scale;
}

INTRS_INLINE int32_t quick_code(const intrs_scale* s, int32_t sum) {
  return intrs_saturated_int8(intrs_high_plus(sum, s->multiplier, s->more) >> s->down);
}

static int8_t slow_code(const intrs_conv* conv, const intrs_scale* s, int32_t sum) {
  const int32_t value = intrs_rescale_as(sum, s->multiplier, s->shift, conv->twice != 0);
  return intrs_saturated(value, conv->output_zero_point, conv->low, conv->high);
}

INTRS_INLINE int8_t code_of(const intrs_conv* conv, const intrs_scale* s, int32_t sum) {
  return s->quick ? (int8_t)quick_code(s, sum) : slow_code(conv, s, sum);
}

/* A class score, which is not saturated. */
static void store_wide(const intrs_conv* conv, const intrs_scale* s, int8_t* to, int32_t sum) {
  const int32_t value = intrs_rescale_as(sum, s->multiplier, s->shift, conv->twice != 0);
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
static void store_slowly(const intrs_conv* conv, const intrs_conv_pair* p, const intrs_sums* sums, uint32_t channels,
                         int places) {
  int8_t* to = p->to;
  to[0] = code_of(conv, &p->first, sums->at[0]);
  if (places == 2) to[channels] = code_of(conv, &p->first, sums->at[1]);
  if (p->outputs == 1) return;
  to[1] = code_of(conv, &p->second, sums->at[2]);
  if (places == 2) to[channels + 1] = code_of(conv, &p->second, sums->at[3]);
}

/* Two outputs at two places. All codes are computed before one is stored: a store could change anything, to a compiler.
 */
INTRS_INLINE void store_quickly(const intrs_conv_pair* p, const intrs_sums* sums, uint32_t channels) {
  const int32_t a = quick_code(&p->first, sums->at[0]), b = quick_code(&p->first, sums->at[1]);
  const int32_t c = quick_code(&p->second, sums->at[2]), d = quick_code(&p->second, sums->at[3]);
  p->to[0] = (int8_t)a;
  p->to[1] = (int8_t)c;
  p->to[channels] = (int8_t)b;
  p->to[channels + 1] = (int8_t)d;
}

/* The codes or class scores of the last place, if it is alone; class scores have one place. */
static void store_last(const intrs_conv_work* c, const intrs_conv_pair* p, const intrs_sums* sums) {
  if (!c->conv->wide) {
    store_slowly(c->conv, p, sums, c->out->channels, 1);
    return;
  }
  store_wide(c->conv, &p->first, p->to, sums->at[0]);
  if (p->outputs == 2) store_wide(c->conv, &p->second, p->to + 4, sums->at[2]);
}

/* A row of these outputs, two places at a time. */
static void conv_places(const intrs_conv_work* c, intrs_conv_pair* p, intrs_walk_of two) {
  const intrs_walk_of one = p->outputs == 2 ? intrs_walk_21 : intrs_walk_11;
  const uint32_t channels = c->out->channels;
  const int quick = p->first.quick && p->second.quick && p->outputs == 2;
  uint32_t left;
  intrs_sums sums;
  for (left = c->out->width; left >= 2; left -= 2, p->to += 2 * channels) {
    conv_block(c, p, two, &sums);
    if (quick) {
      store_quickly(p, &sums, channels);
    } else {
      store_slowly(c->conv, p, &sums, channels, 2);
    }
    p->values += 2 * p->walk.stride;
  }
  if (left == 0) return;
  conv_block(c, p, one, &sums);
  store_last(c, p, &sums);
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

#if INTRS_KERNELS == 2
#define CONV_GROUP INTRS_APART /* its stack and that of conv_row_helium do not add up */
#else
#define CONV_GROUP static
#endif

/* A row of one group: outputs in pairs, the last one alone if their number is odd. */
CONV_GROUP void conv_group(const intrs_conv_work* c, uint32_t group) {
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
    store_wide(conv, &scale, c->to + 4 * channel, sum);
  } else {
    c->to[x * channels + channel] = code_of(conv, &scale, sum);
  }
}

#if INTRS_KERNELS == 2

/* --- rows of plain convolutions by Helium: sum of (code - zero point) * weight is that of code * weight, and a part of
 * the bias that is known before --- */

/* The bias for codes with zero point, given the rows of the kernel that lie inside the input. */
static int32_t bias_of_codes(const intrs_conv_work* c, uint32_t output, const int8_t* weights, uint32_t run) {
  const uint32_t sum = (uint32_t)intrs_sum_of_codes(weights, c->count_y * run);
  return (int32_t)((uint32_t)c->bias[output] - sum * (uint32_t)c->conv->input_zero_point);
}

static void set_lanes(intrs_helium_row* row, uint32_t lane, const intrs_scale* s) {
  row->multiplier[lane] = row->multiplier[lane + 1] = s->multiplier;
  row->more[lane] = row->more[lane + 1] = s->more;
  row->up[lane] = row->up[lane + 1] = -s->down;
}

/* One or two outputs, from the first place on. */
static void begin_helium(const intrs_conv_work* c, intrs_helium_row* row, intrs_conv_pair* p) {
  const int8_t* values = (const int8_t*)c->rows;
  const uint32_t kernel = c->conv->window.height * row->run, last = p->output + p->outputs - 1;
  row->first = values + c->first * c->row;
  row->end = values + row->wrap;
  row->weights = c->weights + p->output * kernel + c->first_y * row->run;
  row->second = row->weights + (p->outputs - 1) * kernel;
  row->bias[0] = bias_of_codes(c, p->output, row->weights, row->run);
  row->bias[1] = bias_of_codes(c, last, row->second, row->run);
  row->to = p->to = c->to + p->output * (c->conv->wide ? 4u : 1u);
  row->pairs = c->out->width / 2;
  p->first = scale_of(c, p->output);
  p->second = scale_of(c, last);
}

/* Pairs of places, with codes by Helium. */
static void quick_helium(intrs_helium_row* row, const intrs_conv_pair* p) {
  set_lanes(row, 0, &p->first);
  set_lanes(row, 2, &p->second);
  row->sums = 0;
  intrs_walk_helium(row);
}

/* From place `x` on, with sums by Helium and codes as everywhere. */
static void slow_helium(const intrs_conv_work* c, intrs_helium_row* row, intrs_conv_pair* p, uint32_t x) {
  const uint32_t across = row->across, channels = c->out->channels;
  intrs_sums sums;
  row->sums = sums.at;
  p->to += x * channels;
  for (; x < c->out->width; x += 2, p->to += 2 * channels) {
    const int last = x + 1 == c->out->width;
    if (last) row->across = 0; /* nothing beyond the row is read */
    intrs_walk_helium(row);
    if (last) {
      store_last(c, p, &sums);
    } else {
      store_slowly(c->conv, p, &sums, channels, 2);
    }
    row->first += 2 * across;
    row->end += 2 * across;
  }
  row->across = across;
}

INTRS_APART void conv_row_helium(const intrs_conv_work* c) {
  const uint32_t channels = c->out->channels, down = c->conv->window.dilation_y * c->row;
  intrs_helium_row row;
  intrs_conv_pair p;
  row.rows = c->count_y;
  row.across = c->conv->window.stride_x * c->in->channels;
  row.run = intrs_conv_run(c->conv);
  row.beyond = (0u - row.run) & 15u;
  row.down = (int32_t)(down - row.run - row.beyond);
  row.wrap = c->span * c->row;
  row.to_across = 2 * channels;
  row.at[0] = 0;
  row.at[1] = channels;
  row.at[2] = 1;
  row.at[3] = channels + 1;
  for (p.output = 0; p.output < channels; p.output += p.outputs) {
    p.outputs = p.output + 1 < channels ? 2 : 1;
    begin_helium(c, &row, &p);
    if (row.pairs != 0 && p.outputs == 2 && p.first.quick && p.second.quick) {
      quick_helium(&row, &p);
      slow_helium(c, &row, &p, c->out->width & ~1u);
    } else {
      slow_helium(c, &row, &p, 0);
    }
  }
}

static int for_helium(const intrs_conv* conv) {
  const int plain = conv->groups == 1 && !conv->by_channel && intrs_conv_runs(conv) == 1;
  return plain && conv->method != INTRS_TILES;
}

#endif

static void conv_row(const intrs_conv_work* c) {
  uint32_t i, x;
#if INTRS_KERNELS == 2
  if (c->helium && c->count_y != 0) {
    conv_row_helium(c);
    return;
  }
#endif
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
static void run_direct(intrs_conv_work* c) {
  const intrs_window* w = &c->conv->window;
  const uint32_t out_row = c->out->width * c->out->channels * (c->conv->wide ? 4u : 1u);
  uint32_t y, loaded = 0;
  c->span = intrs_conv_span(c->conv);
  clear_ring(c);
  for (y = 0; y < c->out->height; ++y, c->to += out_row) {
    const uint32_t below = y * w->stride_y + c->span; /* in the padded input */
    const uint32_t inside = below > w->top ? below - w->top : 0;
    const uint32_t wanted = inside < c->in->height ? inside : c->in->height;
    if (loaded + c->span < wanted) loaded = wanted - c->span; /* a stride beyond the kernel leaves rows out */
    for (; loaded < wanted; ++loaded) load_row(c, loaded, loaded % c->span);
    place_kernel(c, y);
    conv_row(c);
  }
}

#if INTRS_WITH_TILES

/* --- tiles: F(2 x 2, 3 x 3) by Winograd. Four times the sums come out, exactly, because the exporter has proven that
 * they fit 32 bits; what happens in between may wrap. --- */

typedef struct {
  int16_t* values;  /* two tiles: [tile][16 places][channel] */
  intrs_sums* sums; /* of the 16 places */
} intrs_tiles;

/* Row `y` of the padded input, in its place of a ring of four. */
static void load_tile_row(const intrs_conv_work* c, uint32_t y) {
  const uint32_t top = c->conv->window.top;
  if (y >= top && y - top < c->in->height) {
    widen_row(c, y - top, y % 4);
  } else {
    memset(c->rows + (y % 4) * c->row, 0, sizeof(int16_t) * c->row);
  }
}

/* Four of the sixteen places of a tile: one row turned, from the sum or the difference of two rows of values. */
INTRS_INLINE void turn_row(int16_t* to, const int16_t* a, const int16_t* b, uint32_t channels, int minus) {
  const int16_t* const end = a + channels;
  const uint32_t two = 2 * channels, three = 3 * channels;
  for (; a != end; a += INTRS_LANES, b += INTRS_LANES, to += INTRS_LANES) {
    const intrs_lanes t0 = intrs_combined(a, b, minus), t1 = intrs_combined(a + channels, b + channels, minus);
    const intrs_lanes t2 = intrs_combined(a + two, b + two, minus), t3 = intrs_combined(a + three, b + three, minus);
    intrs_store_lanes(to, intrs_lanes_minus(t0, t2));
    intrs_store_lanes(to + channels, intrs_lanes_plus(t1, t2));
    intrs_store_lanes(to + two, intrs_lanes_minus(t2, t1));
    intrs_store_lanes(to + three, intrs_lanes_minus(t1, t3));
  }
}

/* Apart, because three copies of it would be three times as large. */
INTRS_APART void turn_difference(int16_t* to, const int16_t* a, const int16_t* b, uint32_t channels) {
  turn_row(to, a, b, channels, 1);
}

INTRS_APART void turn_sum(int16_t* to, const int16_t* a, const int16_t* b, uint32_t channels) {
  turn_row(to, a, b, channels, 0);
}

/* The values under a tile, of which the first column is `x`: row 0 - 2, 1 + 2, 2 - 1, 1 - 3, and columns alike. */
static void turn_tile(const intrs_conv_work* c, int16_t* to, uint32_t y, uint32_t x) {
  const uint32_t channels = c->in->channels;
  const int16_t* at = c->rows + x * channels;
  const int16_t *r0 = at + (y % 4) * c->row, *r1 = at + ((y + 1) % 4) * c->row;
  const int16_t *r2 = at + ((y + 2) % 4) * c->row, *r3 = at + ((y + 3) % 4) * c->row;
  turn_difference(to, r0, r2, channels);
  turn_sum(to + 4 * channels, r1, r2, channels);
  turn_difference(to + 8 * channels, r2, r1, channels);
  turn_difference(to + 12 * channels, r1, r3, channels);
}

/* Sixteen sums of one output and tile lie four words apart. Of each column 0 + 1 + 2 and 1 - 2 - 3 are taken, then of
 * the four columns alike, which gives four times the sum of products. */
INTRS_INLINE uint32_t upper_row(const int32_t* sums) {
  return (uint32_t)sums[0] + (uint32_t)sums[16] + (uint32_t)sums[32];
}

INTRS_INLINE uint32_t lower_row(const int32_t* sums) {
  return (uint32_t)sums[16] - (uint32_t)sums[32] - (uint32_t)sums[48];
}

INTRS_INLINE int32_t left_sum(int32_t bias, uint32_t a, uint32_t b, uint32_t c) {
  return intrs_plus(bias, (int32_t)(a + b + c) >> 2);
}

INTRS_INLINE int32_t right_sum(int32_t bias, uint32_t b, uint32_t c, uint32_t d) {
  return intrs_plus(bias, (int32_t)(b - c - d) >> 2);
}

static void store_tile(const intrs_conv_work* c, const int32_t* sums, int32_t bias, const intrs_scale* s, int8_t* to) {
  const uint32_t right = c->out->channels, down = c->out->width * right;
  const uint32_t a0 = upper_row(sums), a1 = upper_row(sums + 4), a2 = upper_row(sums + 8), a3 = upper_row(sums + 12);
  const uint32_t b0 = lower_row(sums), b1 = lower_row(sums + 4), b2 = lower_row(sums + 8), b3 = lower_row(sums + 12);
  int32_t p = left_sum(bias, a0, a1, a2), q = right_sum(bias, a1, a2, a3);
  int32_t r = left_sum(bias, b0, b1, b2), t = right_sum(bias, b1, b2, b3);
  if (s->quick) {
    p = quick_code(s, p), q = quick_code(s, q), r = quick_code(s, r), t = quick_code(s, t);
  } else {
    p = slow_code(c->conv, s, p), q = slow_code(c->conv, s, q);
    r = slow_code(c->conv, s, r), t = slow_code(c->conv, s, t);
  }
  to[0] = (int8_t)p;
  to[right] = (int8_t)q;
  to[down] = (int8_t)r;
  to[down + right] = (int8_t)t;
}

/* Two tiles side by side, all outputs. */
static void run_two_tiles(const intrs_conv_work* c, const intrs_tiles* tiles, int8_t* to) {
  const uint32_t channels = c->in->channels, right = c->out->channels;
  const int16_t* weights = (const int16_t*)(const void*)c->weights;
  uint32_t output, k;
  for (output = 0; output < right; output += 2, weights += 32 * channels) {
    intrs_walk_pairs_tile(weights, tiles->values, tiles->values + 16 * channels, channels, tiles->sums);
    for (k = 0; k < 2; ++k) {
      const intrs_scale scale = scale_of(c, output + k);
      const int32_t bias = c->bias[output + k];
      store_tile(c, tiles->sums->at + 2 * k, bias, &scale, to + output + k);
      store_tile(c, tiles->sums->at + 2 * k + 1, bias, &scale, to + output + k + 2 * right);
    }
  }
}

static void run_tiles(intrs_conv_work* c) {
  const uint32_t values = 32 * c->in->channels, out_row = c->out->width * c->out->channels;
  intrs_tiles tiles;
  uint32_t x, y, loaded = 0;
  tiles.values = c->rows + 4 * c->row + INTRS_CONV_SLACK;
  tiles.sums = (intrs_sums*)(void*)(tiles.values + values);
  memset(c->rows, 0, sizeof(int16_t) * 4 * c->row);
  for (y = 0; y < c->out->height; y += 2, c->to += 2 * out_row) {
    for (; loaded < y + 4; ++loaded) load_tile_row(c, loaded);
    for (x = 0; x < c->out->width; x += 4) {
      turn_tile(c, tiles.values, y, x);
      turn_tile(c, tiles.values + values / 2, y, x + 2);
      run_two_tiles(c, &tiles, c->to + x * c->out->channels);
    }
  }
}

#endif

void intrs_run_conv(const intrs_work* work) {
  const intrs_conv* conv = (const intrs_conv*)intrs_fields(work->layer);
  intrs_conv_work c;
  c.conv = conv;
  c.in = intrs_input(work, 0);
  c.out = work->out;
  c.codes = intrs_codes(work, c.in);
  c.rows = (int16_t*)(void*)(work->arena + work->layer->scratch);
  c.row = intrs_conv_row(conv, c.in);
  c.bias = (const int32_t*)intrs_words(work->data, conv->bias_at);
  c.multiplier = (const int32_t*)intrs_words(work->data, conv->multiplier_at);
  c.shift = (const int8_t*)(work->data + conv->shift_at);
  c.weights = (const int8_t*)(work->data + conv->weights_at);
  c.to = intrs_codes(work, c.out);
#if INTRS_KERNELS == 2
  c.helium = for_helium(conv);
#endif
  c.plain = !conv->twice && !conv->wide && conv->low == -128 && conv->high == 127;
#if INTRS_WITH_TILES
  if (conv->method == INTRS_TILES) {
    run_tiles(&c);
    return;
  }
#endif
  run_direct(&c);
}
