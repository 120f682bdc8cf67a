// ARM without the dot product extension: four samples a vector. Most layers go by tiles, whose products of 16 bits
// SMLAL adds up in 32. Others multiply bytes: SMULL and SMLAL add the products of two steps in 16 bits, where they fit
// unless all four factors are -128, and SADALP adds those by pairs in 32.
#include "neon.h"

namespace intrs {
namespace {

struct Vector : NeonVector {
  static constexpr int32_t kPixels = 2, kTiles = 4, kLeastTiled = 8;
  static constexpr int kTogether = kQuad, kUnroll = 2;
  static constexpr int32_t kDepthwisePixels = 4;
  static constexpr int64_t kTileCycles[2] = {231, 4600};

  // --- products of 16 bits: four samples of one channel, then of another ------------------------------------------

  static int16x8_t planes(Vec bytes, bool odd) {
    static const uint8_t order[16] = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
    const int8x16_t ordered = vqtbl1q_s8(vreinterpretq_s8_s32(bytes), vld1q_u8(order));
    return odd ? vmovl_high_s8(ordered) : vmovl_s8(vget_low_s8(ordered));
  }
  static Vec even16(Vec bytes) { return vreinterpretq_s32_s16(planes(bytes, false)); }
  static Vec odd16(Vec bytes) { return vreinterpretq_s32_s16(planes(bytes, true)); }
  static Vec add16(Vec a, Vec b) {
    return vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
  }
  static Vec sub16(Vec a, Vec b) {
    return vreinterpretq_s32_s16(vsubq_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
  }
  static Vec four16(Vec a) { return vreinterpretq_s32_s16(vshlq_n_s16(vreinterpretq_s16_s32(a), 2)); }
  static Vec four32(Vec a) { return vshlq_n_s32(a, 2); }

  template <int k>  // the pair of weights k
  static Vec mul16_element(Vec pairs, Vec weights) {
    const int16x8_t v = vreinterpretq_s16_s32(pairs), w = vreinterpretq_s16_s32(weights);
    return vmlal_high_laneq_s16(vmull_laneq_s16(vget_low_s16(v), w, 2 * k), v, w, 2 * k + 1);
  }
  template <int k>
  static Vec dot16_element(Vec sum, Vec pairs, Vec weights) {
    const int16x8_t v = vreinterpretq_s16_s32(pairs), w = vreinterpretq_s16_s32(weights);
    return vmlal_high_laneq_s16(vmlal_laneq_s16(sum, vget_low_s16(v), w, 2 * k), v, w, 2 * k + 1);
  }

  // --- depthwise layers: taps 0 and 2 of four channels, and 1 and 3 -----------------------------------------------

  struct Taps {
    int16x8_t even, odd;
  };
  struct TapWeights {
    int16_t even[2 * kQuad], odd[2 * kQuad];
  };
  static TapWeights tap_weights(const int8_t (&taps)[kQuad][4]) {
    TapWeights weights;
    for (int k = 0; k < kQuad; ++k) {
      weights.even[k] = taps[k][0], weights.even[kQuad + k] = taps[k][2];
      weights.odd[k] = taps[k][1], weights.odd[kQuad + k] = taps[k][3];
    }
    return weights;
  }
  static Taps load_taps(const TapWeights& weights) { return {vld1q_s16(weights.even), vld1q_s16(weights.odd)}; }
  static Taps taps(Vec bytes) { return {planes(bytes, false), planes(bytes, true)}; }
  static Vec dot_halves(Vec sum, int16x8_t a, int16x8_t b) {
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(a), vget_low_s16(b)), a, b);
  }
  static Vec dot_taps(Vec sum, const Taps& taps, const Taps& weights) {
    return dot_halves(dot_halves(sum, taps.even, weights.even), taps.odd, weights.odd);
  }

  // --- other layers: bytes, two steps at once ---------------------------------------------------------------------

  struct Pair {  // of steps: what four output channels do with two vectors
    int32_t offset[2];
    int32_t weights[2][kQuad];
  };
  using Strips = std::vector<Pair>;

  // May their products be added in 16 bits? 128 * 128 + 128 * 127 fits, twice 128 * 128 does not.
  static bool fit(const QuadStep& a, const QuadStep& b) {
    const auto *x = reinterpret_cast<const int8_t*>(a.weights), *y = reinterpret_cast<const int8_t*>(b.weights);
    for (size_t i = 0; i < sizeof a.weights; ++i) {
      if (x[i] == -128 && y[i] == -128) return false;
    }
    return true;
  }

  static Strips strips(const Quad& quad) {
    Strips pairs;
    const std::vector<QuadStep> steps = merged(quad);
    for (size_t i = 0; i < steps.size(); ++i) {
      Pair pair = {{steps[i].offset, steps[i].offset}, {}};
      std::copy_n(steps[i].weights, kQuad, pair.weights[0]);
      if (i + 1 < steps.size() && fit(steps[i], steps[i + 1])) {  // else the second one is zero
        pair.offset[1] = steps[++i].offset;
        std::copy_n(steps[i].weights, kQuad, pair.weights[1]);
      }
      pairs.push_back(pair);
    }
    return pairs;
  }

  // Hundredths of instructions: nobody has measured cycles. RESCALE included.
  static int64_t cycles(const Quad& quad) {
    int64_t products = 0;
    for (const auto& entries : quad) products += int64_t(entries.size());
    return 375 * products + 4000;
  }

  // Adds by pairs of channels: lanes are samples 0 and 1 of the first vector, 2 and 3 of the second, two lanes each.
  static INTRS_INLINE void add_products(Vec (&sums)[2], Vec a, Vec b, int32_t weight_a, int32_t weight_b) {
    const int8x16_t x = vreinterpretq_s8_s32(a), y = vreinterpretq_s8_s32(b);
    const int8x16_t v = vreinterpretq_s8_s32(broadcast(weight_a)), w = vreinterpretq_s8_s32(broadcast(weight_b));
    const int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(x), vget_low_s8(v)), vget_low_s8(y), vget_low_s8(w));
    const int16x8_t high = vmlal_high_s8(vmull_high_s8(x, v), y, w);
    sums[0] = vpadalq_s16(sums[0], low), sums[1] = vpadalq_s16(sums[1], high);
  }

  template <int P>
  static INTRS_INLINE void run(const Strips& strips, const int32_t (&start)[kQuad], const uint8_t* from, int64_t step,
                               Vec (&sums)[P][kQuad]) {
    Vec halves[P][kQuad][2];
    each<P>([&](auto p) INTRS_BODY {
      each<kQuad>([&](auto k) INTRS_BODY { halves[p][k][0] = halves[p][k][1] = broadcast(0); });
    });
    for (const Pair& pair : strips) {
      Vec a[P], b[P];
      each<P>([&](auto p) INTRS_BODY {
        a[p] = load(from + pair.offset[0] + p * step), b[p] = load(from + pair.offset[1] + p * step);
      });
      each<kQuad>([&](auto k) INTRS_BODY {
        each<P>([&](auto p)
                    INTRS_BODY { add_products(halves[p][k], a[p], b[p], pair.weights[0][k], pair.weights[1][k]); });
      });
    }
    each<P>([&](auto p) INTRS_BODY {
      each<kQuad>([&](auto k) INTRS_BODY {
        sums[p][k] = add(vpaddq_s32(halves[p][k][0], halves[p][k][1]), broadcast(start[k]));
      });
    });
  }
};

}  // namespace

KernelSet neon_smlal_set() {
  return Lanes<Vector>::set("neon-smlal");
}

}  // namespace intrs
