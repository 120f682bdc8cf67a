// The normative kernels: what every layer means, in plain loops. Other sets must equal these bit for bit.
//
// The lane loops are innermost and of fixed length, so that compilers vectorise them; the meaning is that of one lane.
// Widths other than the first exist for tests: no result may depend on the number of lanes.
#include <algorithm>

#include "../arith.h"
#include "kernels.h"

namespace intrs {
namespace {

template <int32_t kLanes>
struct Scalar {
  static constexpr Layout kLayout = {1, kLanes};

  static void quantise(const Quantiser& q, const int32_t* pixels, Out out) {
    const int64_t dimension = out.shape.size();
    for (int64_t i = 0; i < dimension; ++i) {
      const auto c = size_t(i % out.shape.channels);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t p = intrs_clamp(pixels[lane * dimension + i], q.low[c], q.high[c]);
        out.codes[i * kLanes + lane] = int8_t(intrs_clamp((p * q.multiplier[c] + q.offset[c]) >> q.shift, -128, 127));
      }
    }
  }

  // |weight * (x - zero_point)| <= 128 * 255 fits 16 bits, where compilers multiply several lanes at once.
  static void accumulate(int32_t* sum, const int8_t* x, int16_t zero_point, int16_t weight) {
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      sum[lane] += int16_t(weight * int16_t(x[lane] - zero_point));
    }
  }

  // Calls visit(tap, y, x) for every tap of the window at an output place that lies inside the input.
  template <class Visit>
  static void for_taps(const Window& w, const Shape& in, int32_t out_y, int32_t out_x, Visit visit) {
    for (int32_t ky = 0; ky < w.height; ++ky) {
      for (int32_t kx = 0; kx < w.width; ++kx) {
        const int64_t y = int64_t{out_y} * w.stride_y - w.top + int64_t{ky} * w.dilation_y;
        const int64_t x = int64_t{out_x} * w.stride_x - w.left + int64_t{kx} * w.dilation_x;
        if (y >= 0 && y < in.height && x >= 0 && x < in.width) visit(int64_t{ky} * w.width + kx, y, x);
      }
    }
  }

  template <class Visit>
  static void for_places(const Shape& shape, Visit visit) {
    for (int32_t y = 0; y < shape.height; ++y) {
      for (int32_t x = 0; x < shape.width; ++x) {
        for (int32_t c = 0; c < shape.channels; ++c) visit(y, x, c);
      }
    }
  }

  static void store(const Conv& op, int32_t channel, const int32_t* sum, Out out, int64_t at) {
    const size_t entry = op.rescale.at(channel);
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const int32_t value = intrs_rescale(sum[lane], op.rescale.multiplier[entry], op.rescale.shift[entry]);
      if (op.wide) {
        reinterpret_cast<int32_t*>(out.codes)[at + lane] = value;
      } else {
        out.codes[at + lane] = int8_t(intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
      }
    }
  }

  static void conv(const Conv& op, In in, Out out) {
    const int32_t per_group = op.channels_per_group, out_per_group = out.shape.channels / op.groups;
    const int64_t taps = int64_t{op.window.height} * op.window.width;
    for_places(out.shape, [&](int32_t out_y, int32_t out_x, int32_t o) {
      int32_t sum[kLanes];
      std::fill(sum, sum + kLanes, op.bias[size_t(o)]);
      for_taps(op.window, in.shape, out_y, out_x, [&](int64_t tap, int64_t y, int64_t x) {
        const int8_t* codes = in.codes + kLayout.at(in.shape, y, x, int64_t{o / out_per_group} * per_group);
        const int8_t* weights = op.weights.data() + (o * taps + tap) * per_group;
        for (int32_t c = 0; c < per_group; ++c) {
          accumulate(sum, codes + int64_t{c} * kLanes, int16_t(op.input_zero_point), weights[c]);
        }
      });
      store(op, o, sum, out, kLayout.at(out.shape, out_y, out_x, o));
    });
  }

