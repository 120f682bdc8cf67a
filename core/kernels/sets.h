// Every kernel set there is; select.cpp chooses among them. A set for another architecture is left out by the build.
#pragma once

#include "kernels.h"

namespace intrs {

KernelSet scalar_set();
std::vector<KernelSet> test_sets();
#if defined(__x86_64__)
KernelSet avx2_set();
KernelSet avxvnni_set();
KernelSet avx512vnni_set();
#elif defined(__aarch64__)
KernelSet neon_set();
#endif

}  // namespace intrs
