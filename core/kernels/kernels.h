// The contract of a kernel set, and the one place that selects one.
//
// Monte-Carlo runs one network on many samples, so samples fill the lanes: a set works on blocks of `lanes` samples
// at once, in a layout of its own choice among these:
//   element (row, column, channel, lane) lies at
//   (((row * width + column) * groups + channel / group) * lanes + lane) * group + channel % group,
//   where groups = ceil(channels / group); channels beyond the last one hold anything.
// Every set equals `scalar`, the normative one, bit for bit.
#pragma once

#include <string>
#include <vector>

#include "../network.h"

namespace intrs {

struct Layout {
  int32_t group;  // channels that lie together
  int32_t lanes;  // samples in a block

  int64_t at(const Shape& shape, int64_t y, int64_t x, int64_t channel) const {  // of lane 0
    const int64_t groups = (shape.channels + group - 1) / group;
    return ((y * shape.width + x) * groups + channel / group) * lanes * group + channel % group;
  }
};

struct In {
  const int8_t* codes;
  Shape shape;
};

struct Out {
  int8_t* codes;  // int32 scores for a wide Conv
  Shape shape;
};

struct KernelSet {
  const char* name;
  Layout layout;
  bool test_only;    // listed and used only when asked for by name
  bool (*usable)();  // does this machine have the instructions?

  void (*quantise)(const Quantiser&, const int32_t* pixels, Out);  // pixels: [lane][coordinate]
  void (*conv)(const Conv&, In, Out);
  void (*add)(const Add&, In, In, Out);
  void (*max_pool)(const MaxPool&, In, Out);
  void (*avg_pool)(const AvgPool&, In, Out);
  void (*requantise)(const Requantise&, In, Out);
  void (*concat)(const std::vector<In>&, Out);
  void (*pad)(const Pad&, In, Out);
};

// The set of this name; for an empty name that of INTRS_KERNELS, and without that the fastest that this machine has.
// Throws Error for a name that is unknown or a set that this machine cannot run.
const KernelSet& select_kernels(const std::string& name);
std::vector<std::string> kernel_names();  // those that this machine has, fastest first

const std::vector<KernelSet>& scalar_sets();

// Runs the layers of a network on one block of samples, in memory that it owns: one for each thread.
class Runner {
 public:
  Runner(const Network& network, const KernelSet& kernels, bool keep_all = false);

  int32_t* pixels() { return pixels_.data(); }  // to fill: [lane][coordinate]
  void run();
  int32_t score(int32_t lane, int32_t channel) const;
  int32_t value(size_t tensor, int32_t lane, int64_t y, int64_t x, int64_t channel) const;
  int32_t top_class(int32_t lane) const;  // TOSA ARGMAX: the lowest class at a tie

  int32_t lanes() const { return kernels_.layout.lanes; }
  size_t bytes() const { return memory_.size() + pixels_.size() * sizeof(int32_t); }

 private:
  int8_t* tensor(size_t index);
  const int8_t* tensor(size_t index) const;
  In in(int32_t index) const;
  void run_layer(size_t index);

  const Network& network_;
  const KernelSet& kernels_;
  MemoryPlan plan_;
  std::vector<int8_t> memory_;
  std::vector<int32_t> pixels_;
  std::vector<In> concat_inputs_;
};

}  // namespace intrs