  static void add(const Add& op, In a, In b, Out out) {
    const int32_t half = 1 << (op.shift - 1);
    for (int64_t i = 0; i < out.shape.size() * kLanes; ++i) {
      const int32_t sum =
          (a.codes[i] - op.zero_point_a) * op.multiplier_a + (b.codes[i] - op.zero_point_b) * op.multiplier_b + half;
      out.codes[i] = int8_t(intrs_clamp((sum >> op.shift) + op.output_zero_point, op.clamp_low, op.clamp_high));
    }
  }

  static void max_pool(const MaxPool& op, In in, Out out) {
    for_places(out.shape, [&](int32_t out_y, int32_t out_x, int32_t c) {
      int8_t* best = out.codes + kLayout.at(out.shape, out_y, out_x, c);
      std::fill(best, best + kLanes, int8_t{-128});
      for_taps(op.window, in.shape, out_y, out_x, [&](int64_t, int64_t y, int64_t x) {
        const int8_t* codes = in.codes + kLayout.at(in.shape, y, x, c);
        for (int32_t lane = 0; lane < kLanes; ++lane) best[lane] = std::max(best[lane], codes[lane]);
      });
    });
  }

  static void avg_pool(const AvgPool& op, In in, Out out) {
    for_places(out.shape, [&](int32_t out_y, int32_t out_x, int32_t c) {
      int32_t sum[kLanes] = {}, multiplier = 0;
      int shift = 0;
      uint32_t count = 0;
      for_taps(op.window, in.shape, out_y, out_x, [&](int64_t, int64_t y, int64_t x) {
        accumulate(sum, in.codes + kLayout.at(in.shape, y, x, c), int16_t(op.input_zero_point), 1);
        ++count;
      });
      intrs_reciprocal(count, &multiplier, &shift);
      int8_t* codes = out.codes + kLayout.at(out.shape, out_y, out_x, c);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t mean = intrs_rescale(sum[lane], multiplier, shift);
        codes[lane] = int8_t(intrs_clamp(mean + op.output_zero_point, -128, 127));
      }
    });
  }

  static void requantise(const Requantise& op, In in, Out out) {
    for (int64_t i = 0; i < out.shape.size() * kLanes; ++i) {
      const int32_t x = in.codes[i] - op.input_zero_point;
      const int32_t value = intrs_rescale(x, op.rescale.multiplier[0], op.rescale.shift[0]);
      out.codes[i] = int8_t(intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
    }
  }

  static void concat(const std::vector<In>& inputs, Out out) {
    int8_t* to = out.codes;
    for (int64_t place = 0; place < int64_t{out.shape.height} * out.shape.width; ++place) {
      for (const In& in : inputs) {
        const int64_t length = int64_t{in.shape.channels} * kLanes;
        to = std::copy_n(in.codes + place * length, length, to);
      }
    }
  }

  static void pad(const Pad& op, In in, Out out) {
    const int64_t row = int64_t{in.shape.width} * in.shape.channels * kLanes;
    std::fill_n(out.codes, out.shape.size() * kLanes, int8_t(op.value));
    for (int32_t y = 0; y < in.shape.height; ++y) {
      std::copy_n(in.codes + y * row, row, out.codes + kLayout.at(out.shape, y + op.top, op.left, 0));
    }
  }

  static KernelSet set(const char* name, bool test_only) {
    return {name, kLayout,  test_only, [] { return true; }, quantise, conv,
            add,  max_pool, avg_pool,  requantise,          concat,   pad};
  }
};

}  // namespace

const std::vector<KernelSet>& scalar_sets() {
  static const std::vector<KernelSet> sets = {Scalar<16>::set("scalar", false), Scalar<1>::set("scalar-1", true),
                                              Scalar<5>::set("scalar-5", true)};
  return sets;
}

}  // namespace intrs
