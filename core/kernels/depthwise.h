// Depthwise convolutions: each output channel reads one input channel. As a general Conv three of four products would
// be with zeros, so the bytes of four neighbouring pixels change places first: a 32-bit lane then holds four taps of
// one channel, and one vector holds four channels of every fourth sample.
//
// Two interleavings do it: of pixels a and b by bytes, of (a, b) and (c, d) by 16 bits. What a vector of 128 bits holds
// after them (x86 interleaves each 128 bits by themselves):
//   4 samples x (c0 c1 c2 c3) of a, b, c, d   ->   one vector a sample: (a b c d) of c0, of c1, of c2, of c3
//
// Pairs (0, 1), (2, 3), (4, 5) ... of pixels make groups (0..3), (2..5), ... With stride 1 a group serves the outputs
// at its first and at its second pixel (weights w0 w1 w2 0 and 0 w0 w1 w2); with stride 2 it serves one. A row of more
// taps is several groups, four pixels apart.
#pragma once

#include "entries.h"

namespace intrs {
namespace {

template <class V>
struct Depthwise {
  using Vec = typename V::Vec;
  using Taps = typename V::Taps;              // four taps of a channel in each lane, as the set multiplies them
  using TapWeights = typename V::TapWeights;  // of four channels
  static constexpr int32_t kMost = V::kDepthwisePixels;  // outputs at once

  static bool suits(const Conv& op, const Shape& out) {
    const Window& w = op.window;
    return op.channels_per_group == 1 && op.groups == out.channels && w.width > 1 && w.dilation_x == 1 &&
           (w.stride_x == 1 || w.stride_x == 2);
  }

  static int32_t groups(const Window& w) { return (w.width + (w.stride_x == 1 ? 1 : 0) + 3) / 4; }

  // [quad][group][row of the window][output of a group: one for stride 2]
  static std::vector<TapWeights> weights(const Conv& op, int32_t channels) {
    const Window& w = op.window;
    std::vector<TapWeights> all;
    for (int32_t quad = 0; quad < quads(channels); ++quad) {
      for (int32_t group = 0; group < groups(w); ++group) {
        for (int32_t ky = 0; ky < w.height; ++ky) {
          for (int32_t output = 0; output < 3 - w.stride_x; ++output) {
            int8_t taps[kQuad][4] = {};
            for (int32_t k = 0; k < kQuad; ++k) {
              const int32_t c = std::min(quad * kQuad + k, channels - 1);  // beyond the last: anything
              for (int32_t i = 0; i < 4; ++i) {
                const int32_t kx = 4 * group + i - output;
                if (kx >= 0 && kx < w.width) taps[k][i] = op.weights[size_t((c * w.height + ky) * w.width + kx)];
              }
            }
            all.push_back(V::tap_weights(taps));
          }
        }
      }
    }
    return all;
  }

  // Adds to sums[output][sample % 4] what N neighbouring outputs of a quad get, stride S.
  template <int N, int S>
  static INTRS_INLINE void run(const Window& w, const In& in, const uint8_t* from, const TapWeights* weights,
                               Vec (&sums)[N][kQuad]) {
    constexpr int kGroups = S == 1 ? (N + 1) / 2 : N, kPairs = kGroups + 1;
    const int32_t last = (N - 1) * S + w.width - 1;  // pixel that is read; beyond it weights are zero
    for (int32_t group = 0; group < groups(w); ++group) {
      int64_t columns[2 * kPairs];
      for (int i = 0; i < 2 * kPairs; ++i) columns[i] = std::min(4 * group + i, last) * in.pixel;
      const uint8_t* row = from;
      for (int32_t ky = 0; ky < w.height; ++ky, row += w.dilation_y * in.row, weights += 3 - S) {
        Vec low[kPairs], high[kPairs];
        each<kPairs>([&](auto i) INTRS_BODY {
          const Vec a = V::load(row + columns[2 * i]), b = V::load(row + columns[2 * i + 1]);
          low[i] = V::interleave8_low(a, b), high[i] = V::interleave8_high(a, b);
        });
        const Taps w0 = V::load_taps(weights[0]), w1 = V::load_taps(weights[2 - S]);
        each<kGroups>([&](auto i) INTRS_BODY {
          const Taps taps[kQuad] = {
              V::taps(V::interleave16_low(low[i], low[i + 1])), V::taps(V::interleave16_high(low[i], low[i + 1])),
              V::taps(V::interleave16_low(high[i], high[i + 1])), V::taps(V::interleave16_high(high[i], high[i + 1]))};
          each<kQuad>([&](auto j) INTRS_BODY {
            constexpr int kGroup = decltype(i)::value, kFirst = S == 1 ? 2 * kGroup : kGroup, kSecond = 2 * kGroup + 1;
            sums[kFirst][j] = V::dot_taps(sums[kFirst][j], taps[j], w0);
            if constexpr (S == 1 && kSecond < N) sums[kSecond][j] = V::dot_taps(sums[kSecond][j], taps[j], w1);
          });
        });
      }
    }
  }
};

}  // namespace
}  // namespace intrs
