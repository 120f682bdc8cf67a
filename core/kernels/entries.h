// Weights as kernels over vectors of samples see them: four channels lie together, and what is zero is left out.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "../little_endian.h"
#include "kernels.h"

// For what must stay in registers. GCC keeps an array of vectors there only if all of its indices are constants before
// it looks at loops, so a loop over them is written each<N>([&](auto i) INTRS_BODY { ... }).
#define INTRS_INLINE __attribute__((always_inline)) inline
#define INTRS_BODY __attribute__((always_inline))

namespace intrs {
namespace {

template <class F, int... kIndices>
INTRS_INLINE void each_of(const F& f, std::integer_sequence<int, kIndices...>) {
  (f(std::integral_constant<int, kIndices>()), ...);
}

template <int N, class F>
INTRS_INLINE void each(const F& f) {
  each_of(f, std::make_integer_sequence<int, N>());
}

constexpr int32_t kQuad = 4;  // channels that lie together

inline int32_t quads(int32_t channels) {
  return (channels + kQuad - 1) / kQuad;
}

// Where part `index` of `parts` nearly equal parts of a whole begins.
inline int32_t part(int32_t whole, int32_t index, int32_t parts) {
  return int32_t(int64_t{whole} * index / parts);
}

// Four weights as they lie in memory.
inline int32_t four(const int8_t* weights) {
  int32_t value;
  std::memcpy(&value, weights, sizeof value);
  return value;
}

constexpr int32_t kMostWithRoom = 54;  // a zero point shifted by more would leave 64 bits together with the product

// How RESCALE rounds. Twice adds 2^30 to the products of positive values and takes it from those of negative ones. If
// the outputs of negative values are clamped to the zero point, as by a ReLU, it may be added to all of them (kUp): the
// product of a negative value is at most -1, so with 2^30 and 2^(shift - 1), where shift > 31, the sum is below
// 2^shift.
enum class Rounds { kOnce, kUp, kTwice };

// Calls body with the way of rounding as a constant.
template <typename Body>
INTRS_INLINE void by_rounds(Rounds rounds, const Body& body) {
  if (rounds == Rounds::kOnce) return body(std::integral_constant<Rounds, Rounds::kOnce>());
  if (rounds == Rounds::kUp) return body(std::integral_constant<Rounds, Rounds::kUp>());
  body(std::integral_constant<Rounds, Rounds::kTwice>());
}

// RESCALE and output zero point of four channels: (value * multiplier + add) >> shift; if it rounds twice,
// (value * multiplier + add - (value & sign)) >> shift, the sign bit being taken for a number, 2^31: a shift of more
// than 31 has 2^30 in `add`, and the sign bit, so that 2^30 is added to positive values and taken from negative ones.
struct Scales {
  int32_t multiplier[kQuad], shift[kQuad];  // shifts are less 32 if long_shift
  int64_t add[kQuad];
  int32_t upper_add[kQuad];  // if long_shift and not twice: all of add, its lower half being 0
  int32_t sign[kQuad];       // if twice
  bool long_shift = true;    // all are more than 32
  bool twice;

  Scales(const int32_t (&multipliers)[kQuad], const int32_t (&shifts)[kQuad], int32_t zero_point, bool twice_)
      : twice(twice_) {
    for (int k = 0; k < kQuad; ++k) long_shift = long_shift && shifts[k] > 32;
    for (int k = 0; k < kQuad; ++k) {
      const bool second = twice && shifts[k] > 31;
      multiplier[k] = multipliers[k];
      shift[k] = shifts[k] - (long_shift ? 32 : 0);
      add[k] = (int64_t{1} << (shifts[k] - 1)) + int64_t{zero_point} * (int64_t{1} << shifts[k]);
      upper_add[k] = int32_t(add[k] >> 32);
      if (second) add[k] += int64_t{1} << 30;
      sign[k] = second ? INT32_MIN : 0;
    }
  }

  // The same for all four.
  Scales(int32_t m, int32_t s, int32_t zero_point, bool twice_)
      : Scales({m, m, m, m}, {s, s, s, s}, zero_point, twice_) {}
};

// acc = sum w * (x - z) + bias = sum w * stored + start, where stored = x + flip; modulo 2^32.
inline int32_t start_value(const Conv& op, int32_t channel, int32_t channels, uint8_t flip) {
  const size_t count = op.weights.size() / size_t(channels);
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += uint32_t(int32_t{op.weights[size_t(channel) * count + i]});
  return int32_t(uint32_t(op.bias[size_t(channel)]) - sum * uint32_t(op.input_zero_point + flip));
}

struct Entry {
  int32_t offset;  // bytes from the first tap's vector
  int8_t weights[kQuad];
};

using Quad = std::array<std::vector<Entry>, kQuad>;  // the entries of four output channels

// The entries of one output channel, in channel order of the input; zero groups left out.
inline std::vector<Entry> entries_of(const Conv& op, const In& in, int32_t out_channel, int32_t out_channels,
                                     int32_t vector_bytes) {
  const int32_t per_group = op.channels_per_group, first = out_channel / (out_channels / op.groups) * per_group;
  const int8_t* weights = &op.weights[size_t(out_channel) * op.weights.size() / size_t(out_channels)];
  std::vector<Entry> entries;
  for (int32_t ky = 0; ky < op.window.height; ++ky) {
    for (int32_t kx = 0; kx < op.window.width; ++kx, weights += per_group) {
      for (int32_t quad = first / kQuad; quad * kQuad < first + per_group; ++quad) {
        Entry entry = {};
        for (int32_t k = 0; k < kQuad; ++k) {
          const int32_t c = quad * kQuad + k - first;
          if (c >= 0 && c < per_group) entry.weights[k] = weights[c];
        }
        if (four(entry.weights) == 0) continue;
        entry.offset = int32_t(ky * op.window.dilation_y * in.row + kx * op.window.dilation_x * in.pixel +
                               int64_t{quad} * vector_bytes);
        entries.push_back(entry);
      }
    }
  }
  return entries;
}

struct QuadStep {  // what four output channels do with one vector
  int32_t offset;
  int32_t weights[kQuad];
};

// The union of four channels' entries, by offset; a channel without an entry has zero weights there.
inline std::vector<QuadStep> merged(const Quad& quad) {
  std::vector<QuadStep> steps;
  size_t at[kQuad] = {};
  for (;;) {
    int32_t next = INT32_MAX;
    for (size_t k = 0; k < kQuad; ++k) {
      if (at[k] < quad[k].size()) next = std::min(next, quad[k][at[k]].offset);
    }
    if (next == INT32_MAX) return steps;
    QuadStep step = {next, {}};
    for (size_t k = 0; k < kQuad; ++k) {
      const bool has = at[k] < quad[k].size() && quad[k][at[k]].offset == next;
      if (has) step.weights[k] = four(quad[k][at[k]++].weights);
    }
    steps.push_back(step);
  }
}

}  // namespace
}  // namespace intrs
