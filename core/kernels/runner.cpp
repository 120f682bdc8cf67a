#include "runner.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "../error.h"

namespace intrs {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kMostBytes = int64_t{1} << 34;  // of a block of samples
constexpr const char* kTooLarge = "the network needs too much memory under this kernel set; try INTRS_KERNELS=scalar";
constexpr int64_t kMostGrowth = 4, kSmall = 1024;  // of a tensor by its border, in pixels
constexpr size_t kMostTogether = 16;               // layers of a stage
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

int32_t all_rows(const In& t) {
  return t.border.top + t.shape.height + t.border.bottom;
}

// --- stages -------------------------------------------------------------------------------------------------------

// Which rows of its input a layer needs for some rows of its output. Only for layers that may run by rows.
struct Rows {
  int32_t stride = 1, reach = 1, top = 0;

  explicit Rows(const Layer& layer) {
    if (const Conv* conv = std::get_if<Conv>(&layer.operation)) {
      const Window& w = conv->window;
      stride = w.stride_y, reach = (w.height - 1) * w.dilation_y + 1, top = w.top;
    }
  }
  int64_t first(int64_t row) const { return row * stride - top; }
  int64_t end(int64_t row) const { return (row - 1) * stride - top + reach; }  // for rows up to, without, `row`
};

// The first row of the output of `layer` that the next layer still needs when these two are done up to here.
int32_t first_needed(const Program& program, size_t layer, int32_t done, int32_t next_done) {
  const int64_t first = Rows(program.network.layers[layer + 1]).first(next_done);
  return int32_t(std::clamp<int64_t>(first, -program.tensors[layer + 1].border.top, done));
}

int32_t with_bottom(const In& t, int32_t end) {
  return end == t.shape.height ? end + t.border.bottom : end;
}

// How far each layer of a stage must be for the last one to be done up to row `end`. ends[i] is of layer first + i.
void needed(const Program& program, const Stage& stage, int32_t end, std::vector<int32_t>& ends) {
  for (size_t layer = stage.last + 1; layer-- > stage.first;) {
    const int32_t height = program.network.shapes[layer + 1].height;
    const int32_t at_once = program.packed[layer] ? program.packed[layer]->rows : 1;
    end = std::min(int32_t(up(std::max(end, 0), at_once)), height);
    ends[layer - stage.first] = end;
    if (end > 0) end = int32_t(std::min<int64_t>(Rows(program.network.layers[layer]).end(end), INT32_MAX));
  }
}

// At most so many rows of the output of each layer of a stage, but the last, lie in memory at once. When the last layer
// goes on by `step` rows, its input goes on by step * stride and, the first time, by what the taps reach further; each
// is rounded up to what a layer does at once.
std::vector<int32_t> rows_held(const Program& program, const Stage& stage) {
  std::vector<int32_t> held(stage.last - stage.first);
  int64_t step = stage.rows;
  for (size_t layer = stage.last + 1; layer-- > stage.first;) {
    const In& t = program.tensors[layer + 1];
    const int64_t more = (program.packed[layer] ? program.packed[layer]->rows : 1) - 1;
    if (layer < stage.last) {
      const Rows next(program.network.layers[layer + 1]);
      const int64_t needed = (step - 1) * next.stride + next.reach + std::max(0, t.border.top - next.top);
      step = step * next.stride + std::max(0, next.reach - next.top - next.stride);
      held[layer - stage.first] =
          int32_t(std::min<int64_t>(std::max(needed, step) + more + t.border.bottom, all_rows(t)));
    }
    step = std::min<int64_t>(step + more, t.shape.height);
  }
  return held;
}

// Bytes that a stage keeps using: the rows between its layers, and weights.
int64_t kept(const Program& program, const Stage& stage) {
  const std::vector<int32_t> held = rows_held(program, stage);
  int64_t bytes = 0;
  for (size_t layer = stage.first; layer <= stage.last; ++layer) {
    if (program.packed[layer]) bytes += program.packed[layer]->bytes;
    if (layer < stage.last) bytes += held[layer - stage.first] * program.tensors[layer + 1].row;
  }
  return bytes;
}

// May this layer run by rows? A Conv without packed weights looks at the shape of its input, and so do pools.
bool by_rows(const Program& program, size_t layer) {
  const Operation& operation = program.network.layers[layer].operation;
  if (const Conv* conv = std::get_if<Conv>(&operation)) return program.packed[layer] && !conv->wide;
  return std::holds_alternative<Add>(operation) || std::holds_alternative<Requantise>(operation);
}

// Tensors that only the next layer reads, where both may run by rows.
std::vector<bool> passed_on(const Program& program) {
  const Network& network = program.network;
  std::vector<int32_t> uses(network.shapes.size()), by_next(network.shapes.size());
  for (size_t i = 0; i < network.layers.size(); ++i) {
    for (int32_t input : network.layers[i].inputs) {
      ++uses[size_t(input)];
      if (size_t(input) == i) ++by_next[i];
    }
  }
  std::vector<bool> result(network.shapes.size());
  for (size_t i = 0; i + 1 < network.layers.size(); ++i) {
    result[i + 1] = uses[i + 1] == 1 && by_next[i + 1] == 1 && by_rows(program, i) && by_rows(program, i + 1);
  }
  return result;
}

int32_t rows_at_once(const Program& program, Stage stage) {
  int32_t best = 0;
  const int32_t height = program.network.shapes[stage.last + 1].height;
  for (stage.rows = 1; stage.rows <= height && kept(program, stage) <= program.near.kept; stage.rows *= 2)
    best = stage.rows;
  return best;
}

// The division into stages that leaves the fewest bytes in tensors between stages, small ones not counted.
std::vector<Stage> divide(const Program& program) {
  const size_t layers = program.network.layers.size();
  const std::vector<bool> passed = passed_on(program);
  std::vector<int64_t> cost(layers + 1, INT64_MAX);  // of the layers before this one
  std::vector<Stage> ending(layers + 1);
  cost[0] = 0;
  for (size_t first = 0; first < layers; ++first) {
    for (size_t last = first; last < std::min(layers, first + kMostTogether); ++last) {
      Stage stage = {first, last, program.network.shapes[last + 1].height};
      if (last > first) {
        const In& between = program.tensors[last];
        if (!passed[last] || between.row * all_rows(between) <= program.near.small) break;
        stage.rows = rows_at_once(program, stage);
        if (stage.rows == 0) break;
      }
      const In& out = program.tensors[last + 1];
      const int64_t bytes = out.row * all_rows(out);
      const int64_t total = cost[first] + (bytes > program.near.small ? bytes : 0);
      if (total < cost[last + 1]) cost[last + 1] = total, ending[last + 1] = stage;
    }
  }
  std::vector<Stage> stages;
  for (size_t end = layers; end > 0; end = stages.back().first) stages.push_back(ending[end]);
  std::reverse(stages.begin(), stages.end());
  return stages;
}

std::vector<Stage> single_layers(const Program& program) {
  std::vector<Stage> stages;
  for (size_t i = 0; i < program.network.layers.size(); ++i)
    stages.push_back({i, i, program.network.shapes[i + 1].height});
  return stages;
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

void fill(uint8_t* from, int64_t bytes, uint8_t value) {
  if (bytes > 0) std::memset(from, value, size_t(bytes));
}

// The border beside rows begin to end, and above and below if these are the first or last ones.
void fill_border(const Out& t, int32_t begin, int32_t end, uint8_t flip) {
  const Border& b = t.border;
  const auto value = uint8_t(uint8_t(b.code) ^ flip);
  if (begin == 0) fill(t.at(-b.top, -b.left), b.top * t.row, value);
  for (int32_t y = begin; y < end; ++y) {
    fill(t.at(y, -b.left), b.left * t.pixel, value);
    fill(t.at(y, t.shape.width), b.right * t.pixel, value);
  }
  if (end == t.shape.height) fill(t.at(end, -b.left), b.bottom * t.row, value);
}

}  // namespace

Program::Program(const Network& network_, const KernelSet& kernels_, bool keep_all, Near near_)
    : network(network_), kernels(kernels_), near(near_) {
  const Layout& layout = kernels.layout;
  const std::vector<Border> around = layout.bordered ? borders(network) : std::vector<Border>(network.shapes.size());
  for (size_t t = 0; t < network.shapes.size(); ++t) {
    const bool wide = t + 1 == network.shapes.size() && network.wide();
    tensors.push_back(geometry(network.shapes[t], layout, around[t], wide ? 4 : 1));
    held.push_back(all_rows(tensors[t]));
    require(tensors[t].row <= kMostBytes / held[t], kTooLarge);
  }
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Conv* conv = std::get_if<Conv>(&network.layers[i].operation);
    const In &in = tensors[size_t(network.layers[i].inputs[0])], &out = tensors[i + 1];
    packed.push_back(conv && kernels.pack ? kernels.pack(*conv, in, {nullptr, out.shape, out.pixel, out.row, {}})
                                          : nullptr);
    if (packed.back()) scratch = std::max(scratch, packed.back()->scratch);
  }
  stages = keep_all || !layout.bordered ? single_layers(*this) : divide(*this);
  for (const Stage& stage : stages) {
    const std::vector<int32_t> rows = rows_held(*this, stage);
    std::copy(rows.begin(), rows.end(), held.begin() + std::ptrdiff_t(stage.first) + 1);
  }
  Arena arena;
  const std::vector<Life> life = lives(*this, keep_all);
  for (size_t t = 0; t < tensors.size(); ++t) {
    offsets.push_back(arena.place(up(tensors[t].row * held[t] + kGuard, kAlign), life[t]));
  }
  bytes = arena.size;
  require(bytes <= kMostBytes && scratch <= kMostBytes, kTooLarge);
}

