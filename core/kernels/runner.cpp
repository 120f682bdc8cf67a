#include <cstring>

#include "kernels.h"

namespace intrs {
namespace {

constexpr size_t kAlign = 64;

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

}  // namespace

Runner::Runner(const Network& network, const KernelSet& kernels, bool keep_all)
    : network_(network),
      kernels_(kernels),
      plan_(network, kernels.layout.group, keep_all),
      memory_(size_t(plan_.size) * size_t(kernels.layout.lanes) + kAlign),
      pixels_(size_t(network.dimension()) * size_t(kernels.layout.lanes)) {
  concat_inputs_.reserve(most_inputs(network));
}

int8_t* Runner::tensor(size_t index) {
  return const_cast<int8_t*>(static_cast<const Runner*>(this)->tensor(index));
}

const int8_t* Runner::tensor(size_t index) const {
  const size_t skew = (kAlign - reinterpret_cast<uintptr_t>(memory_.data()) % kAlign) % kAlign;
  return memory_.data() + skew + plan_.offset[index] * kernels_.layout.lanes;
}

In Runner::in(int32_t index) const {
  return {tensor(size_t(index)), network_.shapes[size_t(index)]};
}

void Runner::run() {
  kernels_.quantise(network_.quantiser, pixels_.data(), {tensor(0), network_.shapes[0]});
  for (size_t i = 0; i < network_.layers.size(); ++i) run_layer(i);
}

void Runner::run_layer(size_t index) {
  const Layer& layer = network_.layers[index];
  const Out out = {tensor(index + 1), network_.shapes[index + 1]};
  const In a = in(layer.inputs[0]);
  std::visit(Match{
                 [&](const Conv& op) { kernels_.conv(op, a, out); },
                 [&](const Add& op) { kernels_.add(op, a, in(layer.inputs[1]), out); },
                 [&](const MaxPool& op) { kernels_.max_pool(op, a, out); },
                 [&](const AvgPool& op) { kernels_.avg_pool(op, a, out); },
                 [&](const Requantise& op) { kernels_.requantise(op, a, out); },
                 [&](const Concat&) {
                   concat_inputs_.clear();
                   for (int32_t i : layer.inputs) concat_inputs_.push_back(in(i));
                   kernels_.concat(concat_inputs_, out);
                 },
                 [&](const Pad& op) { kernels_.pad(op, a, out); },
             },
             layer.operation);
}

int32_t Runner::value(size_t index, int32_t lane, int64_t y, int64_t x, int64_t channel) const {
  const Layout& layout = kernels_.layout;
  const int64_t at = layout.at(network_.shapes[index], y, x, channel) + int64_t{lane} * layout.group;
  if (index + 1 < network_.shapes.size() || !network_.wide()) return tensor(index)[at];
  int32_t value;
  std::memcpy(&value, tensor(index) + at * 4, sizeof value);
  return value;
}

int32_t Runner::score(int32_t lane, int32_t channel) const {
  return value(network_.layers.size(), lane, 0, 0, channel);
}

int32_t Runner::top_class(int32_t lane) const {
  int32_t best = 0;
  for (int32_t c = 1; c < network_.classes(); ++c) {
    if (score(lane, c) > score(lane, best)) best = c;
  }
  return best;
}

}  // namespace intrs
