/* Loops for Helium, the vectors of Cortex-M55 and M85: rows of plain convolutions on codes as they are, 16 products per
 * instruction, and additions. In assembly, because GCC 12 makes three times as many instructions of the intrinsics. The
 * loops count elements, and leave out lanes beyond the last: nothing outside is read or written. */
#ifndef INTRS_HELIUM_H
#define INTRS_HELIUM_H

#include "intrs_layers.h"
#include "intrs_target.h"

#if INTRS_KERNELS == 2

INTRS_INLINE void intrs_copy_codes(int8_t* to, const int8_t* from, uint32_t count) {
  __asm__ volatile(
      "wlstp.8 lr, %[n], 2f\n\t"
      "1: vldrb.8 q0, [%[from]], #16\n\t"
      "vstrb.8 q0, [%[to]], #16\n\t"
      "letp lr, 1b\n\t"
      "2:\n\t"
      : [to] "+r"(to), [from] "+r"(from)
      : [n] "r"(count)
      : "q0", "lr", "memory");
}

INTRS_INLINE int32_t intrs_sum_of_codes(const int8_t* from, uint32_t count) {
  int32_t sum = 0;
  __asm__(
      "wlstp.8 lr, %[n], 2f\n\t"
      "1: vldrb.8 q0, [%[from]], #16\n\t"
      "vaddva.s8 %[sum], q0\n\t"
      "letp lr, 1b\n\t"
      "2:\n\t"
      : [sum] "+Te"(sum), [from] "+r"(from)
      : [n] "r"(count)
      : "q0", "lr", "memory");
  return sum;
}

/* r0 to r3 as they come, r4 to r10 the numbers of the addition in their order. */
INTRS_NAKED INTRS_UNUSED void intrs_walk_add(INTRS_UNUSED int8_t* to, INTRS_UNUSED const int8_t* a,
                                             INTRS_UNUSED const int8_t* b, INTRS_UNUSED uint32_t count,
                                             INTRS_UNUSED const intrs_adding* adding) {
  __asm__ volatile(
      "push {r4-r10, lr}\n\t"
      "ldr r12, [sp, #32]\n\t"
      "ldm r12, {r4-r10}\n\t"
      "rsb r7, r7, #0\n\t" /* a shift to the left by less than 0 is one to the right */
      "vdup.32 q2, r8\n\t"
      "vdup.32 q3, r9\n\t"
      "wlstp.32 lr, r3, 2f\n\t"
      "1: vldrb.s32 q0, [r1], #4\n\t"
      "vldrb.s32 q1, [r2], #4\n\t"
      "vmul.i32 q0, q0, r4\n\t"
      "vmla.s32 q0, q1, r5\n\t"
      "vadd.i32 q0, q0, r6\n\t"
      "vshl.s32 q0, r7\n\t"
      "vmax.s32 q0, q0, q2\n\t"
      "vmin.s32 q0, q0, q3\n\t"
      "vadd.i32 q0, q0, r10\n\t"
      "vstrb.32 q0, [r0], #4\n\t"
      "letp lr, 1b\n\t"
      "2: pop {r4-r10, pc}\n\t" ::
          : "memory");
}

/* Two outputs at pairs of places along a row. The rows of the input lie in a ring. The assembly knows the offsets. */
typedef struct {
  const int8_t* first;   /* 0: the first code under the window, at this place */
  uint32_t rows;         /* 4: of the kernel, inside the input, at least 1 */
  const int8_t* end;     /* 8: rows from here on begin again `wrap` before */
  uint32_t across;       /* 12: from the first place to the second, in the input */
  const int8_t* weights; /* 16: of the first output */
  const int8_t* second;  /* 20: of the second */
  int32_t bias[2];       /* 24 */
  uint32_t run;          /* 32: codes and weights in a row */
  int32_t down;          /* 36: from the end of a run, rounded up to 16, to the next row */
  uint32_t beyond;       /* 40: how much further than a run that is */
  uint32_t wrap;         /* 44 */
  int8_t* to;            /* 48: the first output's code at this place */
  uint32_t to_across;    /* 52: from a pair of places to the next, in the output */
  uint32_t pairs;        /* 56: of places, at least 1 */
  int32_t* sums;         /* 60: if not 0, sums of one pair are wanted, not codes */
  int32_t multiplier[4]; /* 64: what follows is by lane: two places of the first output, then of the second */
  int32_t more[4];       /* 80: rounding term and zero point, added to the upper word of the product */
  int32_t up[4];         /* 96: minus the shift of that word */
  uint32_t at[4];        /* 112: where the code goes, from `to` */
} intrs_helium_row;

