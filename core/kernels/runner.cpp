#include "runner.h"

#include <algorithm>
#include <cstring>

#include "../error.h"

namespace intrs {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kMostBytes = int64_t{1} << 34;  // of a block of samples
constexpr const char* kTooLarge = "the network needs too much memory under this kernel set; try INTRS_KERNELS=scalar";
constexpr int64_t kMostGrowth = 4, kSmall = 1024;  // of a tensor by its border, in pixels
constexpr int64_t kGuard = 64;                     // a set may load, never use, this many bytes past a tensor

template <class... F>
struct Match : F... {
  using F::operator()...;
};
template <class... F>
Match(F...) -> Match<F...>;

size_t most_inputs(const Network& network) {
  size_t most = 0;
  for (const Layer& layer : network.layers) most = std::max(most, layer.inputs.size());
  return most;
}

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
    const Conv* conv = std::get_if<Conv>(&network.layers[i].operation);
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

int64_t up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

In geometry(const Shape& shape, const Layout& layout, const Border& border, int64_t element) {
  const int64_t pixel = up(shape.channels, layout.group) * layout.lanes * element;
  return {nullptr, shape, pixel, pixel * (border.left + shape.width + border.right), border};
}

int64_t footprint(const In& t) {
  return up(t.row * (t.border.top + t.shape.height + t.border.bottom) + kGuard, kAlign);
}

std::vector<size_t> last_uses(const Network& network, bool keep_all) {
  const size_t tensors = network.shapes.size();
  std::vector<size_t> last(tensors, tensors);
  if (keep_all) return last;
  for (size_t i = 0; i < tensors; ++i) last[i] = i;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    for (int32_t input : network.layers[i].inputs) last[size_t(input)] = i + 1;
  }
  last.back() = tensors;
  return last;
}

// First fit: a tensor takes the lowest place that no live one holds.
class Arena {
 public:
  int64_t place(int64_t need, size_t now, size_t last_use) {
    live_.erase(std::remove_if(live_.begin(), live_.end(), [now](const Part& p) { return p.last_use < now; }),
                live_.end());
    int64_t begin = 0;
    auto at = live_.begin();
    for (; at != live_.end() && at->begin - begin < need; ++at) begin = std::max(begin, at->end);
    live_.insert(at, {begin, begin + need, last_use});
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

void fill(uint8_t* from, int64_t bytes, uint8_t value) {
  if (bytes > 0) std::memset(from, value, size_t(bytes));
}

void fill_border(const Out& t, uint8_t flip) {
  const Border& b = t.border;
  const auto value = uint8_t(uint8_t(b.code) ^ flip);
  fill(t.at(-b.top, -b.left), b.top * t.row, value);
  for (int32_t y = 0; y < t.shape.height; ++y) {
    fill(t.at(y, -b.left), b.left * t.pixel, value);
    fill(t.at(y, t.shape.width), b.right * t.pixel, value);
  }
  fill(t.at(t.shape.height, -b.left), b.bottom * t.row, value);
}

}  // namespace

Program::Program(const Network& network_, const KernelSet& kernels_, bool keep_all)
    : network(network_), kernels(kernels_) {
  const Layout& layout = kernels.layout;
  const std::vector<Border> around = layout.bordered ? borders(network) : std::vector<Border>(network.shapes.size());
  const std::vector<size_t> last = last_uses(network, keep_all);
  Arena arena;
  for (size_t t = 0; t < network.shapes.size(); ++t) {
    const bool wide = t + 1 == network.shapes.size() && network.wide();
    tensors.push_back(geometry(network.shapes[t], layout, around[t], wide ? 4 : 1));
    offsets.push_back(arena.place(footprint(tensors[t]), t, last[t]));
  }
  bytes = arena.size;
  require(bytes <= kMostBytes, kTooLarge);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Conv* conv = std::get_if<Conv>(&network.layers[i].operation);
    const In &in = tensors[size_t(network.layers[i].inputs[0])], &out = tensors[i + 1];
    packed.push_back(conv && kernels.pack ? kernels.pack(*conv, in, {nullptr, out.shape, out.pixel, out.row, {}})
                                          : nullptr);
    if (packed.back()) scratch = std::max(scratch, packed.back()->scratch);
  }
  require(scratch <= kMostBytes, kTooLarge);
}

