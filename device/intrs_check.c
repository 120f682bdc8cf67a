/* Whether constants fit together: every size, offset, shift and index in them, so that no later code needs to look.
 * After this, no constants whatever lead outside the constants or the arena, and no shift or division is undefined.
 * That the sums of a network fit 32 bits is proven by the exporter, and guarded by the digest. */
#include "intrs_data.h"

#define MOST_SIDE 65536u
#define MOST_KERNEL 8192u
#define MOST_ELEMENTS ((uint64_t)1 << 26)
#define MOST_SAMPLES 0x7fffffffu
#define MOST_NOISE 32767u

typedef struct {
  const uint8_t* data;
  const intrs_header* header;
  const intrs_tensor *tensors, *out;
  const intrs_layer* layer;
} intrs_look;

/* Do `count` things of `size` bytes lie between the header and the digest, aligned? */
static int inside(const intrs_header* header, uint32_t at, uint64_t count, uint32_t size) {
  const uint64_t end = header->bytes - INTRS_DIGEST_BYTES;
  const uint32_t align = size < 4 ? size : 4;
  return at >= sizeof(intrs_header) && at <= end && at % align == 0 && count <= (end - at) / size;
}

static int in_arena(const intrs_header* header, uint32_t at, uint64_t bytes) {
  return at <= header->arena_bytes && bytes <= header->arena_bytes - at;
}

static int is_code(int32_t value) {
  return value >= -128 && value <= 127;
}

static int is_clamp(int32_t zero_point, int32_t low, int32_t high) {
  return is_code(zero_point) && is_code(low) && is_code(high) && low <= high;
}

static int is_scale(int32_t multiplier, int32_t shift) {
  return multiplier >= 0 && shift >= 2 && shift <= 62;
}

static const intrs_tensor* input(const intrs_look* look, uint32_t i) {
  return &look->tensors[intrs_inputs(look->layer)[i]];
}

static int same_shape(const intrs_tensor* a, const intrs_tensor* b) {
  return a->height == b->height && a->width == b->width && a->channels == b->channels;
}

/* Does a window of `kernel` taps slide over this side so often? */
static int slides(uint32_t size, uint32_t before, uint32_t after, uint32_t kernel, uint32_t dilation, uint32_t stride,
                  uint32_t out) {
  const uint64_t padded = (uint64_t)size + before + after;
  if (kernel < 1 || kernel > MOST_KERNEL || dilation < 1 || dilation > MOST_KERNEL || stride < 1) return 0;
  if (stride > MOST_KERNEL || before > MOST_KERNEL || after > MOST_KERNEL) return 0;
  if ((uint64_t)kernel * dilation > MOST_KERNEL || (uint64_t)dilation * (kernel - 1) + 1 > padded) return 0;
  return (padded - (uint64_t)dilation * (kernel - 1) - 1) / stride + 1 == out;
}

static int window_fits(const intrs_look* look, const intrs_window* w) {
  const intrs_tensor *in = input(look, 0), *out = look->out;
  return slides(in->height, w->top, w->bottom, w->height, w->dilation_y, w->stride_y, out->height) &&
         slides(in->width, w->left, w->right, w->width, w->dilation_x, w->stride_x, out->width);
}

/* The fields of a layer, if it has them all and so many inputs. */
static const void* fields(const intrs_look* look, uint32_t inputs, uint32_t bytes) {
  const uint32_t words = (uint32_t)sizeof(intrs_layer) / 4 + inputs + bytes / 4;
  return look->layer->inputs == inputs && look->layer->words == words ? intrs_fields(look->layer) : 0;
}

static int scales_fit(const intrs_look* look, const intrs_conv* conv) {
  const int32_t* multiplier = (const int32_t*)intrs_words(look->data, conv->multiplier_at);
  const int8_t* shift = (const int8_t*)(look->data + conv->shift_at);
  uint32_t i;
  if (conv->scales != 1 && conv->scales != look->out->channels) return 0;
  if (!inside(look->header, conv->multiplier_at, conv->scales, 4)) return 0;
  if (!inside(look->header, conv->shift_at, conv->scales, 1)) return 0;
  for (i = 0; i < conv->scales; ++i) {
    if (!is_scale(multiplier[i], shift[i])) return 0;
  }
  return 1;
}

