// The image quantiser, into the layout of lanes.h.
#pragma once

#include <cstring>

#include "lanes_plain.h"

namespace intrs {
namespace {

template <class V>
struct LanesQuantise {
  // One sample: codes in coordinate order first, by whole vectors, then to their places four bytes at a time. What
  // follows a pixel's last channel goes along; channels beyond the last hold anything.
  static void quantise(const Quantiser& q, const int32_t* pixels, int32_t lane, Out out) {
    const auto channels = size_t(out.shape.channels);
    if (channels > kQuad) return LanesPlain<V>::quantise(q, pixels, lane, out);
    constexpr size_t kRow = 48;  // coordinates at once: whole pixels of 1, 2, 3 or 4 channels
    int32_t low[kRow], high[kRow], multiplier[kRow], offset[kRow];
    for (size_t i = 0; i < kRow; ++i) {
      low[i] = q.low[i % channels], high[i] = q.high[i % channels];
      multiplier[i] = q.multiplier[i % channels], offset[i] = q.offset[i % channels];
    }
    const auto total = size_t(out.shape.size());
    uint8_t codes[kRow + kQuad] = {};
    int32_t padded[kRow] = {};
    uint8_t* to = out.codes + lane * kQuad;
    int32_t x = 0;
    for (size_t begin = 0; begin < total; begin += kRow, pixels += kRow) {
      const int32_t* from = pixels;
      if (total - begin < kRow) from = std::copy_n(pixels, total - begin, padded) - (total - begin);
      for (size_t i = 0; i < kRow; ++i) {
        const int32_t p = std::min(std::max(from[i], low[i]), high[i]);
        const int32_t code = (p * multiplier[i] + offset[i]) >> q.shift;
        codes[i] = uint8_t(std::min(std::max(code, -128), 127) + V::kFlip);
      }
      for (size_t i = 0; i < std::min(kRow, total - begin); i += channels) {
        std::memcpy(to, codes + i, kQuad);
        to += out.pixel;
        if (++x == out.shape.width) x = 0, to += out.row - out.shape.width * out.pixel;
      }
    }
  }
};

}  // namespace
}  // namespace intrs
