/* The layout of a network's constants, for the files of the runtime alone. src/intrs/exchange/device writes them.
 *
 * Everything is little endian. Words are 32 bits at multiples of 4; `..._at` counts bytes from the beginning, and 0
 * stands for what is not there. The last 32 bytes are the SHA-256 of all before them.
 *
 *   intrs_header   intrs_tensor[tensors]   quantiser   layers one after another   arrays   noise   decisions   digest
 */
#ifndef INTRS_DATA_H
#define INTRS_DATA_H

#include "arith.h"
#include "intrs.h"
#include "intrs_sha256.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The code relies on int having 32 bits or more; fail the build where it has fewer. */
typedef char intrs_int_has_32_bits[sizeof(int) >= 4 ? 1 : -1];

#define INTRS_FORMAT 1u
#define INTRS_DIGEST_BYTES 32u
#define INTRS_SELECTION ((uint64_t)1 << 63)

typedef struct {
  uint32_t magic[2]; /* "INTRSDEV" */
  uint32_t format, bytes;
  uint32_t identity[8];
  uint32_t arena_bytes;
  uint32_t tensors, tensors_at; /* tensor 0 is the quantised image, layer i writes tensor i + 1 */
  uint32_t quantiser_at;
  uint32_t layers_at;
  uint32_t wide; /* are the class scores int32? */
  uint32_t noise_at, predict_at, certify_at, adaptive_at;
} intrs_header;

typedef struct {
  uint32_t at; /* bytes from the beginning of the arena */
  uint32_t height, width, channels;
} intrs_tensor;

/* quantiser: shift, then low, high, multiplier and offset of every channel. */

/* A layer: this, the numbers of its input tensors, and the fields of its kind. */
typedef struct {
  uint32_t kind, words; /* of all of it */
  uint32_t inputs;
  uint32_t scratch; /* bytes from the beginning of the arena */
} intrs_layer;

typedef struct {
  uint32_t height, width;
  uint32_t stride_y, stride_x, dilation_y, dilation_x;
  uint32_t top, bottom, left, right;
} intrs_window;

/* Weights are int8. Where `by_channel` (one input and one output channel per group): [ky][kx][channel]. Otherwise runs
 * of what lies side by side in the input: a whole kernel row if there is one group and no dilation, else the channels
 * of a group; [output][ky][run of the row][place in the run]. Runs are filled up with zeros to multiples of 4. */
enum {
  INTRS_DIRECT = 0,
  INTRS_PAIRS = 1, /* there is scratch for the weights of two outputs as int16 */
  INTRS_TILES = 2  /* F(2 x 2, 3 x 3): weights are int16, turned by twice the kernel's matrix,
                    * [two outputs][16 places][two channels][output of the two][channel of the two] */
};

typedef struct {
  intrs_window window;
  uint32_t groups, per_group, by_channel;
  int32_t input_zero_point, output_zero_point, low, high;
  uint32_t wide, twice;
  uint32_t scales; /* 1, or one per output */
  uint32_t bias_at, multiplier_at, shift_at, weights_at;
  uint32_t method;
} intrs_conv;

typedef struct {
  int32_t multiplier_a, multiplier_b, zero_point_a, zero_point_b, shift, output_zero_point, low, high;
} intrs_add;

typedef struct {
  intrs_window window;
  int32_t input_zero_point, output_zero_point;
} intrs_pool;

typedef struct {
  int32_t input_zero_point, multiplier, shift, output_zero_point, low, high;
  uint32_t twice;
} intrs_requantise;

typedef struct {
  uint32_t top, bottom, left, right;
  int32_t value;
} intrs_pad;

typedef struct {
  uint32_t results_at;
} intrs_code_table;

typedef struct {
  int32_t zero_point_a, zero_point_b, multiplier, shift, output_zero_point, low, high;
  uint32_t twice;
} intrs_mul;

typedef struct {
  int32_t zero_point_a, zero_point_b, left_shift;
  int32_t multiplier_a, shift_a, multiplier_b, shift_b, multiplier_sum, shift_sum;
  int32_t output_zero_point, low, high;
  uint32_t subtract;
} intrs_scaled_add;

typedef struct {
  uint32_t rows, rows_at, columns, columns_at, channels, channels_at; /* 0 entries: all in order */
} intrs_gather;

enum {
  INTRS_CONV = 1,
  INTRS_ADD,
  INTRS_MAX_POOL,
  INTRS_AVG_POOL,
  INTRS_REQUANTISE,
  INTRS_CONCAT,
  INTRS_PAD,
  INTRS_CONV_DOUBLE,
  INTRS_REQUANTISE_DOUBLE,
  INTRS_CODE_TABLE,
  INTRS_MUL,
  INTRS_SCALED_ADD,
  INTRS_GATHER,
  INTRS_KINDS_END
};

/* The lower half of a symmetric sampling table: thresholds below 2^63, ascending, their upper and lower words apart.
 * starts[b] is how many of them have upper words below b << (31 - bits), for b = 0 .. 2^bits. */
typedef struct {
  uint32_t count, bits;
  uint32_t high_at, low_at, starts_at; /* uint32, uint32, uint16 */
} intrs_noise;

