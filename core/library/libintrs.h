/* libintrs: certificates from a program in any language that can call C. See docs/library-c.md and examples/c.
 *
 *   libintrs_network* network;
 *   libintrs_noise* noise;
 *   libintrs_rule* rule;
 *   libintrs_answer answer;
 *   libintrs_open(network_bytes, network_size, "", &network);
 *   libintrs_open_noise(noise_bytes, noise_size, &noise);
 *   libintrs_open_rule(rule_bytes, rule_size, &rule);
 *   libintrs_certify(network, noise, rule, image, image_bytes, &settings, &answer);
 *   libintrs_close(network), libintrs_close_noise(noise), libintrs_close_rule(rule);
 *
 * The bytes are those of the Python package: Network.to_bytes(), the noise table and `intrs.table` or
 * `intrs.adaptive_table`. They are validated when they are opened, and copied: the caller may free them. A handle never
 * changes, so any number of threads may use one at the same time. No C++ exception leaves the library. Votes and
 * answers equal those of the package bit for bit, whatever the kernel set and the number of threads.
 *
 * The statuses that the device runtime (device/intrs.h) has as well have the same numbers and names, but for the
 * prefix. C99 and C++. */
#ifndef LIBINTRS_H
#define LIBINTRS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LIBINTRS_API __attribute__((visibility("default")))
#else
#define LIBINTRS_API
#endif

typedef enum {
  LIBINTRS_OK = 0,             /* done */
  LIBINTRS_BAD_ARGUMENT = -1,  /* a null pointer, or a number that makes no sense */
  LIBINTRS_BAD_NETWORK = -6,   /* not the canonical bytes of a network, or one that cannot be computed exactly */
  LIBINTRS_BAD_COUNT = -11,    /* no samples, or more than there are addresses */
  LIBINTRS_BAD_IMAGE = -12,    /* the image does not have the network's number of bytes */
  LIBINTRS_STOPPED = -15,      /* the progress callback asked for it */
  LIBINTRS_BAD_TABLE = -32,    /* not a noise table, not a table of decisions, or damaged */
  LIBINTRS_NOT_TOGETHER = -33, /* network, noise and decisions are not for each other */
  LIBINTRS_NO_KERNELS = -34,   /* no such kernel set on this machine, or it failed its self-check */
  LIBINTRS_NO_MEMORY = -35,    /* there is not enough memory */
  LIBINTRS_INTERNAL = -36      /* a defect of this library; please report it */
} libintrs_status;

/* What a status means, in a sentence. */
LIBINTRS_API const char* libintrs_message(libintrs_status status);

/* What was wrong with the last call of this thread that failed, in more words; never null. It is kept until the next
 * call of this thread that fails. */
LIBINTRS_API const char* libintrs_last_error(void);

/* --- networks --- */

typedef struct libintrs_network libintrs_network;

/* Parses and validates the canonical bytes of a network, and prepares it for a kernel set: "" is the fastest of this
 * machine (or the one that the environment variable INTRS_KERNELS names). */
LIBINTRS_API libintrs_status libintrs_open(const void* bytes, size_t size, const char* kernels,
                                           libintrs_network** network);
LIBINTRS_API void libintrs_close(libintrs_network* network); /* null is fine */

LIBINTRS_API void libintrs_identity(const libintrs_network* network, uint8_t digest[32]); /* SHA-256 of its bytes */
LIBINTRS_API void libintrs_shape(const libintrs_network* network, uint32_t shape[3]);     /* height, width, channels */
LIBINTRS_API size_t libintrs_image_bytes(const libintrs_network* network);                /* their product */
LIBINTRS_API uint32_t libintrs_classes(const libintrs_network* network);
LIBINTRS_API const char* libintrs_kernels(const libintrs_network* network); /* the kernel set that runs it */

/* The class of an image without noise: no statement about its robustness. */
LIBINTRS_API libintrs_status libintrs_classify(const libintrs_network* network, const uint8_t* image,
                                               size_t image_bytes, uint32_t* label);

/* The noise address of an image that has no index, the one that intrs.Smooth takes: from its shape and pixels. */
LIBINTRS_API libintrs_status libintrs_content_index(const libintrs_network* network, const uint8_t* image,
                                                    size_t image_bytes, uint32_t* index);

/* --- tables --- */

