/* Certificates on devices: noise, integer network, votes and decision, bit for bit those of the intrs package.
 *
 *   static uint32_t arena[NET_ARENA_BYTES / 4];
 *   intrs_net net;
 *   intrs_run run;
 *   intrs_answer answer;
 *   intrs_open(&net, net_data, NET_DATA_BYTES, arena, sizeof arena);
 *   intrs_begin(&net, &run, INTRS_ADAPTIVE, seed, 0);
 *   while (intrs_next(&net, &run, image, NET_IMAGE_BYTES, 1) == INTRS_MORE) sleep_or_do_something_else();
 *   intrs_result(&net, &run, &answer);
 *
 * Nothing is allocated, nothing is global, there is no float and no recursion. The network's constants stay where they
 * are (flash); the arena is the only memory that is written besides the structs here and about 1 KiB of stack. A run is
 * plain words without pointers: it survives sleep as it is, or as the bytes of `intrs_save`. The arena holds nothing
 * between two calls. Every function returns a status; see `intrs_message`. C99, C11 and C++17; little endian. */
#ifndef INTRS_H
#define INTRS_H

#include <stddef.h>
#include <stdint.h>

#include "intrs_config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  INTRS_OK = 0,                /* done */
  INTRS_MORE = 1,              /* nothing is wrong: more samples are to be taken */
  INTRS_BAD_ARGUMENT = -1,     /* a null pointer, or a mode that there is none of */
  INTRS_BAD_MAGIC = -2,        /* these are not the constants of a network, or the processor is big endian */
  INTRS_BAD_FORMAT = -3,       /* constants of another version of this runtime */
  INTRS_TRUNCATED = -4,        /* the constants end too early */
  INTRS_BAD_HASH = -5,         /* the constants were damaged */
  INTRS_BAD_NETWORK = -6,      /* the constants contradict themselves */
  INTRS_MISALIGNED = -7,       /* constants or arena do not lie at a multiple of 4 */
  INTRS_ARENA_TOO_SMALL = -8,  /* see intrs_arena_bytes */
  INTRS_TOO_MANY_CLASSES = -9, /* raise INTRS_MOST_CLASSES in intrs_config.h */
  INTRS_NO_TABLE = -10,        /* the network was exported without the tables of this mode */
  INTRS_BAD_COUNT = -11,       /* no samples, or more than there are addresses */
  INTRS_BAD_IMAGE = -12,       /* the image does not have the network's number of bytes */
  INTRS_BAD_RUN = -13,         /* a run that was not begun, was damaged, or is another network's */
  INTRS_NOT_OVER = -14,        /* the run needs more samples before it has a result */
  INTRS_STOPPED = -15,         /* the progress callback asked for it; intrs_finish goes on where it was */
  INTRS_DIFFERENT = -16        /* the self-check: not what the desktop computes */
} intrs_status;

/* What a status means, in a sentence. */
const char* intrs_message(intrs_status status);

/* A network that was opened: its constants and its arena. */
typedef struct {
  const uint8_t* data;
  uint8_t* arena;
} intrs_net;

/* The arena that these constants need; 0 if they are none. */
size_t intrs_arena_bytes(const void* data, size_t bytes);

/* Checks the constants (magic, length, hash, every size and offset in them) and ties them to an arena. */
intrs_status intrs_open(intrs_net* net, const void* data, size_t bytes, void* arena, size_t arena_bytes);

/* Of a network that was opened. */
uint32_t intrs_classes(const intrs_net* net);
uint32_t intrs_image_bytes(const intrs_net* net);             /* height * width * channels, in this order */
void intrs_identity(const intrs_net* net, uint8_t bytes[32]); /* SHA-256 of the canonical bytes */

/* The class of an image without noise: no statement about its robustness. */
intrs_status intrs_classify(const intrs_net* net, const uint8_t* image, size_t image_bytes, uint32_t* label);

typedef enum {
  INTRS_VOTES = 0,   /* only counts */
  INTRS_PREDICT = 1, /* Algorithm 2: a class, wrong with probability at most alpha, or an abstention */
  INTRS_CERTIFY = 2, /* Algorithm 1 with n samples: a class and a radius, or an abstention */
  INTRS_ADAPTIVE = 3 /* the same with as few samples as the radii that are asked for need */
} intrs_mode;

