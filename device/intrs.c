/* Opening a network, and the run of an image from its first sample to its answer. */
#include "intrs.h"

#include <string.h>

#include "intrs_data.h"

#define RUN_MAGIC 0x4e555249u /* "IRUN" */
#define RUN_WORDS 20u         /* of a run, before its counts */

const char* intrs_message(intrs_status status) {
  switch (status) {
    case INTRS_OK: return "done";
    case INTRS_MORE: return "more samples are to be taken";
    case INTRS_BAD_ARGUMENT: return "a null pointer, or an unknown mode";
    case INTRS_BAD_MAGIC: return "not the constants of a network, or a big-endian processor";
    case INTRS_BAD_FORMAT: return "constants of another version of the runtime; export the network again";
    case INTRS_TRUNCATED: return "the constants end too early";
    case INTRS_BAD_HASH: return "the constants are damaged";
    case INTRS_BAD_NETWORK: return "the constants contradict themselves";
    case INTRS_MISALIGNED: return "constants and arena must lie at multiples of 4";
    case INTRS_ARENA_TOO_SMALL: return "the arena is too small; see intrs_arena_bytes";
    case INTRS_TOO_MANY_CLASSES: return "more classes than INTRS_MOST_CLASSES in intrs_config.h";
    case INTRS_NO_TABLE: return "the network was exported without the tables of this mode";
    case INTRS_BAD_COUNT: return "no samples, or more than there are addresses";
    case INTRS_BAD_IMAGE: return "the image does not have height * width * channels bytes";
    case INTRS_BAD_RUN: return "a run that was not begun, is damaged, or belongs to another network";
    case INTRS_NOT_OVER: return "the run needs more samples";
    case INTRS_STOPPED: return "stopped by the progress callback";
    case INTRS_DIFFERENT: return "this device computes something else than the desktop";
    default: return "unknown status";
  }
}

static int differ(const uint8_t* a, const uint8_t* b, uint32_t count) {
  uint8_t difference = 0;
  for (; count != 0; --count) difference = (uint8_t)(difference | (*a++ ^ *b++));
  return difference != 0;
}

/* --- networks --- */

static intrs_status check_head(const void* data, size_t bytes) {
  const intrs_header* header = (const intrs_header*)data;
  if (!data) return INTRS_BAD_ARGUMENT;
  if ((uintptr_t)data % 4 != 0) return INTRS_MISALIGNED;
  if (bytes < sizeof(intrs_header) + INTRS_DIGEST_BYTES) return INTRS_TRUNCATED;
  if (header->magic[0] != 0x52544e49u || header->magic[1] != 0x56454453u) return INTRS_BAD_MAGIC; /* "INTRSDEV" */
  if (header->format != INTRS_FORMAT) return INTRS_BAD_FORMAT;
  if (header->bytes < sizeof(intrs_header) + INTRS_DIGEST_BYTES) return INTRS_BAD_NETWORK;
  return header->bytes > bytes ? INTRS_TRUNCATED : INTRS_OK;
}

size_t intrs_arena_bytes(const void* data, size_t bytes) {
  return check_head(data, bytes) == INTRS_OK ? ((const intrs_header*)data)->arena_bytes : 0;
}

intrs_status intrs_open(intrs_net* net, const void* data, size_t bytes, void* arena, size_t arena_bytes) {
  const intrs_status status = check_head(data, bytes);
  const uint8_t* all = (const uint8_t*)data;
  const intrs_header* header = (const intrs_header*)data;
  uint8_t digest[INTRS_DIGEST_BYTES];
  if (!net || !arena) return INTRS_BAD_ARGUMENT;
  net->data = 0;
  net->arena = 0;
  if (status != INTRS_OK) return status;
  if ((uintptr_t)arena % 4 != 0) return INTRS_MISALIGNED;
  intrs_sha256(all, header->bytes - INTRS_DIGEST_BYTES, digest);
  if (differ(digest, all + header->bytes - INTRS_DIGEST_BYTES, sizeof digest)) return INTRS_BAD_HASH;
  if (arena_bytes < header->arena_bytes) return INTRS_ARENA_TOO_SMALL;
  if (intrs_check(all) != INTRS_OK) return intrs_check(all);
  net->data = all;
  net->arena = (uint8_t*)arena;
  return INTRS_OK;
}

