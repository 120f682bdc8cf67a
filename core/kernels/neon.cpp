// ARM with the dot product extension: four samples a vector, SDOT on signed bytes.
#include <arm_neon.h>

#include "dot.h"

namespace intrs {
namespace {

struct Vector : FourBlocks {
  static constexpr int32_t kLanes = 4, kPixels = 6, kTiles = 0;
  static constexpr int32_t kDepthwisePixels = 4;
  static constexpr uint8_t kFlip = 0;
  using Vec = int32x4_t;

  struct Scale {  // lane i has the scale of channel i
    int32x2_t multiplier[2];
    int64x2_t add[2], shift[2];
    uint32x2_t sign[2];  // if twice: Scales::sign
    bool long_shift, twice;
  };

  static Scale scale(const Scales& s) {
    const int32x4_t multiplier = vld1q_s32(s.multiplier);
    const uint32x4_t sign = vreinterpretq_u32_s32(vld1q_s32(s.sign));
    const int32x4_t shift = vnegq_s32(vaddq_s32(vld1q_s32(s.shift), vdupq_n_s32(s.long_shift ? 32 : 0)));
    return {{vget_low_s32(multiplier), vget_high_s32(multiplier)},
            {vld1q_s64(s.add), vld1q_s64(s.add + 2)},
            {vmovl_s32(vget_low_s32(shift)), vmovl_s32(vget_high_s32(shift))},
            {vget_low_u32(sign), vget_high_u32(sign)},
            s.long_shift,
            s.twice};
  }

  static Vec rescale(Vec v, const Scale& s) { return s.twice ? rescale_long<true>(v, s) : rescale_long<false>(v, s); }

  template <bool kTwice>
  static Vec rescale_long(Vec v, const Scale& s) {
    const int64x2_t low = rescale_half<kTwice>(vget_low_s32(v), s, 0);
    const int64x2_t high = rescale_half<kTwice>(vget_high_s32(v), s, 1);
    return vcombine_s32(vmovn_s64(low), vmovn_s64(high));
  }

  template <bool kTwice>
  static int64x2_t rescale_half(int32x2_t v, const Scale& s, int half) {
    int64x2_t sum = vmlal_s32(s.add[half], v, s.multiplier[half]);
    if constexpr (kTwice) {
      const uint32x2_t sign = vand_u32(vreinterpret_u32_s32(v), s.sign[half]);
      sum = vreinterpretq_s64_u64(vsubw_u32(vreinterpretq_u64_s64(sum), sign));
    }
    return vshlq_s64(sum, s.shift[half]);
  }

  template <bool kTwice>
  static Vec codes(Vec a, Vec b, Vec c, Vec d, const Scale (&s)[kQuad]) {
    return join(rescale_long<kTwice>(a, s[0]), rescale_long<kTwice>(b, s[1]), rescale_long<kTwice>(c, s[2]),
                rescale_long<kTwice>(d, s[3]));
  }

  static Vec dot(Vec sum, Vec codes, Vec weights) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(weights));
  }
  static Vec load(const uint8_t* from) { return vreinterpretq_s32_u8(vld1q_u8(from)); }
  static void store(uint8_t* to, Vec v) { vst1q_u8(to, vreinterpretq_u8_s32(v)); }
  static Vec broadcast(int32_t v) { return vdupq_n_s32(v); }
  static Vec bytes(int32_t v) { return vreinterpretq_s32_s8(vdupq_n_s8(int8_t(v))); }
  static Vec add(Vec a, Vec b) { return vaddq_s32(a, b); }
  static Vec sub(Vec a, Vec b) { return vsubq_s32(a, b); }
  static Vec mul(Vec a, Vec b) { return vmulq_s32(a, b); }
  static Vec shift_right(Vec a, int by) { return vshlq_s32(a, vdupq_n_s32(-by)); }
  static Vec high(Vec a, Vec b) {
    return vreinterpretq_s32_s8(vmaxq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
  }
  static Vec low(Vec a, Vec b) {
    return vreinterpretq_s32_s8(vminq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
  }

  template <int k>
  static Vec channel(Vec v) {
    return vshrq_n_s32(k == 3 ? v : vshlq_n_s32(v, 24 - 8 * k), 24);
  }

  struct Lookups {  // an index beyond a table of 64 leaves what was found before
    uint8x16x4_t tables[4];

    explicit Lookups(const uint8_t (&bytes)[256]) {
      for (int i = 0; i < 4; ++i) {
        for (int k = 0; k < 4; ++k) tables[i].val[k] = vld1q_u8(bytes + 64 * i + 16 * k);
      }
    }

    Vec operator()(Vec v) const {
      uint8x16_t index = vreinterpretq_u8_s32(v), found = vqtbl4q_u8(tables[0], index);
      for (int i = 1; i < 4; ++i) {
        index = vsubq_u8(index, vdupq_n_u8(64));
        found = vqtbx4q_u8(found, tables[i], index);
      }
      return vreinterpretq_s32_u8(found);
    }
  };

  static Vec fours(const int32_t* v) { return vld1q_s32(v); }
  static Vec interleave8_low(Vec a, Vec b) {
    return vreinterpretq_s32_s8(vzip1q_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
  }
  static Vec interleave8_high(Vec a, Vec b) {
    return vreinterpretq_s32_s8(vzip2q_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
  }
  static Vec interleave16_low(Vec a, Vec b) {
    return vreinterpretq_s32_s16(vzip1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
  }
  static Vec interleave16_high(Vec a, Vec b) {
    return vreinterpretq_s32_s16(vzip2q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
  }
  static Vec join_samples(Vec a, Vec b, Vec c, Vec d) {
    const int16x8_t first = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    const int16x8_t second = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
    return vreinterpretq_s32_s8(vcombine_s8(vqmovn_s16(first), vqmovn_s16(second)));
  }

  static Vec join(Vec a, Vec b, Vec c, Vec d) {
    static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return vreinterpretq_s32_s8(vqtbl1q_s8(vreinterpretq_s8_s32(join_samples(a, b, c, d)), vld1q_u8(order)));
  }
};

}  // namespace

KernelSet neon_set() {
  return Lanes<Dot<Vector>>::set("neon");
}

}  // namespace intrs
