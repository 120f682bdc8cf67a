#include "network.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "arith.h"
#include "error.h"
#include "little_endian.h"

namespace intrs {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 26;  // of one tensor
constexpr int32_t kMaxSide = 1 << 16;               // of an image, and of what a list or a number of channels says
constexpr int32_t kMaxLayers = 10000;
constexpr int32_t kMaxKernel = 8192;               // TOSA level 8K
constexpr int32_t kMostLeftShift = 22;             // of a ScaledAdd: 255 * 2^22 < 2^30
constexpr int64_t kMaxWeights = int64_t{1} << 29;  // of one layer
constexpr int64_t kMostWork = int64_t{1} << 38;    // of one image; ResNet-50 has 2^32
constexpr int64_t kTap = 16;                       // multiply-adds that take as long as a value in a pool's window
constexpr int64_t kInt32 = std::numeric_limits<int32_t>::max();

class Reader {
 public:
  Reader(const uint8_t* bytes, size_t size) : at_(bytes), left_(size) {}

  int32_t integer() {
    int32_t value;
    copy(&value, 1);
    return value;
  }

  int32_t integer(int64_t low, int64_t high, const char* what) {
    const int32_t value = integer();
    if (value < low || value > high) {
      throw Error(std::string(what) + " is " + std::to_string(value) + ", outside " + std::to_string(low) + " .. " +
                  std::to_string(high));
    }
    return value;
  }

  template <class T>
  std::vector<T> array(int64_t count) {
    require(count >= 0 && uint64_t(count) <= left_ / sizeof(T), "the network's bytes end too early");
    std::vector<T> values(static_cast<size_t>(count));
    copy(values.data(), values.size());
    return values;
  }

  bool done() const { return left_ == 0; }

 private:
  template <class T>
  void copy(T* to, size_t count) {  // the format is little endian
    const size_t bytes = count * sizeof(T);
    require(bytes <= left_, "the network's bytes end too early");
    if (bytes) std::memcpy(to, at_, bytes);
    at_ += bytes, left_ -= bytes;
  }

  const uint8_t* at_;
  size_t left_;
};

int32_t code(Reader& in, const char* what) {
  return in.integer(-128, 127, what);
}

Shape read_shape(Reader& in) {
  Shape shape;
  shape.height = in.integer(1, kMaxSide, "height");
  shape.width = in.integer(1, kMaxSide, "width");
  shape.channels = in.integer(1, kMaxSide, "channels");
  require(shape.size() <= kMaxElements, "the image is too large");
  return shape;
}

Rescale read_rescale(Reader& in, int32_t channels) {
  Rescale rescale;
  const int32_t count = in.integer(1, channels, "number of RESCALE entries");
  require(count == 1 || count == channels, "RESCALE has neither one entry nor one per channel");
  rescale.multiplier = in.array<int32_t>(count);
  rescale.shift = in.array<int8_t>(count);
  for (int32_t m : rescale.multiplier) require(m >= 0, "RESCALE multiplier is negative");
  for (int8_t s : rescale.shift) require(s >= 2 && s <= 62, "RESCALE shift is outside 2 .. 62");
  return rescale;
}

void read_pad(Reader& in, int32_t& top, int32_t& bottom, int32_t& left, int32_t& right) {
  for (int32_t* side : {&top, &bottom, &left, &right}) *side = in.integer(0, kMaxKernel, "padding");
}

void read_strides(Reader& in, Window& window) {
  window.stride_y = in.integer(1, kMaxKernel, "stride");
  window.stride_x = in.integer(1, kMaxKernel, "stride");
}

void read_clamp(Reader& in, int32_t& low, int32_t& high) {
  low = code(in, "clamp low");
  high = code(in, "clamp high");
  require(low <= high, "clamp is empty");
}

// Output side of a sliding window, rounding down.
int32_t slide(int64_t size, int64_t pads, int64_t kernel, int64_t dilation, int64_t stride) {
  const int64_t rest = size + pads - dilation * (kernel - 1) - 1;
  require(rest >= 0, "the kernel is larger than its padded input");
  return int32_t(rest / stride + 1);
}

Shape window_shape(const Window& w, const Shape& in, int32_t channels) {
  require(int64_t{w.height} * w.dilation_y <= kMaxKernel && int64_t{w.width} * w.dilation_x <= kMaxKernel,
          "its dilated kernel is too large");
  return {slide(in.height, int64_t{w.top} + w.bottom, w.height, w.dilation_y, w.stride_y),
          slide(in.width, int64_t{w.left} + w.right, w.width, w.dilation_x, w.stride_x), channels};
}

// What one tensor or layer needs of those before it.
struct Context {
  Reader& in;
  const Network& network;
  const std::vector<int32_t>& inputs;
  bool last;

