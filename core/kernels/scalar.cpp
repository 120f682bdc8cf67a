// The normative kernels: what every layer means, in plain loops. Other sets must equal these bit for bit.
//
// The lane loops are innermost and of fixed length, so that compilers vectorise them; the meaning is that of one lane.
// Widths other than the first exist for tests: no result may depend on the number of lanes.
#include <algorithm>

#include "../arith.h"
#include "blocks.h"
#include "sets.h"

namespace intrs {
namespace {

template <int32_t kLanes>
struct Scalar {
  static const int8_t* codes(const In& in, int64_t y, int64_t x, int64_t channel) {
    return reinterpret_cast<const int8_t*>(in.at(y, x)) + channel * kLanes;
  }

  static int8_t* codes(const Out& out, int64_t y, int64_t x, int64_t channel) {
    return reinterpret_cast<int8_t*>(out.at(y, x)) + channel * kLanes;
  }

  static void quantise(const Quantiser& q, const int32_t* pixels, int32_t lane, Out out) {
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t channel) {
      const auto c = size_t(channel);
      const int32_t p = intrs_clamp(*pixels++, q.low[c], q.high[c]);
      const int32_t code = intrs_clamp((p * q.multiplier[c] + q.offset[c]) >> q.shift, -128, 127);
      codes(out, y, x, channel)[lane] = int8_t(code);
    });
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

  static int32_t rescaled(int32_t value, const Rescale& by, size_t entry) {
    return intrs_rescale_as(value, by.multiplier[entry], by.shift[entry], by.twice);
  }

  static void store(const Conv& op, int32_t channel, const int32_t* sum, uint8_t* pixel) {
    const size_t entry = op.rescale.at(channel);
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const int32_t value = rescaled(sum[lane], op.rescale, entry);
      const int64_t at = int64_t{channel} * kLanes + lane;
      if (op.wide) {
        reinterpret_cast<int32_t*>(pixel)[at] = value;
      } else {
        pixel[at] = uint8_t(intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
      }
    }
  }

  static void run(const Conv& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    const int32_t per_group = op.channels_per_group, out_per_group = out.shape.channels / op.groups;
    const int64_t taps = int64_t{op.window.height} * op.window.width;
    for_places(out.shape, [&](int32_t out_y, int32_t out_x, int32_t o) {
      int32_t sum[kLanes];
      std::fill(sum, sum + kLanes, op.bias[size_t(o)]);
      for_taps(op.window, in.shape, out_y, out_x, [&](int64_t tap, int64_t y, int64_t x) {
        const int8_t* from = codes(in, y, x, int64_t{o / out_per_group} * per_group);
        const int8_t* weights = op.weights.data() + (o * taps + tap) * per_group;
        for (int32_t c = 0; c < per_group; ++c) {
          accumulate(sum, from + int64_t{c} * kLanes, int16_t(op.input_zero_point), weights[c]);
        }
      });
      store(op, o, sum, out.at(out_y, out_x));
    });
  }

