/* Boot of the driver on an emulated Cortex-M, with newlib's semihosting for files and output. Its own start asks the
 * debugger for memory, which QEMU does not know of every board. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t link_stack_top, link_bss, link_bss_end;
void initialise_monitor_handles(void);
int main(void);

static void fault(void) {
  _Exit(99);
}

static void reset(void) {
  uint32_t* to;
#if defined(__ARM_FEATURE_MVE)
  *(volatile uint32_t*)0xe000ed88 |= 0xfu << 20; /* CPACR: Helium is off after a reset */
  __asm__ volatile("dsb\n\tisb");
#endif
  for (to = &link_bss; to < &link_bss_end; ++to) *to = 0;
  initialise_monitor_handles();
  exit(main());
}

typedef void (*vector)(void);

__attribute__((section(".vectors"), used)) static const struct {
  const uint32_t* stack;
  vector handlers[15];
} vectors = {&link_stack_top, {reset, fault, fault, fault, fault, fault}};