uint32_t intrs_classes(const intrs_net* net) {
  return intrs_tensors_of(net->data)[intrs_header_of(net->data)->tensors - 1].channels;
}

uint32_t intrs_image_bytes(const intrs_net* net) {
  return intrs_size(intrs_tensors_of(net->data));
}

void intrs_identity(const intrs_net* net, uint8_t bytes[32]) {
  memcpy(bytes, intrs_header_of(net->data)->identity, 32);
}

static intrs_status check_image(const intrs_net* net, const uint8_t* image, size_t image_bytes) {
  if (!net || !net->data || !image) return INTRS_BAD_ARGUMENT;
  return image_bytes == intrs_image_bytes(net) ? INTRS_OK : INTRS_BAD_IMAGE;
}

intrs_status intrs_classify(const intrs_net* net, const uint8_t* image, size_t image_bytes, uint32_t* label) {
  const intrs_status status = check_image(net, image, image_bytes);
  if (status != INTRS_OK || !label) return status != INTRS_OK ? status : INTRS_BAD_ARGUMENT;
  intrs_load(net, image);
  intrs_run_layers(net);
  *label = intrs_top_class(net);
  return INTRS_OK;
}

/* "(32, 32, 3)", as Python writes a shape; returns its length. */
static uint32_t shape_text(const intrs_tensor* tensor, uint8_t text[40]) {
  const uint32_t sides[3] = {tensor->height, tensor->width, tensor->channels};
  uint32_t i, digits, length = 0;
  for (i = 0; i < 3; ++i) {
    uint32_t unit = 1;
    text[length++] = i ? ',' : '(';
    if (i) text[length++] = ' ';
    while (sides[i] / unit >= 10) unit *= 10;
    for (digits = sides[i]; unit; digits %= unit, unit /= 10) text[length++] = (uint8_t)('0' + digits / unit);
  }
  text[length++] = ')';
  return length;
}

intrs_status intrs_content_index(const intrs_net* net, const uint8_t* image, size_t image_bytes, uint32_t* index) {
  const intrs_status status = check_image(net, image, image_bytes);
  intrs_sha256_state sha;
  uint8_t text[40], digest[INTRS_DIGEST_BYTES];
  if (status != INTRS_OK || !index) return status != INTRS_OK ? status : INTRS_BAD_ARGUMENT;
  intrs_sha256_begin(&sha);
  intrs_sha256_add(&sha, text, shape_text(intrs_tensors_of(net->data), text));
  intrs_sha256_add(&sha, image, intrs_image_bytes(net));
  intrs_sha256_end(&sha, digest);
  memcpy(index, digest, sizeof *index);
  return INTRS_OK;
}

/* --- runs --- */

/* What a network has of a mode. */
typedef struct {
  uint32_t select; /* samples that select the class; 0: none is selected */
  uint32_t first;  /* samples up to the first decision */
  uint32_t most;
} intrs_effort;

static const void* table_of(const intrs_net* net, uint32_t mode) {
  const intrs_header* header = intrs_header_of(net->data);
  const uint32_t at = mode == INTRS_PREDICT   ? header->predict_at
                      : mode == INTRS_CERTIFY ? header->certify_at
                                              : header->adaptive_at;
  return at ? net->data + at : 0;
}

static intrs_effort effort_of(const intrs_net* net, const intrs_run* run) {
  const void* table = table_of(net, run->mode);
  intrs_effort effort = {0, run->end, run->end};
  if (run->mode == INTRS_PREDICT) {
    effort.first = effort.most = ((const intrs_predict*)table)->n;
  } else if (run->mode == INTRS_CERTIFY) {
    effort.select = ((const intrs_certify*)table)->n0;
    effort.first = effort.most = ((const intrs_certify*)table)->n;
  } else if (run->mode == INTRS_ADAPTIVE) {
    const intrs_adaptive* rule = (const intrs_adaptive*)table;
    const uint32_t* looks = intrs_words(net->data, rule->looks_at);
    effort.select = rule->n0;
    effort.first = looks[0];
    effort.most = looks[rule->looks - 1];
  }
  return effort;
}

