// Running a network under a kernel set.
#pragma once

#include "kernels.h"

namespace intrs {

// Layers that are run together, a few rows of the last one's output at a time, so that what passes between them stays
// in a near cache. Of the tensors between them only some rows are held, and these move up as the rows go by.
struct Stage {
  size_t first, last;  // layers, both included
  int32_t rows;        // of the last one's output at a time; all if there is but one layer
};

// What decides about stages, in bytes.
struct Near {
  int64_t kept = 768 << 10;   // rows and weights that a stage may keep in a near cache
  int64_t small = 256 << 10;  // a tensor of this size stays near anyway
};

// What all threads share: where each tensor lies, and weights in the set's order.
class Program {
 public:
  // With keep_all no tensor's place is used again, so that all can be read afterwards.
  Program(const Network& network, const KernelSet& kernels, bool keep_all = false, Near near = Near());

  const Network& network;
  const KernelSet& kernels;
  const Near near;
  std::vector<Stage> stages;                    // every layer is in one
  std::vector<In> tensors;                      // codes are null here; a Runner has the memory
  std::vector<int32_t> held;                    // rows of each tensor that lie in memory, its border's among them
  std::vector<int64_t> offsets;                 // bytes
  int64_t bytes = 0;                            // of all tensors
  int64_t scratch = 0;                          // bytes behind them, for the Conv that is running
  std::vector<std::unique_ptr<Packed>> packed;  // one a layer, null but for Convs
};

// One block of samples, in memory of its own: one for each thread.
class Runner {
 public:
  explicit Runner(const Program& program);

  void load(int32_t lane, const int32_t* pixels);  // image plus noise, in coordinate order
  void run();
  int32_t score(int32_t lane, int32_t channel) const;
  void read(size_t tensor, int32_t lane, std::vector<int32_t>& values) const;  // appends them in (y, x, channel) order
  int32_t top_class(int32_t lane) const;                                       // TOSA ARGMAX: the lowest class at a tie

  int32_t lanes() const { return program_.kernels.layout.lanes; }

 private:
  int32_t value(size_t tensor, int32_t lane, int64_t y, int64_t x, int64_t channel) const;
  uint8_t* base() const;
  View<uint8_t> view(size_t tensor) const;
  In in(int32_t tensor) const;
  void run_stage(const Stage& stage);
  void make_room(const Stage& stage, size_t layer, int32_t end);
  void run_layer(size_t index, int32_t begin, int32_t end);

  const Program& program_;
  mutable std::vector<uint8_t> memory_;
  std::vector<In> concat_inputs_;
  std::vector<int32_t> done_, goals_;  // of the stage that is running: rows of each layer's output
  std::vector<int32_t> origin_;        // the row of each tensor that lies first in its memory
};

}  // namespace intrs