  static void run(const Add& op, const Inputs& inputs, Out out) {
    const In a = inputs[0], b = inputs[1];
    const int32_t half = 1 << (op.shift - 1);
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t c) {
      const int8_t *from_a = codes(a, y, x, c), *from_b = codes(b, y, x, c);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t sum = (from_a[lane] - op.zero_point_a) * op.multiplier_a +
                            (from_b[lane] - op.zero_point_b) * op.multiplier_b + half;
        const int32_t value = (sum >> op.shift) + op.output_zero_point;
        codes(out, y, x, c)[lane] = int8_t(intrs_clamp(value, op.clamp_low, op.clamp_high));
      }
    });
  }

  static void run(const MaxPool& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_places(out.shape, [&](int32_t out_y, int32_t out_x, int32_t c) {
      int8_t* best = codes(out, out_y, out_x, c);
      std::fill(best, best + kLanes, int8_t{-128});
      for_taps(op.window, in.shape, out_y, out_x, [&](int64_t, int64_t y, int64_t x) {
        const int8_t* from = codes(in, y, x, c);
        for (int32_t lane = 0; lane < kLanes; ++lane) best[lane] = std::max(best[lane], from[lane]);
      });
    });
  }

  static void run(const AvgPool& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_places(out.shape, [&](int32_t out_y, int32_t out_x, int32_t c) {
      int32_t sum[kLanes] = {}, multiplier = 0;
      int shift = 0;
      uint32_t count = 0;
      for_taps(op.window, in.shape, out_y, out_x, [&](int64_t, int64_t y, int64_t x) {
        accumulate(sum, codes(in, y, x, c), int16_t(op.input_zero_point), 1);
        ++count;
      });
      intrs_reciprocal(count, &multiplier, &shift);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t mean = intrs_rescale(sum[lane], multiplier, shift);
        codes(out, out_y, out_x, c)[lane] = int8_t(intrs_clamp(mean + op.output_zero_point, -128, 127));
      }
    });
  }

  static void run(const Requantise& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t c) {
      const int8_t* from = codes(in, y, x, c);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t value = rescaled(from[lane] - op.input_zero_point, op.rescale, 0);
        codes(out, y, x, c)[lane] = int8_t(intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
      }
    });
  }

  static void run(const CodeTable& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t c) {
      const int8_t* from = codes(in, y, x, c);
      for (int32_t lane = 0; lane < kLanes; ++lane) codes(out, y, x, c)[lane] = op.results[size_t(from[lane] + 128)];
    });
  }

  static void run(const Mul& op, const Inputs& inputs, Out out) {
    const In a = inputs[0], b = inputs[1];
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t c) {
      const int8_t *from_a = codes(a, y, x, c), *from_b = codes(b, y, x, c);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t product = (from_a[lane] - op.zero_point_a) * (from_b[lane] - op.zero_point_b);
        const int32_t value = rescaled(product, op.rescale, 0) + op.output_zero_point;
        codes(out, y, x, c)[lane] = int8_t(intrs_clamp(value, op.clamp_low, op.clamp_high));
      }
    });
  }

  static void run(const ScaledAdd& op, const Inputs& inputs, Out out) {
    const In a = inputs[0], b = inputs[1];
    const int32_t unit = 1 << op.left_shift;
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t c) {
      const int8_t *from_a = codes(a, y, x, c), *from_b = codes(b, y, x, c);
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        const int32_t term_a = rescaled((from_a[lane] - op.zero_point_a) * unit, op.rescale_a, 0);
        const int32_t term_b = rescaled((from_b[lane] - op.zero_point_b) * unit, op.rescale_b, 0);
        const int32_t sum = op.subtract ? term_a - term_b : term_a + term_b;
        const int32_t value = rescaled(sum, op.rescale_sum, 0) + op.output_zero_point;
        codes(out, y, x, c)[lane] = int8_t(intrs_clamp(value, op.clamp_low, op.clamp_high));
      }
    });
  }

  static void run(const Concat&, const Inputs& inputs, Out out) {
    for (int32_t y = 0; y < out.shape.height; ++y) {
      for (int32_t x = 0; x < out.shape.width; ++x) {
        uint8_t* to = out.at(y, x);
        for (size_t i = 0; i < inputs.count; ++i) to = std::copy_n(inputs[i].at(y, x), inputs[i].pixel, to);
      }
    }
  }

  static void run(const Pad& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for (int32_t y = 0; y < out.shape.height; ++y) {
      std::fill_n(out.at(y, 0), out.shape.width * out.pixel, uint8_t(op.value));
    }
    for (int32_t y = 0; y < in.shape.height; ++y) {
      std::copy_n(in.at(y, 0), in.shape.width * in.pixel, out.at(y + op.top, op.left));
    }
  }

  static void run(const Gather& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_places(out.shape, [&](int32_t y, int32_t x, int32_t c) {
      const int8_t* from = codes(in, index_at(op.rows, y), index_at(op.columns, x), index_at(op.channels, c));
      std::copy_n(from, kLanes, codes(out, y, x, c));
    });
  }

  static KernelSet set(const char* name, bool test_only) {
    KernelSet set = {};
    set.name = name;
    set.layout = {1, kLanes, 0, false};
    set.test_only = test_only;
    set.noise = noise_kernels<FourBlocks>();
    set.quantise = quantise;
    set.layers = KernelTable<Operation>::of<Scalar>();
    return set;
  }
};

}  // namespace

KernelSet scalar_set() {
  return Scalar<16>::set("scalar", false);
}

std::vector<KernelSet> test_sets() {
  KernelSet wrong = Scalar<1>::set("wrong", true);  // a multiplier that is off by one: the self-check must refuse it
  wrong.layers.Kernel<Add>::run = [](const Add& op, const Inputs& inputs, Out out) {
    Add other = op;
    other.multiplier_a += 1;
    Scalar<1>::run(other, inputs, out);
  };
  KernelSet wrong_lane = Scalar<16>::set("wrong-lane", true);  // in the last of its samples alone
  wrong_lane.quantise = [](const Quantiser& q, const int32_t* pixels, int32_t lane, Out out) {
    Scalar<16>::quantise(q, pixels, lane, out);
    if (lane == 15) out.codes[15] ^= 1;
  };
  // Right for whole tensors, but told to run by rows, which its Conv cannot do, since it looks at the shape of its
  // input.
  KernelSet wrong_by_rows = Scalar<1>::set("wrong-by-rows", true);
  wrong_by_rows.layout.bordered = true;
  wrong_by_rows.pack = [](const Conv&, const In&, const Out&) { return std::make_unique<Packed>(); };
  return {Scalar<1>::set("scalar-1", true), Scalar<5>::set("scalar-5", true), wrong, wrong_lane, wrong_by_rows};
}

}  // namespace intrs