Runner::Runner(const Program& program)
    : program_(program),
      memory_(size_t(program.bytes + program.scratch + kAlign)),
      done_(program.network.layers.size()),
      goals_(program.network.layers.size()) {
  for (const In& t : program.tensors) origin_.push_back(-t.border.top);
  concat_inputs_.reserve(most_inputs(program.network));
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
  fill_border(view(0), 0, program_.network.shapes[0].height, program_.kernels.layout.flip);
  for (const Stage& stage : program_.stages) run_stage(stage);
}

// Every layer as far as the next few rows of the last one need it, again and again.
void Runner::run_stage(const Stage& stage) {
  std::fill(done_.begin(), done_.end(), 0);
  for (size_t layer = stage.first; layer < stage.last; ++layer) {
    origin_[layer + 1] = -program_.tensors[layer + 1].border.top;
    fill_border(view(layer + 1), 0, 0, program_.kernels.layout.flip);
  }
  const int32_t height = program_.network.shapes[stage.last + 1].height;
  for (int32_t end = 0; end < height;) {
    end = std::min(end + stage.rows, height);
    needed(program_, stage, end, goals_);
    for (size_t layer = stage.first; layer <= stage.last; ++layer) {
      int32_t& done = done_[layer - stage.first];
      const int32_t goal = goals_[layer - stage.first];
      if (goal <= done) continue;
      if (layer < stage.last) make_room(stage, layer, goal);
      run_layer(layer, done, goal);
      done = goal;
    }
  }
}

