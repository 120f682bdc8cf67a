// The inner loop for instruction sets with an exact four-byte dot product (VPDPBUSD, SDOT). Included by their files.
//
// B is the vector type of lanes.h with `dot(sum, codes, weights)` and the tile sizes that its registers allow.
#pragma once

#include "lanes.h"

namespace intrs {
namespace {

constexpr int kMasks = 1 << kQuad;  // which of four channels take part

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

  // The steps of four output channels, sorted by which of the four take part, as a mask: so a channel skips its zero
  // groups although all share each load, and no branch depends on a single step.
  struct Strips {
    std::vector<QuadStep> steps;
    int32_t count[kMasks] = {};  // of each mask; the highest comes first
    bool dense = true;           // all channels take part in all steps
  };

  static int32_t mask(const QuadStep& step) {
    int32_t mask = 0;
    for (int k = 0; k < kQuad; ++k) mask |= (step.weights[k] != 0) << k;
    return mask;
  }

  static Strips strips(const Quad& quad) {
    Strips strips;
    strips.steps = merged(quad);
    for (const QuadStep& step : strips.steps) ++strips.count[mask(step)];
    strips.dense = strips.count[kMasks - 1] == int32_t(strips.steps.size());
    std::stable_sort(strips.steps.begin(), strips.steps.end(),
                     [](const QuadStep& a, const QuadStep& b) { return mask(a) > mask(b); });
    return strips;
  }

  // Hundredths of cycles, measured on Zen 4: one product a cycle or nearly, and RESCALE.
  static int64_t cycles(const Quad& quad) {
    int64_t products = 0;
    for (const auto& entries : quad) products += int64_t(entries.size());
    return 105 * products + 2000;
  }

  template <int P>
  static INTRS_INLINE void run(const Strips& strips, const int32_t (&start)[kQuad], const uint8_t* from, int64_t step,
                               Vec (&sums)[P][kQuad]) {
    each<P>([&](auto p) INTRS_BODY { each<kQuad>([&](auto k) INTRS_BODY { sums[p][k] = B::broadcast(start[k]); }); });
    const QuadStep* next = run_mask<P, kMasks - 1>(strips, strips.steps.data(), from, step, sums);
    if (!strips.dense) run_masks<P, kMasks - 2>(strips, next, from, step, sums);
  }

  // What channel k multiplies by, and its product. By element, one load serves all four channels.
  template <int k>
  static INTRS_INLINE Vec weights_of(const QuadStep& step) {
    return B::kByElement ? B::fours(step.weights) : B::broadcast(step.weights[k]);
  }

  template <int k>
  static INTRS_INLINE Vec dot_of(Vec sum, Vec codes, Vec weights) {
    if constexpr (B::kByElement) {
      return B::template dot_element<k>(sum, codes, weights);
    } else {
      return B::dot(sum, codes, weights);
    }
  }

  // The steps of mask kMask and of those below it.
  template <int P, int kMask>
  static INTRS_INLINE void run_masks(const Strips& strips, const QuadStep* next, const uint8_t* from, int64_t step,
                                     Vec (&sums)[P][kQuad]) {
    next = run_mask<P, kMask>(strips, next, from, step, sums);
    if constexpr (kMask > 1) run_masks<P, kMask - 1>(strips, next, from, step, sums);
  }

  template <int P, int kMask>
  static INTRS_INLINE const QuadStep* run_mask(const Strips& strips, const QuadStep* next, const uint8_t* from,
                                               int64_t step, Vec (&sums)[P][kQuad]) {
    const QuadStep* const end = next + strips.count[kMask];
    const uint8_t* pixels[P];
    each<P>([&](auto p) INTRS_BODY {
      pixels[p] = from + p * step;
      if constexpr (B::kByElement) __asm__("" : "+r"(pixels[p]));  // GCC would add up steps for every load
    });
    for (; next < end; ++next) {
      Vec w[kQuad];
      each<kQuad>([&](auto k) INTRS_BODY {
        if constexpr (kMask >> decltype(k)::value & 1) w[k] = weights_of<k>(*next);
      });
      each<P>([&](auto p) INTRS_BODY {
        const Vec codes = B::load(pixels[p] + next->offset);
        each<kQuad>([&](auto k) INTRS_BODY {
          if constexpr (kMask >> decltype(k)::value & 1) sums[p][k] = dot_of<k>(sums[p][k], codes, w[k]);
        });
      });
    }
    return end;
  }
};

}  // namespace
}  // namespace intrs
