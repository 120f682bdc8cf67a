/* Runs networks that it reads from the standard input through the device runtime, for tests/test_device.py: commands as
 * little-endian words, one line of answers each. Memory is taken in exact sizes, so that AddressSanitizer sees every
 * step outside. On an emulated board (tests/boards.py) the commands are a file, INTRS_COMMANDS, which
 * semihosting opens on the computer that emulates it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intrs_data.h"

enum { END, OPEN, CLASSIFY, VOTES, RUN, OPEN_IN, RESTORE, LIMIT };

typedef struct {
  void *data, *arena;
  intrs_net net;
  intrs_status status;
} device;

static FILE* commands;
static uint32_t most_arena = 1u << 26, most_steps = UINT32_MAX; /* for mutated constants, which may ask for anything */

static void take(void* to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, commands) != bytes) exit(3);
}

static uint32_t word(void) {
  uint32_t value;
  take(&value, sizeof value);
  return value;
}

static void* allocated(size_t bytes) {
  void* found = malloc(bytes ? bytes : 1);
  if (!found) exit(4);
  return found;
}

static void* bytes_of(uint32_t* count) {
  void* found;
  *count = word();
  found = allocated(*count);
  take(found, *count);
  return found;
}

static void close_device(device* d) {
  free(d->data);
  free(d->arena);
  memset(d, 0, sizeof *d);
}

static void open_device(device* d, uint32_t command) {
  uint32_t bytes, arena = 0, arena_shift = 0, data_shift = 0;
  uint8_t *data, *memory;
  close_device(d);
  if (command == OPEN_IN) {
    arena = word();
    arena_shift = word();
    data_shift = word();
  }
  data = (uint8_t*)bytes_of(&bytes);
  d->data = allocated(bytes + data_shift);
  memcpy((uint8_t*)d->data + data_shift, data, bytes);
  free(data);
  data = (uint8_t*)d->data + data_shift;
  if (command == OPEN) arena = (uint32_t)intrs_arena_bytes(data, bytes);
  if (arena > most_arena) arena = 0;
  d->arena = allocated(arena + arena_shift);
  memory = (uint8_t*)d->arena + arena_shift;
  memset(memory, 0x5a, arena); /* what lies there must not matter */
  d->status = intrs_open(&d->net, data, bytes, memory, arena);
  printf("%d %u\n", (int)d->status, (unsigned)arena);
}

static void classify(device* d) {
  uint32_t bytes, label = 0, i;
  uint8_t* image = (uint8_t*)bytes_of(&bytes);
  const intrs_status status =
      d->status == INTRS_OK ? intrs_classify(&d->net, image, bytes, &label) : INTRS_BAD_ARGUMENT;
  printf("%d %u", (int)status, (unsigned)label);
  for (i = 0; status == INTRS_OK && i < intrs_classes(&d->net); ++i) printf(" %d", (int)intrs_score(&d->net, i));
  printf("\n");
  free(image);
}

/* Continues a run in steps; between them it is saved, forgotten and restored, and the arena is overwritten. */
static intrs_status go_on(device* d, intrs_run* run, const uint8_t* image, uint32_t bytes, uint32_t step) {
  intrs_status status = INTRS_MORE;
  uint8_t* saved = (uint8_t*)allocated(INTRS_SAVED_BYTES);
  uint32_t steps;
  for (steps = 0; status == INTRS_MORE && steps < most_steps; ++steps) {
    status = intrs_next(&d->net, run, image, bytes, step);
    if (status != INTRS_MORE) break;
    if (intrs_save(run, saved, INTRS_SAVED_BYTES) != INTRS_OK) exit(5);
    memset(run, 0xee, sizeof *run);
    memset(d->net.arena, 0xa5, intrs_header_of(d->net.data)->arena_bytes);
    if (intrs_restore(&d->net, run, saved, INTRS_SAVED_BYTES) != INTRS_OK) exit(6);
  }
  free(saved);
  return status;
}

/* The answer of a run that was begun or restored with this status. */
static void answer_run(device* d, intrs_status status, intrs_run* run, uint32_t step) {
  uint32_t bytes, i;
  uint8_t* image = (uint8_t*)bytes_of(&bytes);
  intrs_answer answer;
  if (status == INTRS_OK) status = go_on(d, run, image, bytes, step);
  if (status == INTRS_OK) status = intrs_result(&d->net, run, &answer);
  printf("%d", (int)status);
  if (status == INTRS_OK) {
    printf(" %u %u %u %u %u", (unsigned)answer.decided, (unsigned)answer.label, (unsigned)answer.votes,
           (unsigned)answer.samples, (unsigned)answer.radius_sq);
    for (i = 0; i < intrs_classes(&d->net); ++i) printf(" %u", (unsigned)run->counts[i]);
  }
  printf("\n");
  free(image);
}

static void run_device(device* d, uint32_t command) {
  uint8_t seed[32];
  uint32_t index, mode, step, count = 0;
  uint64_t first = 0;
  intrs_run run;
  intrs_status status = d->status;
  memset(&run, 0, sizeof run);
  take(seed, sizeof seed);
  index = word();
  mode = word();
  step = word();
  if (command == VOTES) {
    take(&first, sizeof first);
    count = word();
  }
  if (status == INTRS_OK) {
    status = command == VOTES ? intrs_begin_votes(&d->net, &run, seed, index, first, count)
                              : intrs_begin(&d->net, &run, (intrs_mode)mode, seed, index);
  }
  answer_run(d, status, &run, step);
}

static void restore_device(device* d) {
  uint32_t bytes;
  uint8_t* saved = (uint8_t*)bytes_of(&bytes);
  const uint32_t step = word();
  intrs_run run;
  const intrs_status status = d->status == INTRS_OK ? intrs_restore(&d->net, &run, saved, bytes) : d->status;
  free(saved);
  answer_run(d, status, &run, step);
}

int main(void) {
  device d;
  uint32_t command;
  memset(&d, 0, sizeof d);
#ifdef INTRS_COMMANDS
  commands = fopen(INTRS_COMMANDS, "rb");
#else
  commands = stdin;
#endif
  if (!commands) return 7;
  while ((command = word()) != END) {
    if (command == OPEN || command == OPEN_IN) {
      open_device(&d, command);
    } else if (command == CLASSIFY) {
      classify(&d);
    } else if (command == VOTES || command == RUN) {
      run_device(&d, command);
    } else if (command == RESTORE) {
      restore_device(&d);
    } else if (command == LIMIT) {
      most_arena = word();
      most_steps = word();
      printf("0\n");
    } else {
      return 2;
    }
  }
  close_device(&d);
  return 0;
}
