/* Random bits, noise and the input quantiser: core/bits.h and core/noise.h, one sample at a time. Noise is added while
 * the quantiser writes the first tensor, so that no noisy image is ever stored. */
#include <string.h>

#include "intrs_data.h"

#define COORDINATES_PER_BLOCK 16u
#define REFINING 0x80000000u /* in the block number: the lower halves of the 64-bit numbers */

static uint32_t rotated(uint32_t value, int by) {
  return value << by | value >> (32 - by);
}

/* RFC 8439, 2.1; a macro, because no compiler may make a call of it. */
#define QUARTER_ROUND(a, b, c, d) \
  a += b;                         \
  d = rotated(d ^ a, 16);         \
  c += d;                         \
  b = rotated(b ^ c, 12);         \
  a += b;                         \
  d = rotated(d ^ a, 8);          \
  c += d;                         \
  b = rotated(b ^ c, 7)

/* The sixteen words are more than most processors have registers for; GCC keeps most of them there anyway. */
void intrs_chacha20(const uint32_t input[16], uint32_t output[16]) {
  uint32_t a0 = input[0], a1 = input[1], a2 = input[2], a3 = input[3];
  uint32_t b0 = input[4], b1 = input[5], b2 = input[6], b3 = input[7];
  uint32_t c0 = input[8], c1 = input[9], c2 = input[10], c3 = input[11];
  uint32_t d0 = input[12], d1 = input[13], d2 = input[14], d3 = input[15];
  int round, i;
  for (round = 0; round < 10; ++round) {
    QUARTER_ROUND(a0, b0, c0, d0);
    QUARTER_ROUND(a1, b1, c1, d1);
    QUARTER_ROUND(a2, b2, c2, d2);
    QUARTER_ROUND(a3, b3, c3, d3);
    QUARTER_ROUND(a0, b1, c2, d3);
    QUARTER_ROUND(a1, b2, c3, d0);
    QUARTER_ROUND(a2, b3, c0, d1);
    QUARTER_ROUND(a3, b0, c1, d2);
  }
  output[0] = a0, output[1] = a1, output[2] = a2, output[3] = a3;
  output[4] = b0, output[5] = b1, output[6] = b2, output[7] = b3;
  output[8] = c0, output[9] = c1, output[10] = c2, output[11] = c3;
  output[12] = d0, output[13] = d1, output[14] = d2, output[15] = d3;
  for (i = 0; i < 16; ++i) output[i] += input[i];
}

/* The address of one noisy image: words 12 to 15 are block, sample (two words) and image. */
static void address(uint32_t input[16], const uint32_t key[8], uint32_t index, uint64_t sample) {
  static const uint32_t constants[4] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
  memcpy(input, constants, sizeof constants);
  memcpy(input + 4, key, 32);
  input[12] = 0;
  input[13] = (uint32_t)sample;
  input[14] = (uint32_t)(sample >> 32);
  input[15] = index;
}

typedef struct {
  const uint32_t *high, *low;
  const uint16_t* starts;
  uint32_t count;
  int shift;
  uint32_t* input; /* of ChaCha20: the sample's address */
} intrs_drawer;

static uint32_t refining_word(const intrs_drawer* d, uint32_t coordinate) {
  uint32_t block[16];
  const uint32_t number = d->input[12];
  d->input[12] = REFINING | coordinate / COORDINATES_PER_BLOCK;
  intrs_chacha20(d->input, block);
  d->input[12] = number;
  return block[coordinate % COORDINATES_PER_BLOCK];
}

/* The value of a 64-bit number U is -count + #{thresholds <= U} for U below 2^63; that of U from there on is the
 * negative of that of its complement, because thresholds j and -j add up to 2^64. */
static int32_t value_of(const intrs_drawer* d, uint32_t word, uint32_t coordinate) {
  const uint32_t flip = word >> 31 ? 0xffffffffu : 0, high = word ^ flip;
  const uint32_t bucket = high >> d->shift, end = d->starts[bucket + 1];
  uint32_t below = d->starts[bucket];
  int32_t value;
  while (below < end && d->high[below] < high) ++below;
  if (below < end && d->high[below] == high) { /* once in millions: only the lower halves can tell */
    const uint32_t low = refining_word(d, coordinate) ^ flip;
    while (below < end && d->high[below] == high && d->low[below] <= low) ++below;
  }
  value = (int32_t)below - (int32_t)d->count;
  return flip ? -value : value;
}

static intrs_drawer drawer_of(const intrs_net* net, uint32_t input[16]) {
  const uint8_t* data = net->data;
  const intrs_noise* noise = (const intrs_noise*)(const void*)intrs_words(data, intrs_header_of(data)->noise_at);
  intrs_drawer d;
  d.high = intrs_words(data, noise->high_at);
  d.low = intrs_words(data, noise->low_at);
  d.starts = (const uint16_t*)(const void*)(data + noise->starts_at);
  d.count = noise->count;
  d.shift = (int)(31 - noise->bits);
  d.input = input;
  return d;
}

typedef struct {
  const int32_t *low, *high, *multiplier, *offset;
  uint32_t channels, channel;
  int32_t shift;
} intrs_quantiser;

static intrs_quantiser quantiser_of(const intrs_net* net) {
  const int32_t* words = (const int32_t*)intrs_words(net->data, intrs_header_of(net->data)->quantiser_at);
  intrs_quantiser q;
  q.shift = words[0];
  q.channels = intrs_tensors_of(net->data)[0].channels;
  q.channel = 0;
  q.low = words + 1;
  q.high = q.low + q.channels;
  q.multiplier = q.high + q.channels;
  q.offset = q.multiplier + q.channels;
  return q;
}

/* The code of the next pixel. */
static int8_t code_of(intrs_quantiser* q, int32_t pixel) {
  const uint32_t c = q->channel;
  const int32_t p = intrs_clamp(pixel, q->low[c], q->high[c]);
  const int32_t sum = (int32_t)((uint32_t)p * (uint32_t)q->multiplier[c] + (uint32_t)q->offset[c]);
  q->channel = c + 1 == q->channels ? 0 : c + 1;
  return (int8_t)intrs_clamp(sum >> q->shift, -128, 127);
}

void intrs_load(const intrs_net* net, const uint8_t* image) {
  const intrs_tensor* tensor = intrs_tensors_of(net->data);
  const uint32_t count = intrs_size(tensor);
  intrs_quantiser q = quantiser_of(net);
  int8_t* to = (int8_t*)(net->arena + tensor->at);
  uint32_t i;
  for (i = 0; i < count; ++i) to[i] = code_of(&q, image[i]);
}

void intrs_load_noisy(const intrs_net* net, const uint8_t* image, const uint32_t key[8], uint32_t index,
                      uint64_t sample) {
  const intrs_tensor* tensor = intrs_tensors_of(net->data);
  const uint32_t count = intrs_size(tensor);
  uint32_t input[16], block[16], i;
  intrs_quantiser q = quantiser_of(net);
  const intrs_drawer d = drawer_of(net, input);
  int8_t* to = (int8_t*)(net->arena + tensor->at);
  address(input, key, index, sample);
  for (i = 0; i < count; ++i) {
    if (i % COORDINATES_PER_BLOCK == 0) {
      input[12] = i / COORDINATES_PER_BLOCK;
      intrs_chacha20(input, block);
    }
    to[i] = code_of(&q, image[i] + value_of(&d, block[i % COORDINATES_PER_BLOCK], i));
  }
}
