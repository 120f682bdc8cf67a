/* Takes SAMPLES samples of an exported network and ends, for instructions.sh: what an emulator counts. The exit code is
 * not 0 if the votes are not those of the desktop, as far as the folder knows them. */
#include <stddef.h>

#include "intrs.h"
#include "net.h"

extern uint32_t link_stack_top, link_bss, link_bss_end;

static uint32_t arena[NET_ARENA_BYTES / 4];
static intrs_run run;

/* GCC would make of these loops calls of the functions themselves. */
__attribute__((optimize("no-tree-loop-distribute-patterns"))) void* memcpy(void* to, const void* from, size_t count) {
  uint8_t* t = (uint8_t*)to;
  const uint8_t* f = (const uint8_t*)from;
  while (count--) *t++ = *f++;
  return to;
}

__attribute__((optimize("no-tree-loop-distribute-patterns"))) void* memset(void* to, int value, size_t count) {
  uint8_t* t = (uint8_t*)to;
  while (count--) *t++ = (uint8_t)value;
  return to;
}

static int take_samples(void) {
  intrs_net net;
  uint32_t i;
  intrs_status status = intrs_open(&net, net_data, NET_DATA_BYTES, arena, sizeof arena);
  if (status == INTRS_OK) status = intrs_begin_votes(&net, &run, net_vectors.seed, net_vectors.index, 0, SAMPLES);
  if (status == INTRS_OK) status = intrs_next(&net, &run, net_vectors.image, net_vectors.image_bytes, SAMPLES);
  if (status != INTRS_OK) return 1;
  for (i = 0; i < NET_CLASSES && SAMPLES == net_vectors.samples; ++i) {
    if (run.counts[i] != net_vectors.votes[i]) return 2;
  }
  return 0;
}

static void leave(int code) {
  const uint32_t reason[2] = {0x20026, (uint32_t)code}; /* ADP_Stopped_ApplicationExit */
  register int r0 __asm__("r0") = 0x20;                 /* SYS_EXIT_EXTENDED */
  register const void* r1 __asm__("r1") = reason;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void fault(void) {
  leave(99);
}

void reset(void) {
  uint32_t* to;
#if defined(__ARM_FEATURE_MVE)
  *(volatile uint32_t*)0xe000ed88 |= 0xfu << 20; /* CPACR: Helium is off after a reset */
  __asm__ volatile("dsb\n\tisb");
#endif
  for (to = &link_bss; to < &link_bss_end; ++to) *to = 0;
  leave(take_samples());
}

typedef void (*vector)(void);

__attribute__((section(".vectors"), used)) static const struct {
  const uint32_t* stack;
  vector handlers[15];
} vectors = {&link_stack_top, {reset, fault, fault, fault, fault, fault}};
