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

  struct Step {  // one entry of four output channels
    int32_t offset;
    int32_t weights[kQuad];
  };

  // Four output channels together, or one alone.
  struct Strip {
    std::vector<Step> together;
    std::vector<Entry> alone;
    int32_t channel = 0;  // which one is alone
  };

  // Four channels share each load of a vector, so a tile of them runs at one product a cycle, zero or not; channels
  // alone skip their zeros but load for each product. Estimated in cycles per pixel.
  static bool pays_by_channel(const std::vector<Quad>& quads) {
    double together = 0, alone = 0;
    for (const Quad& quad : quads) {
      together += double(merged(quad).together.size()) * (4.0 + 2.0 / B::kPixels);
      for (const auto& entries : quad) alone += double(entries.size()) * (1.0 + 2.0 / B::kPixelsByChannel);
    }
    return alone < together;
  }

  static std::vector<Strip> strips(const Quad& quad, bool by_channel) {
    if (!by_channel) return {merged(quad)};
    std::vector<Strip> strips;
    for (int32_t k = 0; k < kQuad; ++k) {
      strips.push_back({{}, quad[size_t(k)], k});
    }
    return strips;
  }

  // The union of four channels' entries, by offset; a channel without an entry has zero weights there.
  static Strip merged(const Quad& quad) {
    Strip strip;
    size_t at[kQuad] = {};
    for (;;) {
      int32_t next = INT32_MAX;
      for (size_t k = 0; k < kQuad; ++k) {
        if (at[k] < quad[k].size()) next = std::min(next, quad[k][at[k]].offset);
      }
      if (next == INT32_MAX) return strip;
      Step step = {next, {}};
      for (size_t k = 0; k < kQuad; ++k) {
        const bool has = at[k] < quad[k].size() && quad[k][at[k]].offset == next;
        if (has) step.weights[k] = four(quad[k][at[k]++].weights);
      }
      strip.together.push_back(step);
    }
  }

  template <int P>
  static void run(const Strip& strip, const uint8_t* from, int64_t step, Vec (&sums)[P][kQuad]) {
    if (!strip.alone.empty()) run_channel<P>(strip, from, step, sums);
    if constexpr (P <= B::kPixels) {
      if (!strip.together.empty()) run_quad<P>(strip, from, step, sums);
    }
  }

  template <int P>
  static void run_quad(const Strip& strip, const uint8_t* from, int64_t step, Vec (&sums)[P][kQuad]) {
    Vec acc[P][kQuad];
    for (int p = 0; p < P; ++p) {
      for (int k = 0; k < kQuad; ++k) acc[p][k] = sums[p][k];
    }
    for (const Step& entry : strip.together) {
      const uint8_t* at = from + entry.offset;
      const Vec w0 = B::broadcast(entry.weights[0]), w1 = B::broadcast(entry.weights[1]);
      const Vec w2 = B::broadcast(entry.weights[2]), w3 = B::broadcast(entry.weights[3]);
      for (int p = 0; p < P; ++p) {
        const Vec codes = B::load(at + p * step);
        acc[p][0] = B::dot(acc[p][0], codes, w0);
        acc[p][1] = B::dot(acc[p][1], codes, w1);
        acc[p][2] = B::dot(acc[p][2], codes, w2);
        acc[p][3] = B::dot(acc[p][3], codes, w3);
      }
    }
    for (int p = 0; p < P; ++p) {
      for (int k = 0; k < kQuad; ++k) sums[p][k] = acc[p][k];
    }
  }

  template <int P>
  static void run_channel(const Strip& strip, const uint8_t* from, int64_t step, Vec (&sums)[P][kQuad]) {
    Vec acc[P];
    for (int p = 0; p < P; ++p) acc[p] = sums[p][strip.channel];
    for (const Entry& entry : strip.alone) {
      const uint8_t* at = from + entry.offset;
      const Vec w = B::broadcast(four(entry.weights));
      for (int p = 0; p < P; ++p) acc[p] = B::dot(acc[p], B::load(at + p * step), w);
    }
    for (int p = 0; p < P; ++p) sums[p][strip.channel] = acc[p];
  }
};

}  // namespace
}  // namespace intrs