  const Shape& shape(size_t i) const { return network.shapes[size_t(inputs[i])]; }
  const Range& range(size_t i) const { return network.ranges[size_t(inputs[i])]; }
  void want(size_t count) const { require(inputs.size() == count, "wrong number of inputs"); }
};

struct Output {
  Operation operation;
  Shape shape;
  Range range;
};

// Reads one kind of layer behind its inputs, and proves what must hold of it. One for each kind in Operation.
template <class Kind>
Output read(const Context& c);

// Every term w * (x - z) can be 0 (x = z, or padding), so each partial sum lies between the sum of the smallest
// terms and the sum of the largest, with or without the bias: the proof that no accumulator can overflow.
Range accumulator_range(const int8_t* weights, int64_t count, int64_t bias, Range x) {
  Range sum = {std::min<int64_t>(bias, 0), std::max<int64_t>(bias, 0)};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t a = weights[i] * x.low, b = weights[i] * x.high;
    sum.low += std::min({a, b, int64_t{0}});
    sum.high += std::max({a, b, int64_t{0}});
  }
  return sum;
}

// TOSA's apply_scale_32 asks for |value| < 2^(shift - 1), which also keeps the result within 30 bits, so that adding an
// output zero point cannot overflow.
void prove_rescale(Range value, const Rescale& rescale, size_t entry) {
  require(value.low >= -kInt32 && value.high <= kInt32,
          "its accumulator could leave 32 bits; use smaller weights or fewer input channels");
  const int64_t limit = int64_t{1} << (rescale.shift[entry] - 1);
  require(value.low >= -limit && value.high < limit,
          "its rescaled result could leave 32 bits; the scales of the file do not fit together");
}

void prove_conv(Conv& conv, Range input) {
  const Range x = {input.low - conv.input_zero_point, input.high - conv.input_zero_point};
  const auto count = int64_t(conv.weights.size() / conv.bias.size());
  for (size_t o = 0; o < conv.bias.size(); ++o) {
    const Range sum = accumulator_range(&conv.weights[o * size_t(count)], count, conv.bias[o], x);
    prove_rescale(sum, conv.rescale, conv.rescale.at(int32_t(o)));
    conv.accumulator.push_back(sum);
  }
}

// A Conv, or a kind with the same fields.
template <class Kind>
Output read_conv(const Context& c, bool twice) {
  Reader& in = c.in;
  Kind conv;
  c.want(1);
  const int32_t out = in.integer(1, kMaxSide, "output channels");
  conv.window.height = in.integer(1, kMaxKernel, "kernel height");
  conv.window.width = in.integer(1, kMaxKernel, "kernel width");
  conv.channels_per_group = in.integer(1, kMaxSide, "channels of a group");
  conv.groups = in.integer(1, kMaxSide, "groups");
  read_strides(in, conv.window);
  conv.window.dilation_y = in.integer(1, kMaxKernel, "dilation");
  conv.window.dilation_x = in.integer(1, kMaxKernel, "dilation");
  read_pad(in, conv.window.top, conv.window.bottom, conv.window.left, conv.window.right);
  require(int64_t{conv.groups} * conv.channels_per_group == c.shape(0).channels && out % conv.groups == 0,
          "groups and channels do not fit");
  conv.input_zero_point = code(in, "input zero point");
  conv.rescale = read_rescale(in, out);
  conv.rescale.twice = twice;
  conv.output_zero_point = code(in, "output zero point");
  read_clamp(in, conv.clamp_low, conv.clamp_high);
  conv.wide = in.integer(0, 1, "wide") == 1;
  const int64_t each = int64_t{conv.window.height} * conv.window.width * conv.channels_per_group;
  require(each <= kMaxWeights / out, "too many weights");
  conv.bias = in.array<int32_t>(out);
  conv.weights = in.array<int8_t>(out * each);
  prove_conv(conv, c.range(0));
  require(!conv.wide || (c.last && conv.output_zero_point == 0), "only class scores can be wide");
  const Shape shape = window_shape(conv.window, c.shape(0), out);
  const Range range = {conv.clamp_low, conv.clamp_high};
  return {std::move(conv), shape, range};
}

template <>
Output read<Conv>(const Context& c) {
  return read_conv<Conv>(c, false);
}

template <>
Output read<ConvDouble>(const Context& c) {
  return read_conv<ConvDouble>(c, true);
}

