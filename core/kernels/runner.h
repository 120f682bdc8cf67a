// Running a network under a kernel set.
#pragma once

#include "kernels.h"

namespace intrs {

// What all threads share: where each tensor lies, and weights in the set's order.
class Program {
 public:
  // With keep_all no tensor's place is used again, so that all can be read afterwards.
  Program(const Network& network, const KernelSet& kernels, bool keep_all = false);

  const Network& network;
  const KernelSet& kernels;
  std::vector<In> tensors;                      // codes are null here; a Runner has the memory
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
  void run_layer(size_t index);

  const Program& program_;
  mutable std::vector<uint8_t> memory_;
  std::vector<In> concat_inputs_;
};

}  // namespace intrs
