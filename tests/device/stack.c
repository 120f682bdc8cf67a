/* How much stack and arena the runtime really uses, on an emulated board: in place of the example of an exported
 * folder. The stack below this function and the words around the arena are painted; what is no longer so was written.
 */
#include "board.h"
#include "intrs.h"
#include "net.h"

#define PAINT 0xc0ffee11u
#define PAINTED 1024u /* words */
#define GUARD 16u     /* words before and behind the arena */

static uint32_t memory[GUARD + NET_ARENA_BYTES / 4 + GUARD];
static intrs_run run;
static uint8_t saved[INTRS_SAVED_BYTES];
static volatile uint32_t* caller; /* where the stack of the caller ends, and that of the runtime begins */

static void write_line(const char* name, uint32_t number) {
  char text[12];
  int at = 11;
  text[at] = 0;
  do {
    text[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  board_write(name);
  board_write(" ");
  board_write(text + at);
  board_write("\n");
}

/* All of the interface; the last status is the answer. */
static __attribute__((noinline)) intrs_status use_everything(void) {
  const intrs_vectors* v = &net_vectors;
  intrs_net net;
  intrs_answer answer;
  uint32_t label, i;
  intrs_status status;
  __asm__ volatile("mov %0, sp" : "=r"(caller));
  status = intrs_open(&net, net_data, NET_DATA_BYTES, memory + GUARD, NET_ARENA_BYTES);
  if (status == INTRS_OK) status = intrs_self_check(&net, v, &run);
  if (status == INTRS_OK) status = intrs_classify(&net, v->image, v->image_bytes, &label);
  for (i = 0; status == INTRS_OK && i < v->answers; ++i) {
    status = intrs_begin(&net, &run, v->expected[i].mode, v->seed, v->index);
    if (status == INTRS_OK) status = intrs_save(&run, saved, sizeof saved);
    if (status == INTRS_OK) status = intrs_restore(&net, &run, saved, sizeof saved);
    if (status == INTRS_OK) status = intrs_finish(&net, &run, v->image, v->image_bytes, 0, 0);
    if (status == INTRS_OK) status = intrs_result(&net, &run, &answer);
  }
  return status;
}

int main(void) {
  volatile uint32_t* stack; /* grows down */
  uint32_t used, i, inside = 0;
  intrs_status status;
  __asm__ volatile("mov %0, sp" : "=r"(stack));
  for (i = 0; i < sizeof memory / 4; ++i) memory[i] = PAINT;
  for (i = 32; i < PAINTED; ++i) *(stack - i) = PAINT; /* this function's own words stay as they are */
  status = use_everything();
  for (used = PAINTED - 1; used >= 32 && *(stack - used) == PAINT;) --used;
  for (i = 0; i < GUARD; ++i) {
    if (memory[i] != PAINT || memory[GUARD + NET_ARENA_BYTES / 4 + i] != PAINT) return 2;
  }
  for (i = 0; i < NET_ARENA_BYTES / 4; ++i) inside += memory[GUARD + i] != PAINT;
  write_line("status", (uint32_t)status);
  write_line("stack", (uint32_t)((uintptr_t)caller - (uintptr_t)(stack - used)));
  write_line("arena", 4 * inside);
  return 0;
}