static int groups_fit(const intrs_look* look, const intrs_conv* conv) {
  const uint32_t in = input(look, 0)->channels, out = look->out->channels;
  if (conv->groups < 1 || conv->groups > in || conv->per_group < 1 || conv->per_group > in) return 0;
  if ((uint64_t)conv->groups * conv->per_group != in || out % conv->groups != 0) return 0;
  return !conv->by_channel || (conv->per_group == 1 && conv->groups == out);
}

static uint64_t weights_of(const intrs_look* look, const intrs_conv* conv) {
  const uint64_t taps = (uint64_t)conv->window.height * conv->window.width; /* at most 2^26 */
  if (conv->by_channel) return taps * look->out->channels;
  return (uint64_t)look->out->channels * conv->window.height * intrs_conv_runs(conv) * intrs_conv_run(conv);
}

static int tiles_fit(const intrs_look* look, const intrs_conv* conv) {
  const intrs_window* w = &conv->window;
  return w->height == 3 && w->width == 3 && w->stride_y == 1 && w->stride_x == 1 && w->dilation_y == 1 &&
         w->dilation_x == 1 && conv->groups == 1 && !conv->by_channel && !conv->wide && conv->per_group % 4 == 0 &&
         look->out->height % 2 == 0 && look->out->width % 4 == 0 && look->out->channels % 2 == 0;
}

static int weights_fit(const intrs_look* look, const intrs_conv* conv) {
  if (conv->method > INTRS_TILES) return 0;
  if (conv->method == INTRS_TILES && !INTRS_WITH_TILES) return 0;
  if (conv->method != INTRS_TILES) return inside(look->header, conv->weights_at, weights_of(look, conv), 1);
  return tiles_fit(look, conv) &&
         inside(look->header, conv->weights_at, (uint64_t)8 * conv->per_group * look->out->channels, 4);
}

static int conv_fits(const intrs_look* look) {
  const intrs_conv* conv = (const intrs_conv*)fields(look, 1, sizeof(intrs_conv));
  const int last = look->out == look->tensors + look->header->tensors - 1;
  uint64_t row;
  if (!conv || !window_fits(look, &conv->window) || !groups_fit(look, conv) || !scales_fit(look, conv)) return 0;
  if (!is_code(conv->input_zero_point) || !is_clamp(conv->output_zero_point, conv->low, conv->high)) return 0;
  if ((conv->wide != 0) != (last && look->header->wide)) return 0;
  row = ((uint64_t)conv->window.left + input(look, 0)->width + conv->window.right) * input(look, 0)->channels + 3;
  if (row > MOST_ELEMENTS || look->layer->scratch % 4 != 0) return 0;
  return in_arena(look->header, look->layer->scratch, intrs_conv_scratch(conv, input(look, 0))) &&
         inside(look->header, conv->bias_at, look->out->channels, 4) && weights_fit(look, conv);
}

/* Two inputs of one shape, or one of them a single pixel. */
static int pair_fits(const intrs_look* look) {
  const intrs_tensor *a = input(look, 0), *b = input(look, 1), *out = look->out;
  const int single_a = a->height == 1 && a->width == 1, single_b = b->height == 1 && b->width == 1;
  if (a->channels != out->channels || b->channels != out->channels) return 0;
  return (same_shape(a, out) && (same_shape(b, out) || single_b)) || (single_a && same_shape(b, out));
}

static int add_fits(const intrs_look* look) {
  const intrs_add* add = (const intrs_add*)fields(look, 2, sizeof(intrs_add));
  return add && pair_fits(look) && is_code(add->zero_point_a) && is_code(add->zero_point_b) && add->shift >= 2 &&
         add->shift <= 30 && is_clamp(add->output_zero_point, add->low, add->high);
}

