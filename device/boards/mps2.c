/* ARM's MPS2 boards in QEMU (Cortex-M3, M4, M7; mps3-an547 is M55): boot, memory functions, and output by semihosting.
 * No C library is linked. */
#include <stddef.h>
#include <stdint.h>

#include "board.h"

extern uint32_t link_data_from, link_data, link_data_end, link_bss, link_bss_end, link_stack_top;
int main(void);
void board_reset(void);
void board_fault(void);

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

static int semihosting(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void board_write(const char* text) {
  semihosting(0x04, text); /* SYS_WRITE0 */
}

void board_exit(int code) {
  const uint32_t reason[2] = {0x20026, (uint32_t)code}; /* ADP_Stopped_ApplicationExit */
  semihosting(0x20, reason);                            /* SYS_EXIT_EXTENDED */
  for (;;) {
  }
}

void board_fault(void) {
  board_write("fault\n");
  board_exit(99);
}

void board_reset(void) {
  uint32_t *from = &link_data_from, *to = &link_data;
#if defined(__ARM_FEATURE_MVE)
  *(volatile uint32_t*)0xe000ed88 |= 0xfu << 20; /* CPACR: Helium is off after a reset */
  __asm__ volatile("dsb\n\tisb");
#endif
  while (to < &link_data_end) *to++ = *from++;
  for (to = &link_bss; to < &link_bss_end; ++to) *to = 0;
  board_exit(main());
}

typedef void (*vector)(void);

__attribute__((section(".vectors"), used)) static const struct {
  const uint32_t* stack;
  vector handlers[15];
} vectors = {&link_stack_top, {board_reset, board_fault, board_fault, board_fault, board_fault, board_fault}};
