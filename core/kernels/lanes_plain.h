// Plain loops over the layout of lanes.h, one sample after the other, for what is rare: borders that do not suit,
// extreme scales, images of more than four channels.
#pragma once

#include <cstring>

#include "../arith.h"
#include "entries.h"

namespace intrs {
namespace {

template <class Visit>
void for_places(const Shape& shape, Visit visit) {
  for (int32_t y = 0; y < shape.height; ++y) {
    for (int32_t x = 0; x < shape.width; ++x) visit(y, x);
  }
}

template <class V>
struct LanesPlain {
  static int32_t code(const uint8_t* pixel, int32_t channel, int32_t lane) {
    return int8_t(pixel[(channel / kQuad * V::kLanes + lane) * kQuad + channel % kQuad] ^ V::kFlip);
  }

  static void set_code(uint8_t* pixel, int32_t channel, int32_t lane, int32_t value) {
    pixel[(channel / kQuad * V::kLanes + lane) * kQuad + channel % kQuad] = uint8_t(uint8_t(value) ^ V::kFlip);
  }

  static int32_t rescaled(int32_t value, const Rescale& by, size_t entry) {
    return intrs_rescale_as(value, by.multiplier[entry], by.shift[entry], by.twice);
  }

  static int32_t sum_of(const Conv& op, const In& in, int64_t out_y, int64_t out_x, int32_t o, int32_t channels,
                        int32_t lane) {
    const Window& w = op.window;
    const int32_t per_group = op.channels_per_group, first = o / (channels / op.groups) * per_group;
    const int8_t* weights = &op.weights[size_t(o) * op.weights.size() / size_t(channels)];
    int32_t sum = op.bias[size_t(o)];
    for (int32_t ky = 0; ky < w.height; ++ky) {
      for (int32_t kx = 0; kx < w.width; ++kx, weights += per_group) {
        const int64_t y = out_y * w.stride_y - w.top + int64_t{ky} * w.dilation_y;
        const int64_t x = out_x * w.stride_x - w.left + int64_t{kx} * w.dilation_x;
        if (y < 0 || y >= in.shape.height || x < 0 || x >= in.shape.width) continue;
        for (int32_t c = 0; c < per_group; ++c) {
          sum += weights[c] * (code(in.at(y, x), first + c, lane) - op.input_zero_point);
        }
      }
    }
    return sum;
  }

  static void conv(const Conv& op, const In& in, const Out& out) {
    const int32_t channels = out.shape.channels;
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int32_t o = 0; o < channels; ++o) {
        const size_t at = op.rescale.at(o);
        for (int32_t lane = 0; lane < V::kLanes; ++lane) {
          const int32_t sum = sum_of(op, in, y, x, o, channels, lane);
          const int32_t value = rescaled(sum, op.rescale, at);
          if (op.wide) {
            const int64_t element = (o / kQuad * V::kLanes + lane) * kQuad + o % kQuad;
            std::memcpy(out.at(y, x) + element * 4, &value, 4);
          } else {
            set_code(out.at(y, x), o, lane, intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
          }
        }
      }
    });
  }

  static void requantise(const Requantise& op, const In& in, const Out& out) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int32_t i = 0; i < out.shape.channels * V::kLanes; ++i) {
        const int32_t channel = i / V::kLanes, lane = i % V::kLanes;
        const int32_t value = rescaled(code(in.at(y, x), channel, lane) - op.input_zero_point, op.rescale, 0);
        set_code(out.at(y, x), channel, lane, intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
      }
    });
  }

  static void quantise(const Quantiser& q, const int32_t* pixels, int32_t lane, const Out& out) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int32_t c = 0; c < out.shape.channels; ++c) {
        const auto i = size_t(c);
        const int32_t p = intrs_clamp(*pixels++, q.low[i], q.high[i]);
        set_code(out.at(y, x), c, lane, intrs_clamp((p * q.multiplier[i] + q.offset[i]) >> q.shift, -128, 127));
      }
    });
  }
};

}  // namespace
}  // namespace intrs