/* r0, r1 weights, r2, r3 codes, r4, r6, r8, r10 sums, r5 rows left, r7 end, r9 down, r11 run, r12 beyond. */
INTRS_NAKED INTRS_UNUSED void intrs_walk_helium(INTRS_UNUSED intrs_helium_row* row) {
  __asm__ volatile(
      "push {r0, r4-r11, lr}\n\t"
      "ldrd r11, r9, [r0, #32]\n\t"
      "1: ldrd r2, r5, [r0]\n\t"
      "ldrd r7, r3, [r0, #8]\n\t"
      "ldrd r4, r8, [r0, #24]\n\t"
      "ldr r12, [r0, #40]\n\t"
      "ldrd r0, r1, [r0, #16]\n\t"
      "add r3, r2\n\t"
      "mov r6, r4\n\t"
      "mov r10, r8\n\t"
      "2: dlstp.8 lr, r11\n\t"
      "3: vldrb.8 q0, [r0], #16\n\t"
      "vldrb.8 q2, [r2], #16\n\t"
      "vldrb.8 q1, [r1], #16\n\t"
      "vmladava.s8 r4, q0, q2\n\t"
      "vldrb.8 q3, [r3], #16\n\t"
      "vmladava.s8 r8, q1, q2\n\t"
      "vmladava.s8 r6, q0, q3\n\t"
      "vmladava.s8 r10, q1, q3\n\t"
      "letp lr, 3b\n\t"
      "subs r5, #1\n\t"
      "beq 4f\n\t"
      "sub r0, r12\n\t"
      "sub r1, r12\n\t"
      "add r2, r9\n\t"
      "add r3, r9\n\t"
      "cmp r2, r7\n\t"
      "blo 2b\n\t"
      "ldr lr, [sp]\n\t"
      "ldr lr, [lr, #44]\n\t"
      "sub r2, lr\n\t"
      "sub r3, lr\n\t"
      "b 2b\n\t"
      "4: ldr r0, [sp]\n\t"
      "vmov q0[2], q0[0], r4, r8\n\t"
      "vmov q0[3], q0[1], r6, r10\n\t"
      "ldr r1, [r0, #60]\n\t"
      "cbnz r1, 5f\n\t"
      "vldrw.32 q1, [r0, #64]\n\t"
      "vldrw.32 q2, [r0, #80]\n\t"
      "vldrw.32 q3, [r0, #96]\n\t"
      "vmulh.s32 q0, q0, q1\n\t"
      "vldrw.32 q1, [r0, #112]\n\t"
      "vadd.i32 q0, q0, q2\n\t"
      "ldrd r3, r4, [r0, #48]\n\t"
      "vshl.s32 q0, q0, q3\n\t"
      "ldr r5, [r0, #12]\n\t"
      "vqmovnb.s32 q0, q0\n\t"
      "ldr r2, [r0]\n\t"
      "vqmovnb.s16 q0, q0\n\t"
      "ldr r6, [r0, #56]\n\t"
      "vstrb.32 q0, [r3, q1]\n\t"
      "add r2, r2, r5, lsl #1\n\t"
      "add r7, r7, r5, lsl #1\n\t"
      "add r3, r4\n\t"
      "subs r6, #1\n\t"
      "str r2, [r0]\n\t"
      "str r7, [r0, #8]\n\t"
      "str r3, [r0, #48]\n\t"
      "str r6, [r0, #56]\n\t"
      "bne 1b\n\t"
      "pop {r0, r4-r11, pc}\n\t"
      "5: vstrw.32 q0, [r1]\n\t"
      "pop {r0, r4-r11, pc}\n\t" ::
          : "memory");
}

#endif

#endif