/* The digest of the constants begins with this word. */
static uint32_t network_word(const intrs_net* net) {
  const uint32_t bytes = intrs_header_of(net->data)->bytes;
  uint32_t word;
  memcpy(&word, net->data + bytes - INTRS_DIGEST_BYTES, sizeof word);
  return word;
}

static void clear(const intrs_net* net, intrs_run* run, uint32_t mode, const uint8_t seed[32], uint32_t index) {
  memset(run, 0, sizeof *run);
  run->magic = RUN_MAGIC;
  run->mode = mode;
  run->network = network_word(net);
  run->image = index;
  memcpy(run->key, seed, 32);
}

static uint64_t first_of(const intrs_run* run) {
  return (uint64_t)run->first_high << 32 | run->first_low;
}

static void set_first(intrs_run* run, uint64_t first) {
  run->first_low = (uint32_t)first;
  run->first_high = (uint32_t)(first >> 32);
}

intrs_status intrs_begin(const intrs_net* net, intrs_run* run, intrs_mode mode, const uint8_t seed[32],
                         uint32_t index) {
  intrs_effort effort;
  if (!net || !net->data || !run || !seed) return INTRS_BAD_ARGUMENT;
  if (mode != INTRS_PREDICT && mode != INTRS_CERTIFY && mode != INTRS_ADAPTIVE) return INTRS_BAD_ARGUMENT;
  if (!table_of(net, (uint32_t)mode) || !intrs_header_of(net->data)->noise_at) return INTRS_NO_TABLE;
  clear(net, run, (uint32_t)mode, seed, index);
  effort = effort_of(net, run);
  run->selecting = effort.select != 0;
  run->end = run->selecting ? effort.select : effort.first;
  if (run->selecting) set_first(run, INTRS_SELECTION);
  return INTRS_OK;
}

/* Do so many samples from the first on have addresses, all of the selection or all of the estimation? */
static int are_addresses(uint64_t first, uint32_t count) {
  return count != 0 && count - 1 <= UINT64_MAX - first &&
         (first < INTRS_SELECTION) == (first + (count - 1) < INTRS_SELECTION);
}

intrs_status intrs_begin_votes(const intrs_net* net, intrs_run* run, const uint8_t seed[32], uint32_t index,
                               uint64_t first, uint32_t count) {
  if (!net || !net->data || !run || !seed) return INTRS_BAD_ARGUMENT;
  if (!intrs_header_of(net->data)->noise_at) return INTRS_NO_TABLE;
  if (!are_addresses(first, count)) return INTRS_BAD_COUNT;
  clear(net, run, INTRS_VOTES, seed, index);
  set_first(run, first);
  run->end = count;
  return INTRS_OK;
}

/* Where the phase of a run ends, as far as the network's tables say; a count of votes ends where it was told to. */
static uint32_t end_of(const intrs_net* net, const intrs_run* run) {
  if (run->mode == INTRS_VOTES) return run->selecting ? 0 : run->end;
  if (run->selecting) return effort_of(net, run).select;
  if (run->mode != INTRS_ADAPTIVE) return effort_of(net, run).most;
  return intrs_words(net->data, ((const intrs_adaptive*)table_of(net, run->mode))->looks_at)[run->look];
}

/* Are its samples those that its mode takes? */
static int is_first(const intrs_run* run) {
  if (run->mode == INTRS_VOTES) return are_addresses(first_of(run), run->end);
  return first_of(run) == (run->selecting ? INTRS_SELECTION : 0);
}

