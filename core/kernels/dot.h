// The inner loop for instruction sets with an exact four-byte dot product (VPDPBUSD, SDOT). Included by their files.
//
// B is the vector type of lanes.h with `dot(sum, codes, weights)` and the tile sizes that its registers allow.
#pragma once

#include "lanes.h"

namespace intrs {
namespace {

template <class B>
struct Dot : B {
  using Vec = typename B::Vec;

  // Depthwise layers: four taps of a channel in a lane are bytes for the same instruction.
  using Taps = Vec;
  using TapWeights = std::array<int32_t, kQuad>;
  static TapWeights tap_weights(const int8_t (&taps)[kQuad][4]) {
    return {four(taps[0]), four(taps[1]), four(taps[2]), four(taps[3])};
  }
  static Taps load_taps(const TapWeights& weights) { return B::fours(weights.data()); }
  static Taps taps(Vec bytes) { return bytes; }
  static Vec dot_taps(Vec sum, Taps taps, Taps weights) { return B::dot(sum, taps, weights); }

  struct Step {  // one entry of four output channels
    int32_t offset;
    int32_t weights[kQuad];
  };

  // Four output channels together, or each alone.
  struct Strips {
    std::vector<Step> together;
    Quad alone;
  };

  // Four channels share each load of a vector, so a tile of them runs at one product a cycle, zero or not; channels
  // alone skip their zeros but load for each product. Hundredths of cycles, measured on Zen 4, RESCALE included.
  static int64_t shared_cycles(const std::vector<Quad>& quads) {
    int64_t cycles = 0;
    for (const Quad& quad : quads) cycles += 410 * int64_t(merged(quad).size()) + 3000;
    return cycles;
  }

  static int64_t alone_cycles(const std::vector<Quad>& quads) {
    int64_t cycles = 0;
    for (const Quad& quad : quads) {
      for (const auto& entries : quad) cycles += 135 * int64_t(entries.size()) + 600;
    }
    return cycles;
  }

  static Strips strips(const Quad& quad, bool by_channel) {
    if (!by_channel) return {merged(quad), {}};
    return {{}, quad};
  }

  // The union of four channels' entries, by offset; a channel without an entry has zero weights there.
  static std::vector<Step> merged(const Quad& quad) {
    std::vector<Step> steps;
    size_t at[kQuad] = {};
    for (;;) {
      int32_t next = INT32_MAX;
      for (size_t k = 0; k < kQuad; ++k) {
        if (at[k] < quad[k].size()) next = std::min(next, quad[k][at[k]].offset);
      }
      if (next == INT32_MAX) return steps;
      Step step = {next, {}};
      for (size_t k = 0; k < kQuad; ++k) {
        const bool has = at[k] < quad[k].size() && quad[k][at[k]].offset == next;
        if (has) step.weights[k] = four(quad[k][at[k]++].weights);
      }
      steps.push_back(step);
    }
  }

  template <int P>
  static INTRS_INLINE void run_together(const Strips& strips, const uint8_t* from, int64_t step,
                                        Vec (&sums)[P][kQuad]) {
    for (const Step& entry : strips.together) {
      const uint8_t* at = from + entry.offset;
      const Vec w0 = B::broadcast(entry.weights[0]), w1 = B::broadcast(entry.weights[1]);
      const Vec w2 = B::broadcast(entry.weights[2]), w3 = B::broadcast(entry.weights[3]);
      each<P>([&](auto p) INTRS_BODY {
        const Vec codes = B::load(at + p * step);
        sums[p][0] = B::dot(sums[p][0], codes, w0);
        sums[p][1] = B::dot(sums[p][1], codes, w1);
        sums[p][2] = B::dot(sums[p][2], codes, w2);
        sums[p][3] = B::dot(sums[p][3], codes, w3);
      });
    }
  }

  template <int P>
  static INTRS_INLINE void run_channel(const Strips& strips, int32_t channel, const uint8_t* from, int64_t step,
                                       Vec (&acc)[P]) {
    for (const Entry& entry : strips.alone[size_t(channel)]) {
      const uint8_t* at = from + entry.offset;
      const Vec w = B::broadcast(four(entry.weights));
      each<P>([&](auto p) INTRS_BODY { acc[p] = B::dot(acc[p], B::load(at + p * step), w); });
    }
  }
};

}  // namespace
}  // namespace intrs