static int mul_fits(const intrs_look* look) {
  const intrs_mul* mul = (const intrs_mul*)fields(look, 2, sizeof(intrs_mul));
  return mul && pair_fits(look) && is_code(mul->zero_point_a) && is_code(mul->zero_point_b) &&
         is_scale(mul->multiplier, mul->shift) && is_clamp(mul->output_zero_point, mul->low, mul->high);
}

static int scaled_add_fits(const intrs_look* look) {
  const intrs_scaled_add* add = (const intrs_scaled_add*)fields(look, 2, sizeof(intrs_scaled_add));
  return add && pair_fits(look) && is_code(add->zero_point_a) && is_code(add->zero_point_b) && add->left_shift >= 0 &&
         add->left_shift <= 22 && is_scale(add->multiplier_a, add->shift_a) &&
         is_scale(add->multiplier_b, add->shift_b) && is_scale(add->multiplier_sum, add->shift_sum) &&
         is_clamp(add->output_zero_point, add->low, add->high);
}

static int pool_fits(const intrs_look* look) {
  const intrs_pool* pool = (const intrs_pool*)fields(look, 1, sizeof(intrs_pool));
  const intrs_window* w;
  if (!pool || !window_fits(look, &pool->window) || input(look, 0)->channels != look->out->channels) return 0;
  w = &pool->window;
  return w->dilation_y == 1 && w->dilation_x == 1 && w->top < w->height && w->bottom < w->height &&
         w->left < w->width && w->right < w->width && (uint64_t)w->height * w->width * 255 <= 0x7fffffff &&
         is_code(pool->input_zero_point) && is_code(pool->output_zero_point);
}

static int requantise_fits(const intrs_look* look) {
  const intrs_requantise* layer = (const intrs_requantise*)fields(look, 1, sizeof(intrs_requantise));
  return layer && same_shape(input(look, 0), look->out) && is_code(layer->input_zero_point) &&
         is_scale(layer->multiplier, layer->shift) && is_clamp(layer->output_zero_point, layer->low, layer->high);
}

static int code_table_fits(const intrs_look* look) {
  const intrs_code_table* table = (const intrs_code_table*)fields(look, 1, sizeof(intrs_code_table));
  return table && same_shape(input(look, 0), look->out) && inside(look->header, table->results_at, 256, 1);
}

static int concat_fits(const intrs_look* look) {
  uint64_t channels = 0;
  uint32_t i;
  if (!fields(look, look->layer->inputs, 0)) return 0;
  for (i = 0; i < look->layer->inputs; ++i) {
    if (input(look, i)->height != look->out->height || input(look, i)->width != look->out->width) return 0;
    channels += input(look, i)->channels;
  }
  return channels == look->out->channels;
}

static int pad_fits(const intrs_look* look) {
  const intrs_pad* pad = (const intrs_pad*)fields(look, 1, sizeof(intrs_pad));
  const intrs_tensor *in = input(look, 0), *out = look->out;
  return pad && in->channels == out->channels && is_code(pad->value) &&
         (uint64_t)in->height + pad->top + pad->bottom == out->height &&
         (uint64_t)in->width + pad->left + pad->right == out->width;
}

static int list_fits(const intrs_look* look, uint32_t count, uint32_t at, uint32_t out, uint32_t in) {
  uint32_t i;
  if (count == 0) return out == in;
  if (count != out || !inside(look->header, at, count, 4)) return 0;
  for (i = 0; i < count; ++i) {
    if (intrs_words(look->data, at)[i] >= in) return 0;
  }
  return 1;
}

static int gather_fits(const intrs_look* look) {
  const intrs_gather* gather = (const intrs_gather*)fields(look, 1, sizeof(intrs_gather));
  const intrs_tensor *in = input(look, 0), *out = look->out;
  return gather && list_fits(look, gather->rows, gather->rows_at, out->height, in->height) &&
         list_fits(look, gather->columns, gather->columns_at, out->width, in->width) &&
         list_fits(look, gather->channels, gather->channels_at, out->channels, in->channels);
}

