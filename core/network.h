// A validated integer network: layers, shapes, proven bounds, and where each tensor lies in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

namespace intrs {

struct Shape {
  int32_t height = 0, width = 0, channels = 0;
  int64_t size() const { return int64_t{height} * width * channels; }
  bool operator==(const Shape& other) const {
    return height == other.height && width == other.width && channels == other.channels;
  }
};

struct Range {  // of codes or accumulators, both ends included
  int64_t low = 0, high = 0;
};

struct Window {  // how a kernel slides
  int32_t height = 1, width = 1;
  int32_t stride_y = 1, stride_x = 1;
  int32_t dilation_y = 1, dilation_x = 1;
  int32_t top = 0, bottom = 0, left = 0, right = 0;
};

struct Rescale {  // one entry, or one per output channel
  std::vector<int32_t> multiplier;
  std::vector<int8_t> shift;
  bool twice = false;  // rounded twice, as TOSA's DOUBLE_ROUND
  size_t at(int32_t channel) const { return multiplier.size() == 1 ? 0 : size_t(channel); }
};

struct Quantiser {
  Shape shape;
  std::vector<int32_t> low, high, multiplier, offset;
  int32_t shift = 0;
};

struct Conv {
  Window window;
  int32_t groups = 1, channels_per_group = 1;
  int32_t input_zero_point = 0, output_zero_point = 0;
  int32_t clamp_low = -128, clamp_high = 127;
  bool wide = false;
  Rescale rescale;
  std::vector<int32_t> bias;
  std::vector<int8_t> weights;          // [out][ky][kx][channel in group]
  std::vector<Range> accumulator = {};  // per output channel: what every partial sum stays within
};

struct Add {
  int32_t multiplier_a = 0, multiplier_b = 0, zero_point_a = 0, zero_point_b = 0;
  int32_t shift = 1, output_zero_point = 0;
  int32_t clamp_low = -128, clamp_high = 127;
};

struct MaxPool {
  Window window;
};

struct AvgPool {
  Window window;
  int32_t input_zero_point = 0, output_zero_point = 0;
};

struct Requantise {
  int32_t input_zero_point = 0, output_zero_point = 0;
  int32_t clamp_low = -128, clamp_high = 127;
  Rescale rescale;
};

struct Concat {};

// The same layers with a RESCALE that rounds twice.
struct ConvDouble : Conv {};
struct RequantiseDouble : Requantise {};

struct CodeTable {                  // any function of a code
  std::array<int8_t, 256> results;  // of code c, at c + 128
};

struct Mul {
  int32_t zero_point_a = 0, zero_point_b = 0, output_zero_point = 0;
  int32_t clamp_low = -128, clamp_high = 127;
  Rescale rescale;
};

// Both inputs are shifted left and rescaled, then their sum or difference is. All three round twice.
struct ScaledAdd {
  int32_t zero_point_a = 0, zero_point_b = 0, left_shift = 0, output_zero_point = 0;
  int32_t clamp_low = -128, clamp_high = 127;
  bool subtract = false;
  Rescale rescale_a, rescale_b, rescale_sum;
};

struct Pad {
  int32_t top = 0, bottom = 0, left = 0, right = 0;
  int32_t value = 0;
};

// Rows, columns and channels of the input in another order, left out or repeated. A list without entries stands for
// all of them in order.
struct Gather {
  std::vector<int32_t> rows, columns, channels;
};

// What a list of a Gather says: where entry i comes from.
inline int32_t index_at(const std::vector<int32_t>& indices, int32_t i) {
  return indices.empty() ? i : indices[size_t(i)];
}

// The kinds of layers there are, in the order of their numbers in the canonical bytes, from 1 on. Readers and kernels
// are looked up by these types; a kind without them does not compile.
using Operation = std::variant<Conv, Add, MaxPool, AvgPool, Requantise, Concat, Pad, ConvDouble, RequantiseDouble,
                               CodeTable, Mul, ScaledAdd, Gather>;

template <class... Kinds>
bool is_any(const Operation& operation) {
  return (std::holds_alternative<Kinds>(operation) || ...);
}

const Conv* conv_of(const Operation& operation);  // a Conv of either rounding; null for other kinds

struct Layer {
  Operation operation;
  std::vector<int32_t> inputs;
};

class Network {
 public:
  // Reads the canonical bytes (docs/arithmetic.md). Throws Error for anything malformed, and for any layer of which
  // an accumulator or a RESCALE result could leave 32 bits. Untrusted input: every size is checked before it is used.
  static Network parse(const uint8_t* bytes, size_t size);

  Quantiser quantiser;
  std::vector<Layer> layers;
  std::vector<Shape> shapes;  // of every tensor: the quantised image, then one per layer
  std::vector<Range> ranges;  // of its codes

  // Does one pixel of this input stand for all places of the layer's output?
  bool broadcast(size_t layer, int32_t input) const;

  int32_t classes() const { return shapes.back().channels; }
  int64_t dimension() const { return shapes.front().size(); }
  bool wide() const;              // are the class scores int32?
  int64_t multiply_adds() const;  // of one image
  int64_t work = 0;               // of one image, in multiply-adds, with what other layers take
};

}  // namespace intrs
