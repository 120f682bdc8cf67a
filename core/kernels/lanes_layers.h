// The layers that are no Conv, over the vectors of samples of lanes.h.
#pragma once

#include <cstring>

#include "../arith.h"
#include "lanes_plain.h"

namespace intrs {
namespace {

template <class V>
struct LanesLayers {
  using Vec = typename V::Vec;
  using Scale = typename V::Scale;
  using Words = typename V::Words;
  using Plain = LanesPlain<V>;
  static constexpr int32_t kBytes = V::kLanes * kQuad;  // of a vector

  // Calls visit(row, column, bytes from the pixel) for every vector of a tensor.
  template <class Visit>
  static void for_vectors(const Out& out, Visit visit) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int64_t at = 0; at < out.pixel; at += kBytes) visit(y, x, at);
    });
  }

  // Writes one(a, b) of the 32-bit values of two inputs, clamped.
  template <class Layer, class One>
  static void for_pairs(const Layer& op, const Inputs& inputs, const Out& out, One one) {
    const In a = inputs[0], b = inputs[1];
    const Vec low = V::bytes(op.clamp_low + V::kFlip), high = V::bytes(op.clamp_high + V::kFlip);
    for_vectors(out, [&](int32_t y, int32_t x, int64_t at) {
      const Vec va = V::load(a.at(y, x) + at), vb = V::load(b.at(y, x) + at);
      const Vec joined = V::join(one(V::template channel<0>(va), V::template channel<0>(vb)),
                                 one(V::template channel<1>(va), V::template channel<1>(vb)),
                                 one(V::template channel<2>(va), V::template channel<2>(vb)),
                                 one(V::template channel<3>(va), V::template channel<3>(vb)));
      V::store(out.at(y, x) + at, V::low(V::high(joined, low), high));
    });
  }

  static void run(const Add& op, const Inputs& inputs, Out out) {
    const Vec ma = V::broadcast(op.multiplier_a), mb = V::broadcast(op.multiplier_b);
    // (sa - za') ma + (sb - zb') mb + half, zero points in the stored form; modulo 2^32, like all that follows.
    const uint32_t rest = (1u << (op.shift - 1)) - uint32_t(op.zero_point_a + V::kFlip) * uint32_t(op.multiplier_a) -
                          uint32_t(op.zero_point_b + V::kFlip) * uint32_t(op.multiplier_b);
    const Vec start = V::broadcast(int32_t(rest)), zero_point = V::broadcast(op.output_zero_point + V::kFlip);
    for_pairs(op, inputs, out, [&](Vec x, Vec y) {
      const Vec sum = V::add(V::add(V::mul(x, ma), V::mul(y, mb)), start);
      return V::add(V::shift_right(sum, op.shift), zero_point);
    });
  }

  // RESCALE of any shift and a zero point, which is added late where the product has no room for it.
  struct Rounding {
    Scale scale;
    Vec late;

    Rounding(const Rescale& by, int32_t zero_point) {
      const bool room = by.shift[0] <= kMostWithRoom;
      scale = V::scale({by.multiplier[0], by.shift[0], room ? zero_point : 0, by.twice});
      late = V::broadcast(room ? 0 : zero_point);
    }
    Vec operator()(Vec v) const { return V::add(V::rescale(v, scale), late); }
  };

  static void run(const Mul& op, const Inputs& inputs, Out out) {
    const Vec za = V::broadcast(-(op.zero_point_a + V::kFlip)), zb = V::broadcast(-(op.zero_point_b + V::kFlip));
    const Rounding rounded(op.rescale, op.output_zero_point + V::kFlip);
    for_pairs(op, inputs, out, [&](Vec x, Vec y) { return rounded(V::mul(V::add(x, za), V::add(y, zb))); });
  }

  static void run(const ScaledAdd& op, const Inputs& inputs, Out out) {
    const Vec za = V::broadcast(-(op.zero_point_a + V::kFlip)), zb = V::broadcast(-(op.zero_point_b + V::kFlip));
    const Vec unit = V::broadcast(1 << op.left_shift);
    const Rounding a(op.rescale_a, 0), b(op.rescale_b, 0), rounded(op.rescale_sum, op.output_zero_point + V::kFlip);
    for_pairs(op, inputs, out, [&](Vec x, Vec y) {
      const Vec term_a = a(V::mul(V::add(x, za), unit)), term_b = b(V::mul(V::add(y, zb), unit));
      return rounded(op.subtract ? V::sub(term_a, term_b) : V::add(term_a, term_b));
    });
  }

  static void run(const CodeTable& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    uint8_t stored[256];
    for (size_t i = 0; i < sizeof stored; ++i)
      stored[(i ^ 0x80) ^ V::kFlip] = uint8_t(uint8_t(op.results[i]) ^ V::kFlip);
    const typename V::Lookups table(stored);
    for_vectors(
        out, [&](int32_t y, int32_t x, int64_t at) { V::store(out.at(y, x) + at, table(V::load(in.at(y, x) + at))); });
  }

  // Calls visit(y, x) for the taps of a pool that lie inside its input.
  template <class Visit>
  static void for_taps(const Window& w, const Shape& in, int32_t out_y, int32_t out_x, Visit visit) {
    const int32_t y0 = out_y * w.stride_y - w.top, x0 = out_x * w.stride_x - w.left;
    for (int32_t y = std::max(y0, 0); y < std::min(y0 + w.height, in.height); ++y) {
      for (int32_t x = std::max(x0, 0); x < std::min(x0 + w.width, in.width); ++x) visit(y, x);
    }
  }

  static void run(const MaxPool& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_vectors(out, [&](int32_t out_y, int32_t out_x, int64_t at) {
      Vec best = V::bytes(-128 + V::kFlip);
      for_taps(op.window, in.shape, out_y, out_x,
               [&](int32_t y, int32_t x) { best = V::high(best, V::load(in.at(y, x) + at)); });
      V::store(out.at(out_y, out_x) + at, best);
    });
  }

  static void run(const AvgPool& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for_vectors(out, [&](int32_t out_y, int32_t out_x, int64_t at) {
      Vec sum[kQuad];
      int32_t count = 0, multiplier = 0;
      int shift = 0;
      for (Vec& s : sum) s = V::broadcast(0);
      for_taps(op.window, in.shape, out_y, out_x, [&](int32_t y, int32_t x) {
        const Vec v = V::load(in.at(y, x) + at);
        sum[0] = V::add(sum[0], V::template channel<0>(v));
        sum[1] = V::add(sum[1], V::template channel<1>(v));
        sum[2] = V::add(sum[2], V::template channel<2>(v));
        sum[3] = V::add(sum[3], V::template channel<3>(v));
        ++count;
      });
      intrs_reciprocal(uint32_t(count), &multiplier, &shift);
      const Vec zero = V::broadcast(-count * (op.input_zero_point + V::kFlip));
      const Scale scale = V::scale({multiplier, shift, op.output_zero_point + V::kFlip, false});
      for (Vec& s : sum) s = V::rescale(V::add(s, zero), scale);
      V::store(out.at(out_y, out_x) + at, V::join(sum[0], sum[1], sum[2], sum[3]));
    });
  }

  static void run(const Requantise& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    const int8_t shift = op.rescale.shift[0];
    if (shift > kMostWithRoom) return Plain::requantise(op, in, out);
    const Scale scale = V::scale({op.rescale.multiplier[0], shift, op.output_zero_point + V::kFlip, op.rescale.twice});
    const Vec zero = V::broadcast(-(op.input_zero_point + V::kFlip));
    const Vec low = V::bytes(op.clamp_low + V::kFlip), high = V::bytes(op.clamp_high + V::kFlip);
    const auto one = [&](Vec x) { return V::rescale(V::add(x, zero), scale); };
    for_vectors(out, [&](int32_t y, int32_t x, int64_t at) {
      const Vec v = V::load(in.at(y, x) + at);
      const Vec joined = V::join(one(V::template channel<0>(v)), one(V::template channel<1>(v)),
                                 one(V::template channel<2>(v)), one(V::template channel<3>(v)));
      V::store(out.at(y, x) + at, V::low(V::high(joined, low), high));
    });
  }

  static Words load_words(const uint8_t* from) {
    static_assert(sizeof(Words) == kBytes, "a vector of samples is a vector of words");
    Words words;
    std::memcpy(&words, from, sizeof words);
    return words;
  }

  // Channels that begin within a quad: each of their quads fills up one that is begun, and begins the next. What lies
  // behind the last of them is written again by the next part, or is beyond the last channel.
  static void concat_pixel(const In& in, const uint8_t* from, uint8_t* to, int32_t first) {
    to += first / kQuad * kBytes;
    const int32_t begun = first % kQuad, bits = 8 * begun;
    if (begun == 0) {
      std::memcpy(to, from, size_t(in.pixel));
      return;
    }
    Words open = load_words(to) & ((1u << bits) - 1);
    for (int32_t quad = 0; quad < quads(in.shape.channels); ++quad, from += kBytes, to += kBytes) {
      const Words next = load_words(from), joined = open | next << bits;
      std::memcpy(to, &joined, sizeof joined);
      open = next >> (32 - bits);
    }
    if ((first + in.shape.channels - 1) / kQuad >= first / kQuad + quads(in.shape.channels)) {
      std::memcpy(to, &open, sizeof open);
    }
  }

  static void run(const Concat&, const Inputs& inputs, Out out) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      int32_t first = 0;
      for (size_t i = 0; i < inputs.count; ++i) {
        concat_pixel(inputs[i], inputs[i].at(y, x), out.at(y, x), first);
        first += inputs[i].shape.channels;
      }
    });
  }

  // The four channels of an input that become a quad of the output.
  struct Picked {
    int64_t offset[kQuad];  // bytes of their quads from the pixel
    int32_t shift[kQuad];   // bits within a lane
    bool whole = true;      // all from one quad, in order

    Picked(const Gather& op, int32_t first, int32_t channels) {
      for (int32_t k = 0; k < kQuad; ++k) {
        const int32_t channel = first + k < channels ? index_at(op.channels, first + k) : k;  // beyond the last: any
        offset[k] = first + k < channels ? int64_t{channel / kQuad} * kBytes : offset[0];
        shift[k] = 8 * (channel % kQuad);
        whole = whole && offset[k] == offset[0] && shift[k] == 8 * k;
      }
    }

    void copy(const uint8_t* from, uint8_t* to) const {
      Words joined = {};
      for (int32_t k = 0; k < kQuad; ++k) joined |= (load_words(from + offset[k]) >> shift[k] & 255) << 8 * k;
      std::memcpy(to, &joined, sizeof joined);
    }
  };

  static void gather_row(const Gather& op, const uint8_t* row, int64_t pixel, uint8_t* to, const Out& out) {
    if (op.channels.empty() && op.columns.empty()) {
      std::memcpy(to, row, size_t(out.shape.width * out.pixel));
      return;
    }
    for (int32_t first = 0; first < out.shape.channels; first += kQuad, to += kBytes) {
      const Picked picked(op, first, out.shape.channels);
      for (int32_t x = 0; x < out.shape.width; ++x) {
        const uint8_t* from = row + index_at(op.columns, x) * pixel;
        picked.whole ? V::store(to + x * out.pixel, V::load(from + picked.offset[0]))
                     : picked.copy(from, to + x * out.pixel);
      }
    }
  }

  static void run(const Gather& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for (int32_t y = 0; y < out.shape.height; ++y) {
      gather_row(op, in.at(index_at(op.rows, y), 0), in.pixel, out.at(y, 0), out);
    }
  }

  static void run(const Pad& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    for (int32_t y = 0; y < out.shape.height; ++y) {
      std::memset(out.at(y, 0), uint8_t(op.value) ^ V::kFlip, size_t(out.shape.width * out.pixel));
    }
    for (int32_t y = 0; y < in.shape.height; ++y) {
      std::memcpy(out.at(y + op.top, op.left), in.at(y, 0), size_t(in.shape.width * in.pixel));
    }
  }
};

}  // namespace
}  // namespace intrs