typedef struct libintrs_noise libintrs_noise;
typedef struct libintrs_rule libintrs_rule;

/* A noise table. A false one makes certificates false: take it from the package, and if it came from elsewhere compare
 * its digest with that of Python's `noise.table.sha256`. */
LIBINTRS_API libintrs_status libintrs_open_noise(const void* bytes, size_t size, libintrs_noise** noise);
LIBINTRS_API void libintrs_close_noise(libintrs_noise* noise);
LIBINTRS_API void libintrs_noise_digest(const libintrs_noise* noise, uint8_t digest[32]); /* SHA-256 of its bytes */

/* What the votes certify: a radius table for a fixed number of samples, or the tables of an adaptive rule. Damaged ones
 * are refused by the digest that they hold. The one above applies to false ones. */
LIBINTRS_API libintrs_status libintrs_open_rule(const void* bytes, size_t size, libintrs_rule** rule);
LIBINTRS_API void libintrs_close_rule(libintrs_rule* rule);
LIBINTRS_API void libintrs_rule_digest(const libintrs_rule* rule, uint8_t digest[32]);
LIBINTRS_API uint64_t libintrs_rule_samples(const libintrs_rule* rule); /* the most that it takes */

/* Writes the samples at which the rule looks at the votes, ascending, as many as there is room for; returns how many
 * there are. looks may be null. A radius table has one look. */
LIBINTRS_API size_t libintrs_rule_looks(const libintrs_rule* rule, uint64_t* looks, size_t room);

typedef struct {
  uint32_t stops;     /* the rule wants no more samples */
  uint32_t certified; /* 0: these votes certify nothing */
  uint64_t radius_sq; /* if certified */
} libintrs_decision;

/* What a look (its place in libintrs_rule_looks) says of so many votes of the selected class, for programs that count
 * votes by parts themselves. They must look at every look, in order, until one stops. */
LIBINTRS_API libintrs_status libintrs_decide(const libintrs_rule* rule, size_t look, uint64_t votes,
                                             libintrs_decision* decision);

/* Whether decisions are for this noise and for images of so many bytes; libintrs_certify asks too. */
LIBINTRS_API libintrs_status libintrs_check_together(const libintrs_noise* noise, const libintrs_rule* rule,
                                                     size_t image_bytes);

/* --- votes and certificates --- */

/* Called now and then, on the calling thread, with the samples that are done and the most that may be needed; anything
 * but 0 stops. */
typedef int (*libintrs_progress)(void* context, uint64_t done, uint64_t most);

typedef struct {
  uint8_t seed[32];           /* 256 bits, little endian */
  uint32_t index;             /* addresses the image's noise: its place in a data set, or libintrs_content_index */
  uint32_t threads;           /* 0: as many as the machine runs at once; 1: the calling thread alone */
  uint64_t n0;                /* samples that select the class, for libintrs_certify; the package takes 100 */
  libintrs_progress progress; /* may be null */
  void* context;
} libintrs_settings;

/* The first sample of those that select a class. They have addresses of their own. */
#define LIBINTRS_SELECTION ((uint64_t)1 << 63)

/* Votes of each class over the samples first .. first + count - 1. counts has room for one number per class; it is
 * written only if all is well. */
LIBINTRS_API libintrs_status libintrs_votes(const libintrs_network* network, const libintrs_noise* noise,
                                            const uint8_t* image, size_t image_bytes, const libintrs_settings* settings,
                                            uint64_t first, uint64_t count, uint64_t* counts, size_t classes);

typedef struct {
  uint32_t decided;   /* 0 is an abstention: then only votes and samples say something */
  uint32_t label;     /* the class */
  uint64_t votes;     /* of the class, out of samples */
  uint64_t samples;   /* of the estimation; the selection's are not counted */
  uint64_t radius_sq; /* squared pixel levels: no integer perturbation with |delta|^2 <= radius_sq changes the class */
} libintrs_answer;

/* Algorithm 1: a class and a radius that hold with probability at least 1 - alpha, or an abstention. alpha, the noise
 * and the number of samples are those of the rule. */
LIBINTRS_API libintrs_status libintrs_certify(const libintrs_network* network, const libintrs_noise* noise,
                                              const libintrs_rule* rule, const uint8_t* image, size_t image_bytes,
                                              const libintrs_settings* settings, libintrs_answer* answer);

#ifdef __cplusplus
}
#endif

#endif