/* Is this a run of the network, in a state that can be reached? */
static int is_run(const intrs_net* net, const intrs_run* run) {
  const uint32_t classes = intrs_classes(net);
  uint64_t votes = 0;
  uint32_t i;
  if (run->magic != RUN_MAGIC || run->network != network_word(net) || run->mode > INTRS_ADAPTIVE) return 0;
  if (run->mode != INTRS_VOTES && !table_of(net, run->mode)) return 0;
  if (!intrs_header_of(net->data)->noise_at || run->label >= classes || run->selecting > 1 || run->over > 1) return 0;
  if (run->mode == INTRS_ADAPTIVE && run->look >= ((const intrs_adaptive*)table_of(net, run->mode))->looks) return 0;
  if (run->end == 0 || run->end != end_of(net, run) || !is_first(run)) return 0;
  for (i = 0; i < classes; ++i) votes += run->counts[i];
  return votes == run->done && (run->over ? run->done == run->end && !run->selecting : run->done < run->end);
}

static uint32_t top_of(const uint32_t* counts, uint32_t classes, uint32_t but) {
  uint32_t i, best = but == 0 ? 1 : 0;
  for (i = best + 1; i < classes; ++i) {
    if (i != but && counts[i] > counts[best]) best = i;
  }
  return best;
}

/* What follows when the samples of a phase are done: the estimation, the next look, or the end. */
static void advance(const intrs_net* net, intrs_run* run) {
  const uint32_t classes = intrs_classes(net);
  if (run->selecting) {
    run->label = top_of(run->counts, classes, classes);
    run->selecting = 0;
    run->done = 0;
    set_first(run, 0);
    memset(run->counts, 0, sizeof run->counts);
    run->end = effort_of(net, run).first;
  } else if (run->mode == INTRS_ADAPTIVE && !intrs_adaptive_stops(net->data, run->look, run->counts[run->label])) {
    const intrs_adaptive* rule = (const intrs_adaptive*)table_of(net, run->mode);
    run->end = intrs_words(net->data, rule->looks_at)[++run->look];
  } else {
    run->over = 1;
  }
}

intrs_status intrs_next(const intrs_net* net, intrs_run* run, const uint8_t* image, size_t image_bytes,
                        uint32_t samples) {
  const intrs_status status = check_image(net, image, image_bytes);
  if (status != INTRS_OK) return status;
  if (!run) return INTRS_BAD_ARGUMENT;
  if (!is_run(net, run)) return INTRS_BAD_RUN;
  if (samples == 0) return INTRS_BAD_COUNT;
  for (; samples != 0 && !run->over; --samples) {
    intrs_load_noisy(net, image, run->key, run->image, first_of(run) + run->done);
    intrs_run_layers(net);
    ++run->counts[intrs_top_class(net)];
    if (++run->done == run->end) advance(net, run);
  }
  return run->over ? INTRS_OK : INTRS_MORE;
}

intrs_status intrs_finish(const intrs_net* net, intrs_run* run, const uint8_t* image, size_t image_bytes,
                          intrs_progress progress, void* context) {
  intrs_status status;
  do {
    status = intrs_next(net, run, image, image_bytes, 1);
    if (progress && status >= INTRS_OK) {
      const intrs_effort effort = effort_of(net, run);
      const uint32_t before = run->selecting ? 0 : effort.select;
      if (progress(context, before + run->done, effort.select + effort.most) != 0 && status == INTRS_MORE) {
        return INTRS_STOPPED;
      }
    }
  } while (status == INTRS_MORE);
  return status;
}

intrs_status intrs_result(const intrs_net* net, const intrs_run* run, intrs_answer* answer) {
  uint32_t classes, second;
  if (!net || !net->data || !run || !answer) return INTRS_BAD_ARGUMENT;
  memset(answer, 0, sizeof *answer);
  if (!is_run(net, run)) return INTRS_BAD_RUN;
  if (!run->over) return INTRS_NOT_OVER;
  classes = intrs_classes(net);
  answer->samples = run->done;
  answer->label =
      run->mode == INTRS_CERTIFY || run->mode == INTRS_ADAPTIVE ? run->label : top_of(run->counts, classes, classes);
  answer->votes = run->counts[answer->label];
  if (run->mode == INTRS_PREDICT) {
    second = classes > 1 ? run->counts[top_of(run->counts, classes, answer->label)] : 0;
    answer->decided = intrs_predict_passes(net->data, answer->votes, second) != 0;
  } else if (run->mode == INTRS_CERTIFY) {
    answer->decided = intrs_certified(net->data, answer->votes, &answer->radius_sq) != 0;
  } else if (run->mode == INTRS_ADAPTIVE) {
    answer->decided = intrs_adaptive_certified(net->data, run->look, answer->votes, &answer->radius_sq) != 0;
  }
  return INTRS_OK;
}