// The shape of two inputs together. One of them may be a single pixel, which stands for all places of the other.
Shape broadcast_shape(const Context& c) {
  const Shape &a = c.shape(0), &b = c.shape(1);
  const auto single = [](const Shape& s) { return s.height == 1 && s.width == 1; };
  require(a == b || (a.channels == b.channels && (single(a) || single(b))), "its two inputs differ in shape");
  return single(a) ? b : a;
}

int64_t farthest(Range range, int32_t zero_point) {
  return std::max(std::abs(range.low - zero_point), std::abs(range.high - zero_point));
}

template <>
Output read<Add>(const Context& c) {
  Reader& in = c.in;
  Add add;
  c.want(2);
  add.multiplier_a = in.integer(0, (1 << 29) - 1, "multiplier");
  add.multiplier_b = in.integer(0, (1 << 29) - 1, "multiplier");
  add.zero_point_a = code(in, "input zero point");
  add.zero_point_b = code(in, "input zero point");
  add.shift = in.integer(2, 30, "shift");
  add.output_zero_point = code(in, "output zero point");
  read_clamp(in, add.clamp_low, add.clamp_high);
  const Shape shape = broadcast_shape(c);
  const int64_t most = farthest(c.range(0), add.zero_point_a) * add.multiplier_a +
                       farthest(c.range(1), add.zero_point_b) * add.multiplier_b + (int64_t{1} << (add.shift - 1));
  require(most <= kInt32, "its sum could leave 32 bits");
  return {add, shape, {add.clamp_low, add.clamp_high}};
}

Range less(Range range, int32_t zero_point) {
  return {range.low - zero_point, range.high - zero_point};
}

template <>
Output read<Mul>(const Context& c) {
  c.want(2);
  Mul mul;
  mul.zero_point_a = code(c.in, "input zero point");
  mul.zero_point_b = code(c.in, "input zero point");
  mul.rescale = read_rescale(c.in, 1);
  mul.output_zero_point = code(c.in, "output zero point");
  read_clamp(c.in, mul.clamp_low, mul.clamp_high);
  mul.rescale.twice = c.in.integer(0, 1, "twice") == 1;
  const Range a = less(c.range(0), mul.zero_point_a), b = less(c.range(1), mul.zero_point_b);
  const auto ends = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  prove_rescale({std::min(ends), std::max(ends)}, mul.rescale, 0);
  const Range range = {mul.clamp_low, mul.clamp_high};
  return {std::move(mul), broadcast_shape(c), range};
}

Rescale read_double(Reader& in) {
  Rescale rescale = read_rescale(in, 1);
  rescale.twice = true;
  return rescale;
}

// What RESCALE makes of a range: it never falls as its value grows.
Range rescaled(Range value, const Rescale& by) {
  prove_rescale(value, by, 0);
  const auto end = [&](int64_t v) { return intrs_rescale_as(int32_t(v), by.multiplier[0], by.shift[0], by.twice); };
  return {end(value.low), end(value.high)};
}

template <>
Output read<ScaledAdd>(const Context& c) {
  c.want(2);
  ScaledAdd add;
  add.zero_point_a = code(c.in, "input zero point");
  add.zero_point_b = code(c.in, "input zero point");
  add.left_shift = c.in.integer(0, kMostLeftShift, "left shift");
  add.rescale_a = read_double(c.in);
  add.rescale_b = read_double(c.in);
  add.subtract = c.in.integer(0, 1, "subtract") == 1;
  add.rescale_sum = read_double(c.in);
  add.output_zero_point = code(c.in, "output zero point");
  read_clamp(c.in, add.clamp_low, add.clamp_high);
  const auto term = [&](size_t i, int32_t zero_point, const Rescale& by) {
    const Range x = less(c.range(i), zero_point);
    const int64_t unit = int64_t{1} << add.left_shift;
    return rescaled({x.low * unit, x.high * unit}, by);
  };
  const Range a = term(0, add.zero_point_a, add.rescale_a), b = term(1, add.zero_point_b, add.rescale_b);
  prove_rescale(add.subtract ? Range{a.low - b.high, a.high - b.low} : Range{a.low + b.low, a.high + b.high},
                add.rescale_sum, 0);
  const Range range = {add.clamp_low, add.clamp_high};
  return {std::move(add), broadcast_shape(c), range};
}