/* Algorithm 2 over n samples: with m votes for the first two classes, 1 + (set bits among 1 .. m) of them win. */
typedef struct {
  uint32_t n, bits_at;
} intrs_predict;

/* votes -> squared radius with n samples, from `start` votes on (docs/devices.md). Blocks of 2^block_bits votes hold
 * value = base + ((slope i + bend i^2) >> 16) + residual, with the residual in `width` bits from bit `bits` on.
 * Without blocks every number of votes from start on certifies `least_sq`, and no more is said. */
typedef struct {
  uint32_t n0, n, start, least_sq;
  uint32_t blocks, block_bits, blocks_at, residuals_at, residual_words;
} intrs_certify;

typedef struct {
  int32_t base, slope, bend;
  uint32_t width_bits; /* width in the lowest 5 bits, then the first bit */
} intrs_block;

/* At look k, after looks[k] samples, a radius is accepted by accept[radius][k] votes or more. It is stored as
 * looks[k] + 1 - accept, in 16 or 32 bits. The radii that are asked for are given up at given_up[i][k] - 1 votes or
 * fewer; the last look ends every run. */
typedef struct {
  uint32_t n0, looks, looks_at;
  uint32_t radii, radii_sq_at, accept_at, accept_wide;
  uint32_t asked, asked_at, given_up_at; /* asked: numbers of radii, or `radii` for one that no votes certify */
} intrs_adaptive;

/* --- reading --- */

static inline const uint32_t* intrs_words(const uint8_t* data, uint32_t at) {
  return (const uint32_t*)(const void*)(data + at);
}

static inline const intrs_header* intrs_header_of(const uint8_t* data) {
  return (const intrs_header*)(const void*)data;
}

static inline const intrs_tensor* intrs_tensors_of(const uint8_t* data) {
  return (const intrs_tensor*)(const void*)(data + intrs_header_of(data)->tensors_at);
}

static inline uint32_t intrs_size(const intrs_tensor* tensor) {
  return tensor->height * tensor->width * tensor->channels;
}

/* A layer's inputs stand behind it, and its fields behind those. */
static inline const uint32_t* intrs_inputs(const intrs_layer* layer) {
  return (const uint32_t*)(const void*)(layer + 1);
}

static inline const void* intrs_fields(const intrs_layer* layer) {
  return intrs_inputs(layer) + layer->inputs;
}

/* --- what a Conv works on: rows of its input as int16 without zero point, with zeros left and right of them --- */

static inline uint32_t intrs_conv_span(const intrs_conv* conv) {
  return (conv->window.height - 1) * conv->window.dilation_y + 1;
}

static inline uint32_t intrs_conv_row(const intrs_conv* conv, const intrs_tensor* in) { /* values */
  return ((conv->window.left + in->width + conv->window.right) * in->channels + 3u) & ~3u;
}

#define INTRS_CONV_SLACK 4u /* values behind the last row: a run that was filled up reads them, times 0 */

static inline uint32_t intrs_conv_runs(const intrs_conv* conv) { /* in a kernel row */
  return conv->groups == 1 && conv->window.dilation_x == 1 ? 1 : conv->window.width;
}

static inline uint32_t intrs_conv_run(const intrs_conv* conv) { /* weights in a run */
  const uint32_t values = conv->per_group * (intrs_conv_runs(conv) == 1 ? conv->window.width : 1);
  return (values + 3u) & ~3u;
}

/* Behind the rows: weights of two outputs, or two tiles with 16 places each and their sums. */
static inline uint64_t intrs_conv_scratch(const intrs_conv* conv, const intrs_tensor* in) { /* bytes */
  const uint64_t span = conv->method == INTRS_TILES ? 4 : intrs_conv_span(conv);
  uint64_t values = span * intrs_conv_row(conv, in) + INTRS_CONV_SLACK;
  if (conv->method == INTRS_PAIRS) {
    values += (uint64_t)2 * conv->window.height * intrs_conv_runs(conv) * intrs_conv_run(conv);
  } else if (conv->method == INTRS_TILES) {
    values += (uint64_t)32 * in->channels + 128;
  }
  return 2 * values;
}

/* --- the parts of the runtime --- */

intrs_status intrs_check(const uint8_t* data); /* every size and offset; nothing can go wrong after it */

void intrs_chacha20(const uint32_t input[16], uint32_t output[16]);
void intrs_load_noisy(const intrs_net* net, const uint8_t* image, const uint32_t key[8], uint32_t index,
                      uint64_t sample);                      /* image and noise -> tensor 0 */
void intrs_load(const intrs_net* net, const uint8_t* image); /* image -> tensor 0 */
void intrs_run_layers(const intrs_net* net);                 /* tensor 0 -> scores */
int32_t intrs_score(const intrs_net* net, uint32_t label);
uint32_t intrs_top_class(const intrs_net* net);
int intrs_predict_passes(const uint8_t* data, uint32_t winner, uint32_t runner_up);
int intrs_certified(const uint8_t* data, uint32_t votes, uint32_t* radius_sq);
int intrs_adaptive_stops(const uint8_t* data, uint32_t look, uint32_t votes);
int intrs_adaptive_certified(const uint8_t* data, uint32_t look, uint32_t votes, uint32_t* radius_sq);

#ifdef __cplusplus
}
#endif

#endif
