// Every kernel set there is; select.cpp chooses among them. A function here may itself need the instructions of its
// set: call it only on a machine that has them.
#pragma once

#include "kernels.h"

namespace intrs {

KernelSet scalar_set();
std::vector<KernelSet> test_sets();
#if defined(__x86_64__)
KernelSet avx2_set();
#if defined(INTRS_AVXVNNI)  // compilers before GCC 11 and Clang 12 do not know it
KernelSet avxvnni_set();
#endif
KernelSet avx512vnni_set();
#if defined(INTRS_AMX)  // compilers before GCC 11 and Clang 11 do not know it
KernelSet amx_set();
#endif
#elif defined(__aarch64__)
KernelSet neon_set();
KernelSet neon_smlal_set();
#elif defined(__wasm_simd128__)
KernelSet wasm_set();
#endif

}  // namespace intrs