static int kind_fits(const intrs_look* look) {
  switch (look->layer->kind) {
    case INTRS_CONV:
    case INTRS_CONV_DOUBLE: return conv_fits(look);
    case INTRS_ADD: return add_fits(look);
    case INTRS_MAX_POOL:
    case INTRS_AVG_POOL: return pool_fits(look);
    case INTRS_REQUANTISE:
    case INTRS_REQUANTISE_DOUBLE: return requantise_fits(look);
    case INTRS_CONCAT: return concat_fits(look);
    case INTRS_PAD: return pad_fits(look);
    case INTRS_CODE_TABLE: return code_table_fits(look);
    case INTRS_MUL: return mul_fits(look);
    case INTRS_SCALED_ADD: return scaled_add_fits(look);
    case INTRS_GATHER: return gather_fits(look);
    default: return 0;
  }
}

static int layers_fit(intrs_look* look) {
  uint32_t i, k, at = look->header->layers_at;
  int wide = 0;
  for (i = 1; i < look->header->tensors; ++i) {
    const uint32_t least = (uint32_t)sizeof(intrs_layer) / 4;
    if (!inside(look->header, at, least, 4)) return 0;
    look->layer = (const intrs_layer*)(const void*)intrs_words(look->data, at);
    if (look->layer->words < least || !inside(look->header, at, look->layer->words, 4)) return 0;
    if (look->layer->inputs < 1 || look->layer->inputs > look->layer->words - least) return 0;
    for (k = 0; k < look->layer->inputs; ++k) {
      if (intrs_inputs(look->layer)[k] >= i) return 0;
    }
    look->out = look->tensors + i;
    if (!kind_fits(look)) return 0;
    wide = look->layer->kind == INTRS_CONV || look->layer->kind == INTRS_CONV_DOUBLE;
    at += 4 * look->layer->words;
  }
  return wide || !look->header->wide; /* only a Conv writes wide scores */
}

static int tensors_fit(const intrs_look* look) {
  const intrs_header* header = look->header;
  uint32_t i;
  if (header->tensors < 2 || header->tensors > MOST_SIDE) return 0;
  if (!inside(header, header->tensors_at, (uint64_t)4 * header->tensors, 4)) return 0;
  for (i = 0; i < header->tensors; ++i) {
    const intrs_tensor* t = look->tensors + i;
    const uint32_t each = header->wide && i + 1 == header->tensors ? 4 : 1;
    if (t->height < 1 || t->height > MOST_SIDE || t->width < 1 || t->width > MOST_SIDE) return 0;
    if (t->channels < 1 || t->channels > MOST_SIDE) return 0;
    if ((uint64_t)t->height * t->width > MOST_ELEMENTS) return 0;
    if ((uint64_t)t->height * t->width * t->channels > MOST_ELEMENTS) return 0;
    if (!in_arena(header, t->at, (uint64_t)each * intrs_size(t))) return 0;
  }
  --i;
  return look->tensors[i].height == 1 && look->tensors[i].width == 1;
}

static int quantiser_fits(const intrs_look* look) {
  const intrs_header* header = look->header;
  const uint32_t channels = look->tensors[0].channels;
  const int32_t* words = (const int32_t*)intrs_words(look->data, header->quantiser_at);
  return inside(header, header->quantiser_at, 1 + (uint64_t)4 * channels, 4) && words[0] >= 0 && words[0] <= 31;
}

static int noise_fits(const intrs_look* look) {
  const intrs_header* header = look->header;
  const intrs_noise* noise = (const intrs_noise*)(const void*)(look->data + header->noise_at);
  const uint16_t* starts;
  uint32_t i;
  if (header->noise_at == 0) return 1;
  if (!inside(header, header->noise_at, sizeof(intrs_noise) / 4, 4)) return 0;
  if (noise->count < 1 || noise->count > MOST_NOISE || noise->bits > 16) return 0;
  if (!inside(header, noise->high_at, noise->count, 4) || !inside(header, noise->low_at, noise->count, 4)) return 0;
  if (!inside(header, noise->starts_at, ((uint64_t)1 << noise->bits) + 1, 2)) return 0;
  starts = (const uint16_t*)(const void*)(look->data + noise->starts_at);
  for (i = 0; i <= (uint32_t)1 << noise->bits; ++i) {
    if (starts[i] > noise->count) return 0;
  }
  return 1;
}