template <>
Output read<CodeTable>(const Context& c) {
  c.want(1);
  CodeTable table;
  const auto results = c.in.array<int8_t>(int64_t(table.results.size()));
  std::copy(results.begin(), results.end(), table.results.begin());
  const auto ends =
      std::minmax_element(results.begin() + c.range(0).low + 128, results.begin() + c.range(0).high + 129);
  return {table, c.shape(0), {*ends.first, *ends.second}};
}

Window read_pool(Reader& in) {
  Window window;
  window.height = in.integer(1, kMaxKernel, "kernel height");
  window.width = in.integer(1, kMaxKernel, "kernel width");
  read_strides(in, window);
  read_pad(in, window.top, window.bottom, window.left, window.right);
  const int32_t y = std::max(window.top, window.bottom), x = std::max(window.left, window.right);
  require(y < window.height && x < window.width, "the padding of a pool must be smaller than its kernel");
  return window;
}

template <>
Output read<MaxPool>(const Context& c) {
  c.want(1);
  const MaxPool pool = {read_pool(c.in)};
  return {pool, window_shape(pool.window, c.shape(0), c.shape(0).channels), c.range(0)};
}

template <>
Output read<AvgPool>(const Context& c) {
  c.want(1);
  AvgPool pool;
  pool.window = read_pool(c.in);
  pool.input_zero_point = code(c.in, "input zero point");
  pool.output_zero_point = code(c.in, "output zero point");
  require(int64_t{pool.window.height} * pool.window.width * 255 <= kInt32, "its sum could leave 32 bits");
  return {pool, window_shape(pool.window, c.shape(0), c.shape(0).channels), {-128, 127}};
}

// A Requantise, or a kind with the same fields.
template <class Kind>
Output read_requantise(const Context& c, bool twice) {
  c.want(1);
  Kind layer;
  layer.input_zero_point = code(c.in, "input zero point");
  layer.rescale = read_rescale(c.in, 1);
  layer.rescale.twice = twice;
  layer.output_zero_point = code(c.in, "output zero point");
  read_clamp(c.in, layer.clamp_low, layer.clamp_high);
  prove_rescale({c.range(0).low - layer.input_zero_point, c.range(0).high - layer.input_zero_point}, layer.rescale, 0);
  const Range range = {layer.clamp_low, layer.clamp_high};
  return {std::move(layer), c.shape(0), range};
}

template <>
Output read<Requantise>(const Context& c) {
  return read_requantise<Requantise>(c, false);
}

template <>
Output read<RequantiseDouble>(const Context& c) {
  return read_requantise<RequantiseDouble>(c, true);
}

template <>
Output read<Concat>(const Context& c) {
  require(!c.inputs.empty(), "wrong number of inputs");
  Shape shape = {c.shape(0).height, c.shape(0).width, 0};
  Range range = c.range(0);
  int64_t channels = 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    require(c.shape(i).height == shape.height && c.shape(i).width == shape.width, "its inputs differ in size");
    channels += c.shape(i).channels;
    range = {std::min(range.low, c.range(i).low), std::max(range.high, c.range(i).high)};
  }
  require(channels <= kMaxSide, "too many channels");
  shape.channels = int32_t(channels);
  return {Concat{}, shape, range};
}

template <>
Output read<Pad>(const Context& c) {
  c.want(1);
  Pad pad;
  read_pad(c.in, pad.top, pad.bottom, pad.left, pad.right);
  pad.value = code(c.in, "padding value");
  const Shape& in = c.shape(0);
  const Shape shape = {in.height + pad.top + pad.bottom, in.width + pad.left + pad.right, in.channels};
  return {pad, shape, {std::min<int64_t>(c.range(0).low, pad.value), std::max<int64_t>(c.range(0).high, pad.value)}};
}

// Reads one list of a Gather of `count` rows, columns or channels; returns how many there are after it.
int32_t read_indices(Reader& in, int32_t count, std::vector<int32_t>& indices) {
  indices = in.array<int32_t>(in.integer(0, kMaxSide, "number of indices"));
  for (int32_t i : indices) require(i >= 0 && i < count, "one of its indices lies outside its input");
  return indices.empty() ? count : int32_t(indices.size());
}

template <>
Output read<Gather>(const Context& c) {
  c.want(1);
  Gather gather;
  Shape shape = c.shape(0);
  shape.height = read_indices(c.in, shape.height, gather.rows);
  shape.width = read_indices(c.in, shape.width, gather.columns);
  shape.channels = read_indices(c.in, shape.channels, gather.channels);
  return {std::move(gather), shape, c.range(0)};
}

using Read = Output (*)(const Context&);

