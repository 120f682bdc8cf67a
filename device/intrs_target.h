/* The one switch for processors, INTRS_KERNELS: 0 is portable C99, 1 the DSP extension of Cortex-M4, M7, M33 and later
 * (two 16-bit products per instruction), 2 Helium (Cortex-M55, M85). Left out, the compiler's target decides. Every
 * value gives the bits of 0. And what compilers are told beside C99. */
#ifndef INTRS_TARGET_H
#define INTRS_TARGET_H

#ifndef INTRS_KERNELS
#if !defined(__GNUC__)
#define INTRS_KERNELS 0 /* the others have assembly in them, as GCC and Clang write it */
#elif defined(__ARM_FEATURE_MVE) && defined(__arm__)
#define INTRS_KERNELS 2
#elif defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP == 1 && defined(__arm__)
#define INTRS_KERNELS 1
#else
#define INTRS_KERNELS 0
#endif
#endif

#if INTRS_KERNELS < 0 || INTRS_KERNELS > 2
#error "INTRS_KERNELS: choose 0 (portable), 1 (Cortex-M with DSP extension) or 2 (Helium)"
#endif

#if INTRS_KERNELS != 0 && defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
#define INTRS_DSP 1 /* the instructions themselves, not C in their place */
#include <arm_acle.h>
#else
#define INTRS_DSP 0
#endif

/* Loops that are written once for one and for two outputs and places become a function for each, apart from the code
 * around it, so that a small processor's registers are enough. */
#if defined(__GNUC__)
#define INTRS_INLINE static inline __attribute__((always_inline))
#define INTRS_APART static __attribute__((noinline))
#define INTRS_NAKED static __attribute__((naked, noinline)) /* all of it is assembly; it says "memory" */
#define INTRS_UNUSED __attribute__((unused))
#define INTRS_COPY __builtin_memcpy /* one instruction for a word, even where memcpy is no builtin */
#else
#define INTRS_INLINE static inline
#define INTRS_APART static
#define INTRS_COPY memcpy
#endif

#endif
