#include "runner.h"

#include <algorithm>
#include <cstring>

#include "../little_endian.h"

namespace intrs {
namespace {

size_t most_inputs(const Network& network) {
  size_t most = 0;
  for (const Layer& layer : network.layers) most = std::max(most, layer.inputs.size());
  return most;
}

void fill(uint8_t* from, int64_t bytes, uint8_t value) {
  if (bytes > 0) std::memset(from, value, size_t(bytes));
}

// The border beside rows begin to end, and above and below if these are the first or last ones. Rows before `origin` do
// not lie in memory: of the border above, they may have made room before the first row was made, if the next layer
// begins with rows that see nothing but padding.
void fill_border(const Out& t, int32_t origin, int32_t begin, int32_t end, uint8_t flip) {
  const Border& b = t.border;
  const auto value = uint8_t(uint8_t(b.code) ^ flip);
  if (begin == 0) fill(t.at(origin, -b.left), -origin * t.row, value);
  for (int32_t y = begin; y < end; ++y) {
    fill(t.at(y, -b.left), b.left * t.pixel, value);
    fill(t.at(y, t.shape.width), b.right * t.pixel, value);
  }
  if (end == t.shape.height) fill(t.at(end, -b.left), b.bottom * t.row, value);
}

}  // namespace

Runner::Runner(const Program& program) : program_(program), memory_(size_t(program.bytes + program.scratch + kAlign)) {
  for (const In& t : program.tensors) origin_.push_back(-t.border.top);
  inputs_.reserve(most_inputs(program.network));
}

uint8_t* Runner::base() const {
  const auto start = int64_t(reinterpret_cast<uintptr_t>(memory_.data()) % uintptr_t{kAlign});
  return memory_.data() + (start ? kAlign - start : 0);
}

Out Runner::view(size_t tensor) const {
  const In& t = program_.tensors[tensor];
  uint8_t* base = this->base() + program_.offsets[tensor];
  return {base - origin_[tensor] * t.row + t.border.left * t.pixel, t.shape, t.pixel, t.row, t.border};
}

In Runner::in(int32_t tensor) const {
  const Out t = view(size_t(tensor));
  return {t.codes, t.shape, t.pixel, t.row, t.border};
}

void Runner::load(int32_t lane, const int32_t* pixels) {
  program_.kernels.quantise(program_.network.quantiser, pixels, lane, view(0));
}

void Runner::run() {
  fill_border(view(0), origin_[0], 0, program_.network.shapes[0].height, program_.kernels.layout.flip);
  for (const Stage& stage : program_.stages) run_stage(stage);
}

// That every step reads and writes rows that lie in memory is proven when the Program is made.
void Runner::run_stage(const Stage& stage) {
  for (size_t layer = stage.first; layer < stage.last; ++layer) {
    origin_[layer + 1] = -program_.tensors[layer + 1].border.top;
    fill_border(view(layer + 1), origin_[layer + 1], 0, 0, program_.kernels.layout.flip);
  }
  for_steps(program_, stage, [this](const Step& step) {
    if (step.origin != step.old_origin) make_room(step);
    run_layer(step);
  });
}

void Runner::make_room(const Step& step) {
  const int64_t row = program_.tensors[step.layer + 1].row;
  uint8_t* memory = base() + program_.offsets[step.layer + 1];
  std::memmove(memory, memory + (step.origin - step.old_origin) * row, size_t((step.begin - step.origin) * row));
  origin_[step.layer + 1] = step.origin;
}

// The rows of a step, and the border there.
void Runner::run_layer(const Step& step) {
  const KernelSet& kernels = program_.kernels;
  const Layer& layer = program_.network.layers[step.layer];
  const int64_t from = int64_t{step.begin} * Rows(layer).stride;
  const Out whole = view(step.layer + 1);
  Out out = whole;
  out.codes = whole.at(step.begin, 0), out.shape.height = step.end - step.begin;
  inputs_.clear();
  for (int32_t input : layer.inputs) {
    inputs_.push_back(in(input));
    if (program_.network.broadcast(step.layer, input)) inputs_.back().pixel = inputs_.back().row = 0;
    inputs_.back().codes = inputs_.back().at(from, 0);
  }
  const Inputs inputs = {inputs_.data(), inputs_.size(), program_.packed[step.layer].get(), base() + program_.bytes};
  std::visit([&](const auto& operation) { kernels.layers(operation, inputs, out); }, layer.operation);
  fill_border(whole, origin_[step.layer + 1], step.begin, step.end, kernels.layout.flip);
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
