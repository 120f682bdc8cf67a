// Running a planned network.
#pragma once

#include "program.h"
#include "stages.h"

namespace intrs {

// One block of samples, in memory of its own: one per thread.
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
  void make_room(const Step& step);
  void run_layer(const Step& step);

  const Program& program_;
  mutable std::vector<uint8_t> memory_;
  std::vector<In> inputs_;       // of the layer that is running
  std::vector<int32_t> origin_;  // the row of each tensor that lies first in its memory
};

}  // namespace intrs
