#include "program.h"

#include <algorithm>
#include <cstdint>

#include "../error.h"
#include "stages.h"

namespace intrs {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 32;                             // of a block of samples
constexpr int64_t kMostAtOnce = std::min<int64_t>(kMostBytes, PTRDIFF_MAX);  // of what a Runner allocates
constexpr const char* kTooLarge = "the network needs too much memory under this kernel set; try INTRS_KERNELS=scalar";
constexpr int64_t kMostGrowth = 4, kSmall = 1024;  // of a tensor by its border, in pixels

// --- borders ------------------------------------------------------------------------------------------------------

// How far a Conv's taps reach past the last row or column.
int32_t overhang(int64_t out, int64_t stride, int64_t dilation, int64_t kernel, int64_t before, int64_t in) {
  return int32_t(std::max<int64_t>(0, (out - 1) * stride + (kernel - 1) * dilation - before - (in - 1)));
}

void widen(Border& border, const Conv& conv, const Shape& in, const Shape& out) {
  const Window& w = conv.window;
  border.top = std::max(border.top, w.top);
  border.left = std::max(border.left, w.left);
  border.bottom = std::max(border.bottom, overhang(out.height, w.stride_y, w.dilation_y, w.height, w.top, in.height));
  border.right = std::max(border.right, overhang(out.width, w.stride_x, w.dilation_x, w.width, w.left, in.width));
}

int64_t area(const Shape& shape, const Border& b) {
  return (int64_t{b.top} + shape.height + b.bottom) * (int64_t{b.left} + shape.width + b.right);
}

// The first Conv that reads a tensor with padding says what its border holds; another that disagrees does without,
// and so does one whose padding would multiply the memory.
std::vector<Border> borders(const Network& network) {
  std::vector<Border> result(network.shapes.size());
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Conv* conv = conv_of(network.layers[i].operation);
    if (!conv) continue;
    const auto input = size_t(network.layers[i].inputs[0]);
    Border wider = result[input];
    widen(wider, *conv, network.shapes[input], network.shapes[i + 1]);
    if (!wider.any() || (result[input].any() && result[input].code != conv->input_zero_point)) continue;
    if (area(network.shapes[input], wider) > kMostGrowth * area(network.shapes[input], {}) + kSmall) continue;
    wider.code = conv->input_zero_point;
    result[input] = wider;
  }
  return result;
}

In geometry(const Shape& shape, const Layout& layout, const Border& border, int64_t element) {
  const int64_t pixel = round_up(shape.channels, layout.group) * layout.lanes * element;
  return {nullptr, shape, pixel, pixel * (border.left + shape.width + border.right), border};
}

// --- memory -------------------------------------------------------------------------------------------------------

// The stage in which each tensor is made, and that in which it is last used. The image is made before all.
struct Life {
  size_t begin = 0, end = 0;
};

std::vector<Life> lives(const Program& program, bool keep_all) {
  const Network& network = program.network;
  const size_t after = program.stages.size() + 1;
  std::vector<Life> result(network.shapes.size());
  for (size_t s = 0; s < program.stages.size(); ++s) {
    for (size_t layer = program.stages[s].first; layer <= program.stages[s].last; ++layer) {
      result[layer + 1] = {s + 1, s + 1};
      for (int32_t input : network.layers[layer].inputs) result[size_t(input)].end = s + 1;
    }
  }
  for (Life& life : result) {
    if (keep_all) life.end = after;
  }
  result.back().end = after;
  return result;
}

// First fit: a tensor takes the lowest place that no live one holds.
class Arena {
 public:
  int64_t place(int64_t need, const Life& life) {
    const auto is_over = [&](const Part& p) { return p.last_use < life.begin; };
    live_.erase(std::remove_if(live_.begin(), live_.end(), is_over), live_.end());
    int64_t begin = 0;
    auto at = live_.begin();
    for (; at != live_.end() && at->begin - begin < need; ++at) begin = std::max(begin, at->end);
    live_.insert(at, {begin, begin + need, life.end});
    size = std::max(size, begin + need);
    return begin;
  }

  int64_t size = 0;

 private:
  struct Part {
    int64_t begin, end;
    size_t last_use;
  };
  std::vector<Part> live_;  // sorted by begin
};

}  // namespace

Program::Program(const Network& network_, const KernelSet& kernels_, bool keep_all, Near near_)
    : network(network_), kernels(kernels_), near(near_) {
  lay_out();
  pack();
  divide(keep_all);
  place(keep_all);
}

// The shape in memory of every tensor.
void Program::lay_out() {
  const Layout& layout = kernels.layout;
  const std::vector<Border> around = layout.bordered ? borders(network) : std::vector<Border>(network.shapes.size());
  for (size_t t = 0; t < network.shapes.size(); ++t) {
    const bool wide = t + 1 == network.shapes.size() && network.wide();
    tensors.push_back(geometry(network.shapes[t], layout, around[t], wide ? 4 : 1));
    held.push_back(all_rows(tensors[t]));
    require(tensors[t].row <= kMostBytes / held[t], kTooLarge);
  }
}

void Program::pack() {
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Conv* conv = conv_of(network.layers[i].operation);
    const In &in = tensors[size_t(network.layers[i].inputs[0])], &out = tensors[i + 1];
    packed.push_back(conv && kernels.pack ? kernels.pack(*conv, in, {nullptr, out.shape, out.pixel, out.row, {}})
                                          : nullptr);
    if (packed.back()) scratch = std::max(scratch, packed.back()->scratch);
  }
}

void Program::divide(bool keep_all) {
  stages = keep_all || !kernels.layout.bordered ? single_layers(*this) : best_stages(*this);
  for (const Stage& stage : stages) {
    const std::vector<int32_t> rows = rows_held(*this, stage);
    std::copy(rows.begin(), rows.end(), held.begin() + std::ptrdiff_t(stage.first) + 1);
  }
  prove_stages(*this);
}

void Program::place(bool keep_all) {
  Arena arena;
  const std::vector<Life> life = lives(*this, keep_all);
  for (size_t t = 0; t < tensors.size(); ++t) {
    offsets.push_back(arena.place(round_up(tensors[t].row * held[t] + kAlign, kAlign), life[t]));
  }
  bytes = arena.size;
  // A Runner takes all of it at once, as a size_t: of 32 bits in WebAssembly, which would drop the upper ones.
  require(scratch <= kMostAtOnce && bytes <= kMostAtOnce - scratch - kAlign, kTooLarge);
}

}  // namespace intrs