int intrs_at_least(const intrs_answer* answer, uint32_t radius_sq) {
  return answer && answer->decided && answer->radius_sq >= radius_sq;
}

/* One bit in one score of one sample makes another digest. */
static void add_scores(const intrs_net* net, intrs_sha256_state* sha) {
  uint32_t label, i;
  for (label = 0; label < intrs_classes(net); ++label) {
    const uint32_t score = (uint32_t)intrs_score(net, label);
    uint8_t bytes[4];
    for (i = 0; i < 4; ++i) bytes[i] = (uint8_t)(score >> 8 * i);
    intrs_sha256_add(sha, bytes, sizeof bytes);
  }
}

static intrs_status check_samples(const intrs_net* net, const intrs_vectors* vectors, intrs_run* run) {
  uint8_t digest[INTRS_DIGEST_BYTES];
  intrs_sha256_state sha;
  intrs_status status = intrs_begin_votes(net, run, vectors->seed, vectors->index, 0, vectors->samples);
  if (status != INTRS_OK) return status;
  intrs_sha256_begin(&sha);
  do {
    status = intrs_next(net, run, vectors->image, vectors->image_bytes, 1);
    if (status < INTRS_OK) return status;
    add_scores(net, &sha);
  } while (status == INTRS_MORE);
  intrs_sha256_end(&sha, digest);
  if (differ(digest, vectors->scores, sizeof digest)) return INTRS_DIFFERENT;
  for (run->label = 0; run->label < intrs_classes(net); ++run->label) {
    if (run->counts[run->label] != vectors->votes[run->label]) return INTRS_DIFFERENT;
  }
  return INTRS_OK;
}

intrs_status intrs_self_check(const intrs_net* net, const intrs_vectors* vectors, intrs_run* run) {
  uint32_t index = 0;
  intrs_status status;
  if (!run || !vectors || !vectors->seed || !vectors->votes || !vectors->scores) return INTRS_BAD_ARGUMENT;
  status = intrs_content_index(net, vectors->image, vectors->image_bytes, &index);
  if (status != INTRS_OK) return status;
  return index == vectors->index ? check_samples(net, vectors, run) : INTRS_DIFFERENT;
}

/* --- runs as bytes: all words, little endian, then the SHA-256 of them --- */

intrs_status intrs_save(const intrs_run* run, uint8_t* bytes, size_t size) {
  const uint32_t words = (uint32_t)sizeof *run;
  if (!run || !bytes || size < INTRS_SAVED_BYTES) return INTRS_BAD_ARGUMENT;
  if (run->magic != RUN_MAGIC) return INTRS_BAD_RUN;
  memcpy(bytes, run, words);
  intrs_sha256(bytes, words, bytes + words);
  return INTRS_OK;
}

intrs_status intrs_restore(const intrs_net* net, intrs_run* run, const uint8_t* bytes, size_t size) {
  const uint32_t words = (uint32_t)sizeof *run;
  uint8_t digest[INTRS_DIGEST_BYTES];
  if (!net || !net->data || !run || !bytes) return INTRS_BAD_ARGUMENT;
  memset(run, 0, sizeof *run);
  if (size < INTRS_SAVED_BYTES) return INTRS_TRUNCATED;
  intrs_sha256(bytes, words, digest);
  if (differ(digest, bytes + words, sizeof digest)) return INTRS_BAD_HASH;
  memcpy(run, bytes, words);
  if (is_run(net, run)) return INTRS_OK;
  memset(run, 0, sizeof *run);
  return INTRS_BAD_RUN;
}

typedef char intrs_run_is_its_words[sizeof(intrs_run) == 4 * (RUN_WORDS + INTRS_MOST_CLASSES) ? 1 : -1];