Runner::Runner(const Program& program) : program_(program), memory_(size_t(program.bytes + program.scratch + kAlign)) {
  concat_inputs_.reserve(most_inputs(program.network));
}

uint8_t* Runner::base() const {
  const auto start = int64_t(reinterpret_cast<uintptr_t>(memory_.data()) % uintptr_t{kAlign});
  return memory_.data() + (start ? kAlign - start : 0);
}

Out Runner::view(size_t tensor) const {
  const In& t = program_.tensors[tensor];
  uint8_t* base = this->base() + program_.offsets[tensor];
  return {base + t.border.top * t.row + t.border.left * t.pixel, t.shape, t.pixel, t.row, t.border};
}

In Runner::in(int32_t tensor) const {
  const Out t = view(size_t(tensor));
  return {t.codes, t.shape, t.pixel, t.row, t.border};
}

void Runner::load(int32_t lane, const int32_t* pixels) {
  program_.kernels.quantise(program_.network.quantiser, pixels, lane, view(0));
}

void Runner::run() {
  fill_border(view(0), program_.kernels.layout.flip);
  for (size_t i = 0; i < program_.network.layers.size(); ++i) {
    run_layer(i);
    fill_border(view(i + 1), program_.kernels.layout.flip);
  }
}

void Runner::run_layer(size_t index) {
  const KernelSet& kernels = program_.kernels;
  const Layer& layer = program_.network.layers[index];
  const Out out = view(index + 1);
  const In a = in(layer.inputs[0]);
  std::visit(
      Match{
          [&](const Conv& op) { kernels.conv(op, program_.packed[index].get(), a, out, base() + program_.bytes); },
          [&](const Add& op) { kernels.add(op, a, in(layer.inputs[1]), out); },
          [&](const MaxPool& op) { kernels.max_pool(op, a, out); },
          [&](const AvgPool& op) { kernels.avg_pool(op, a, out); },
          [&](const Requantise& op) { kernels.requantise(op, a, out); },
          [&](const Concat&) {
            concat_inputs_.clear();
            for (int32_t i : layer.inputs) concat_inputs_.push_back(in(i));
            kernels.concat(concat_inputs_, out);
          },
          [&](const Pad& op) { kernels.pad(op, a, out); },
      },
      layer.operation);
}

int32_t Runner::value(size_t index, int32_t lane, int64_t y, int64_t x, int64_t channel) const {
  const Layout& layout = program_.kernels.layout;
  const In t = in(int32_t(index));
  const int64_t element = (channel / layout.group * layout.lanes + lane) * layout.group + channel % layout.group;
  if (index + 1 < program_.tensors.size() || !program_.network.wide()) {
    return int8_t(t.at(y, x)[element] ^ layout.flip);
  }
  int32_t value;
  std::memcpy(&value, t.at(y, x) + element * 4, sizeof value);
  return value;
}

void Runner::read(size_t tensor, int32_t lane, std::vector<int32_t>& values) const {
  const Shape& s = program_.tensors[tensor].shape;
  for (int32_t y = 0; y < s.height; ++y) {
    for (int32_t x = 0; x < s.width; ++x) {
      for (int32_t c = 0; c < s.channels; ++c) values.push_back(value(tensor, lane, y, x, c));
    }
  }
}

int32_t Runner::score(int32_t lane, int32_t channel) const {
  return value(program_.network.layers.size(), lane, 0, 0, channel);
}

int32_t Runner::top_class(int32_t lane) const {
  int32_t best = 0, most = score(lane, 0);
  for (int32_t c = 1; c < program_.network.classes(); ++c) {
    const int32_t other = score(lane, c);
    if (other > most) best = c, most = other;
  }
  return best;
}

}  // namespace intrs
