// Before a kernel set is used it must give the bits of the scalar one on this machine, for small networks and some
// noise.
#pragma once

#include "program.h"

namespace intrs {

// Runs when a set is first selected, in a few milliseconds. Throws Error for a set that fails, and from then on.
void self_check(const KernelSet& set);

// What it runs: a network with every kind of layer, of which all tensors are compared, and one whose layers run
// together a few rows at a time, so many of them as `check_near` says, of which the class scores are compared.
Network check_kinds();
Network check_rows();
Near check_near(int32_t rows);
constexpr int32_t kCheckRows[] = {1, 4};

}  // namespace intrs