// Rows that the next layer is done with make room for those up to `end`.
void Runner::make_room(const Stage& stage, size_t layer, int32_t end) {
  const In& t = program_.tensors[layer + 1];
  int32_t& origin = origin_[layer + 1];
  if (with_bottom(t, end) - origin <= program_.held[layer + 1]) return;
  const int32_t* done = &done_[layer - stage.first];
  const int32_t first = first_needed(program_, layer, done[0], done[1]);
  uint8_t* memory = base() + program_.offsets[layer + 1];
  std::memmove(memory, memory + (first - origin) * t.row, size_t((done[0] - first) * t.row));
  origin = first;
  assert(with_bottom(t, end) - origin <= program_.held[layer + 1]);
}

// Rows begin to end of a layer's output, and the border there.
void Runner::run_layer(size_t index, int32_t begin, int32_t end) {
  const KernelSet& kernels = program_.kernels;
  const Layer& layer = program_.network.layers[index];
  const int64_t from = int64_t{begin} * Rows(layer).stride;
  const Out whole = view(index + 1);
  Out out = whole;
  out.codes = whole.at(begin, 0), out.shape.height = end - begin;
  const auto input = [&](size_t i) {
    In in = this->in(layer.inputs[i]);
    in.codes = in.at(from, 0);
    return in;
  };
  std::visit(Match{
                 [&](const Conv& op) {
                   kernels.conv(op, program_.packed[index].get(), input(0), out, base() + program_.bytes);
                 },
                 [&](const Add& op) { kernels.add(op, input(0), input(1), out); },
                 [&](const MaxPool& op) { kernels.max_pool(op, input(0), out); },
                 [&](const AvgPool& op) { kernels.avg_pool(op, input(0), out); },
                 [&](const Requantise& op) { kernels.requantise(op, input(0), out); },
                 [&](const Concat&) {
                   concat_inputs_.clear();
                   for (size_t i = 0; i < layer.inputs.size(); ++i) concat_inputs_.push_back(input(i));
                   kernels.concat(concat_inputs_, out);
                 },
                 [&](const Pad& op) { kernels.pad(op, input(0), out); },
             },
             layer.operation);
  fill_border(whole, begin, end, kernels.layout.flip);
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
