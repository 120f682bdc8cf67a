// A network planned for a kernel set: where each tensor lies, which layers run together, weights in the set's order.
#pragma once

#include "kernels.h"

namespace intrs {

// Layers that are run together, a few rows of the last one's output at a time, so that what passes between them stays
// in a near cache. Of the tensors between them only some rows are held, and these move up as the rows go by.
struct Stage {
  size_t first, last;  // layers, both included
  int32_t rows;        // of the last one's output at a time; all if there is but one layer
};

// What decides about stages.
struct Near {
  int64_t kept = 768 << 10;   // bytes of rows and weights that a stage may keep in a near cache
  int64_t small = 256 << 10;  // a tensor of this many bytes stays near anyway
  int32_t rows = INT32_MAX;   // of a stage at a time, at most
};

// Memory is aligned to this many bytes, and a set may load, never use, as many past a tensor.
constexpr int64_t kAlign = 64;

// What all threads share.
class Program {
 public:
  // With keep_all no tensor's place is used again, so that all can be read afterwards. Throws Error if the network
  // needs too much memory, or if a row that a layer reads or writes would not lie in memory then: a Runner checks
  // nothing.
  Program(const Network& network, const KernelSet& kernels, bool keep_all = false, Near near = Near());

  const Network& network;
  const KernelSet& kernels;
  const Near near;
  std::vector<In> tensors;                      // codes are null here; a Runner has the memory
  std::vector<std::unique_ptr<Packed>> packed;  // one per layer, null but for Convs
  std::vector<Stage> stages;                    // every layer is in one
  std::vector<int32_t> held;                    // rows of each tensor that lie in memory, its border's among them
  std::vector<int64_t> offsets;                 // bytes
  int64_t bytes = 0;                            // of all tensors
  int64_t scratch = 0;                          // bytes behind them, for the Conv that is running

 private:
  void lay_out();
  void pack();
  void divide(bool keep_all);
  void place(bool keep_all);
};

inline int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

inline int32_t all_rows(const In& t) {
  return t.border.top + t.shape.height + t.border.bottom;
}

}  // namespace intrs