static int predict_fits(const intrs_look* look) {
  const intrs_header* header = look->header;
  const intrs_predict* table = (const intrs_predict*)(const void*)(look->data + header->predict_at);
  if (header->predict_at == 0) return 1;
  return inside(header, header->predict_at, sizeof(intrs_predict) / 4, 4) && table->n >= 1 &&
         table->n <= MOST_SAMPLES && inside(header, table->bits_at, table->n / 32 + 1, 4);
}

static int blocks_fit(const intrs_look* look, const intrs_certify* table) {
  const intrs_block* blocks = (const intrs_block*)(const void*)(look->data + table->blocks_at);
  uint64_t entries;
  uint32_t i;
  if (table->blocks == 0) return 1;
  if (table->block_bits > 16 || table->start > table->n) return 0;
  entries = (uint64_t)1 << table->block_bits;
  if ((uint64_t)table->blocks * entries < (uint64_t)table->n - table->start + 1) return 0;
  if (!inside(look->header, table->blocks_at, (uint64_t)4 * table->blocks, 4)) return 0;
  if (table->residual_words < 2 || !inside(look->header, table->residuals_at, table->residual_words, 4)) return 0;
  for (i = 0; i < table->blocks; ++i) {
    const uint64_t end = (blocks[i].width_bits >> 5) + entries * (blocks[i].width_bits & 31u);
    if (end > (uint64_t)32 * (table->residual_words - 1) - 1) return 0; /* bits_at reads a word more */
  }
  return 1;
}

static int certify_fits(const intrs_look* look) {
  const intrs_header* header = look->header;
  const intrs_certify* table = (const intrs_certify*)(const void*)(look->data + header->certify_at);
  if (header->certify_at == 0) return 1;
  return inside(header, header->certify_at, sizeof(intrs_certify) / 4, 4) && table->n0 >= 1 &&
         table->n0 <= MOST_SAMPLES && table->n >= 1 && table->n <= MOST_SAMPLES && blocks_fit(look, table);
}

static int adaptive_fits(const intrs_look* look) {
  const intrs_header* header = look->header;
  const intrs_adaptive* rule = (const intrs_adaptive*)(const void*)(look->data + header->adaptive_at);
  uint32_t i, before = 0;
  if (header->adaptive_at == 0) return 1;
  if (!inside(header, header->adaptive_at, sizeof(intrs_adaptive) / 4, 4)) return 0;
  if (rule->n0 < 1 || rule->n0 > MOST_SAMPLES || rule->looks < 1 || rule->looks > MOST_SIDE) return 0;
  if (rule->radii > MOST_SIDE || rule->asked > MOST_SIDE) return 0;
  if (!inside(header, rule->looks_at, rule->looks, 4) || !inside(header, rule->radii_sq_at, rule->radii, 4)) return 0;
  if (!inside(header, rule->accept_at, (uint64_t)rule->radii * rule->looks, rule->accept_wide ? 4 : 2)) return 0;
  if (!inside(header, rule->asked_at, rule->asked, 4)) return 0;
  if (!inside(header, rule->given_up_at, (uint64_t)rule->asked * rule->looks, 4)) return 0;
  for (i = 0; i < rule->looks; ++i) { /* looks come one after another */
    const uint32_t samples = intrs_words(look->data, rule->looks_at)[i];
    if (samples <= before || samples > MOST_SAMPLES) return 0;
    before = samples;
  }
  return 1;
}

intrs_status intrs_check(const uint8_t* data) {
  intrs_look look;
  look.data = data;
  look.header = intrs_header_of(data);
  look.tensors = intrs_tensors_of(data);
  look.layer = 0;
  look.out = 0;
  if (!tensors_fit(&look) || !quantiser_fits(&look) || !layers_fit(&look) || !noise_fits(&look) ||
      !predict_fits(&look) || !certify_fits(&look) || !adaptive_fits(&look)) {
    return INTRS_BAD_NETWORK;
  }
  return look.tensors[look.header->tensors - 1].channels <= INTRS_MOST_CLASSES ? INTRS_OK : INTRS_TOO_MANY_CLASSES;
}