/* How far one image has come. The words are not for callers, except counts: the votes so far. */
typedef struct {
  uint32_t magic, mode, network, image;
  uint32_t key[8];
  uint32_t first_low, first_high; /* the address of the first sample */
  uint32_t end;                   /* samples of this phase: to the next look, or all */
  uint32_t done;                  /* those that were taken */
  uint32_t selecting;             /* 1 while the class is selected */
  uint32_t label;                 /* the selected class */
  uint32_t look;
  uint32_t over;
  uint32_t counts[INTRS_MOST_CLASSES];
} intrs_run;

/* Begins a run of one of the last three modes. The seed has 256 bits, little endian. `index` addresses the image's
 * noise: its place in a data set, or intrs_content_index. */
intrs_status intrs_begin(const intrs_net* net, intrs_run* run, intrs_mode mode, const uint8_t seed[32], uint32_t index);

/* Begins a count of the samples first .. first + count - 1. Those of a selection begin at 2^63. */
intrs_status intrs_begin_votes(const intrs_net* net, intrs_run* run, const uint8_t seed[32], uint32_t index,
                               uint64_t first, uint32_t count);

/* Takes at most so many samples. INTRS_MORE: call again; INTRS_OK: the run is over. */
intrs_status intrs_next(const intrs_net* net, intrs_run* run, const uint8_t* image, size_t image_bytes,
                        uint32_t samples);

/* Called after every sample with those taken and the most that may be needed; anything but 0 stops. */
typedef int (*intrs_progress)(void* context, uint32_t done, uint32_t most);

/* intrs_next until the run is over, or the callback (which may be null) stops it. */
intrs_status intrs_finish(const intrs_net* net, intrs_run* run, const uint8_t* image, size_t image_bytes,
                          intrs_progress progress, void* context);

/* The noise address of an image that has no index, the one that intrs.Smooth takes: from its shape and pixels. */
intrs_status intrs_content_index(const intrs_net* net, const uint8_t* image, size_t image_bytes, uint32_t* index);

typedef struct {
  uint32_t decided;   /* 0 is an abstention: then only votes and samples say something */
  uint32_t label;     /* the class */
  uint32_t votes;     /* of the class, out of samples */
  uint32_t samples;   /* of the estimation; the selection's are not counted */
  uint32_t radius_sq; /* squared pixel levels: no integer perturbation with |delta|^2 <= radius_sq changes the class */
} intrs_answer;

/* What the votes say, when the run is over. */
intrs_status intrs_result(const intrs_net* net, const intrs_run* run, intrs_answer* answer);

/* Is a radius certified? radius_sq in squared pixel levels: radius r of the pixel range is ceil((255 r)^2). */
int intrs_at_least(const intrs_answer* answer, uint32_t radius_sq);

/* A run as bytes, for memory that loses its contents. They hold a digest, and only the same network takes them. */
#define INTRS_SAVED_BYTES (4 * (20 + INTRS_MOST_CLASSES) + 32)
intrs_status intrs_save(const intrs_run* run, uint8_t* bytes, size_t size);
intrs_status intrs_restore(const intrs_net* net, intrs_run* run, const uint8_t* bytes, size_t size);

typedef struct {
  intrs_mode mode;
  intrs_answer answer;
} intrs_expected;

/* What the desktop computed for one image: the exporter writes it beside the network. */
typedef struct {
  const uint8_t* image;
  size_t image_bytes;
  const uint8_t* seed;   /* 32 bytes */
  uint32_t index;        /* the image's intrs_content_index */
  uint32_t samples;      /* of the votes, from sample 0 on */
  const uint32_t* votes; /* by class */
  const uint8_t* scores; /* the SHA-256 of their class scores: sample by sample, int32 each */
  uint32_t answers;      /* modes that were exported, as far as the desktop computed them */
  const intrs_expected* expected;
} intrs_vectors;

/* Computes scores and votes again: INTRS_OK, or INTRS_DIFFERENT. `run` is used and says nothing afterwards. The answers
 * take longer; see examples/check/main.c. */
intrs_status intrs_self_check(const intrs_net* net, const intrs_vectors* vectors, intrs_run* run);

#ifdef __cplusplus
}
#endif

#endif