template <class... Kinds>
constexpr std::array<Read, sizeof...(Kinds)> readers(const std::variant<Kinds...>*) {
  return {read<Kinds>...};
}
constexpr auto kReaders = readers(static_cast<const Operation*>(nullptr));  // by kind - 1

// Of one layer, in multiply-adds: those of a Conv, the windows of a pool, the values that others write.
int64_t work_of(const Operation& operation, const Shape& out) {
  if (const Conv* conv = conv_of(operation)) return int64_t{out.height} * out.width * int64_t(conv->weights.size());
  const auto pooled = [&](const Window& window) { return out.size() * window.height * window.width * kTap; };
  if (const auto* pool = std::get_if<MaxPool>(&operation)) return pooled(pool->window);
  if (const auto* pool = std::get_if<AvgPool>(&operation)) return pooled(pool->window);
  return out.size();
}

void append_layer(Reader& in, Network& network, bool last) {
  const int32_t kind = in.integer(1, int64_t(kReaders.size()), "layer kind");
  const int32_t count = in.integer(1, kMaxLayers, "number of inputs");
  std::vector<int32_t> inputs = in.array<int32_t>(count);
  const auto tensors = int32_t(network.shapes.size());
  for (int32_t i : inputs) require(i >= 0 && i < tensors, "it reads a tensor that does not stand before it");
  Output out = kReaders[size_t(kind - 1)]({in, network, inputs, last});
  require(out.shape.size() <= kMaxElements, "its output is too large");
  network.work += work_of(out.operation, out.shape);
  require(network.work <= kMostWork, "one image would take too long; use smaller images or windows");
  network.layers.push_back({std::move(out.operation), std::move(inputs)});
  network.shapes.push_back(out.shape);
  network.ranges.push_back(out.range);
}

// Both ends of the clipped pixel range must keep multiplier * p + offset within 32 bits; all between then do.
void prove_quantiser(const Quantiser& q) {
  for (size_t c = 0; c < q.multiplier.size(); ++c) {
    require(q.low[c] <= q.high[c], "input quantiser: its pixel range is empty");
    for (int64_t p : {q.low[c], q.high[c]}) {
      const int64_t product = p * q.multiplier[c], sum = product + q.offset[c];
      require(std::abs(product) <= kInt32 && std::abs(sum) <= kInt32, "input quantiser: a product could leave 32 bits");
    }
  }
}

Quantiser read_quantiser(Reader& in) {
  Quantiser q;
  q.shape = read_shape(in);
  for (auto* values : {&q.low, &q.high, &q.multiplier, &q.offset}) *values = in.array<int32_t>(q.shape.channels);
  q.shift = in.integer(0, 31, "input quantiser: shift");
  prove_quantiser(q);
  return q;
}

}  // namespace

Network Network::parse(const uint8_t* bytes, size_t size) {
  Reader in(bytes, size);
  const auto magic = in.array<char>(8);
  require(std::memcmp(magic.data(), "INTRSNET", 8) == 0, "these are not the bytes of an intrs network");
  require(in.integer() == 1, "the network's format is newer than this version of intrs");
  Network network;
  network.quantiser = read_quantiser(in);
  network.shapes = {network.quantiser.shape};
  network.ranges = {{-128, 127}};
  const int32_t count = in.integer(1, kMaxLayers, "number of layers");
  for (int32_t i = 0; i < count; ++i) {
    try {
      append_layer(in, network, i + 1 == count);
    } catch (const Error& error) {
      throw Error("layer " + std::to_string(i) + ": " + error.what());
    }
  }
  require(in.done(), "the network's bytes go on after its last layer");
  const Shape& scores = network.shapes.back();
  require(scores.height == 1 && scores.width == 1,
          "the last layer must write one score per class (height = width = 1)");
  return network;
}

const Conv* conv_of(const Operation& operation) {
  if (const Conv* conv = std::get_if<Conv>(&operation)) return conv;
  return std::get_if<ConvDouble>(&operation);
}

bool Network::broadcast(size_t layer, int32_t input) const {
  return is_any<Add, Mul, ScaledAdd>(layers[layer].operation) && !(shapes[size_t(input)] == shapes[layer + 1]);
}

bool Network::wide() const {
  const Conv* conv = conv_of(layers.back().operation);
  return conv && conv->wide;
}

int64_t Network::multiply_adds() const {
  int64_t total = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (const Conv* conv = conv_of(layers[i].operation)) {
      total += int64_t{shapes[i + 1].height} * shapes[i + 1].width * int64_t(conv->weights.size());
    }
  }
  return total;
}

}  // namespace intrs
