// Vectors of 128 bits on ARM: four samples of four channels, stored as signed bytes. Included by the files of both
// sets.
#pragma once

#include <arm_neon.h>

#include "lanes.h"

namespace intrs {
namespace {

struct NeonVector : FourBlocks {
  static constexpr int32_t kLanes = 4;
  static constexpr uint8_t kFlip = 0;
  static constexpr bool kByElement = true;
  using Vec = int32x4_t;

  struct Scale {  // lane i has the scale of channel i
    Vec multiplier;
    Vec half_add, shift;              // if long_shift: what is added, in units of 2^31; 32 less the shift
    int64x2_t add[2], long_shift[2];  // else: the same in 64 bits
    uint32x2_t sign[2];               // if twice: Scales::sign
    bool is_long, twice;
  };

  static Scale scale(const Scales& s) {
    const Vec shift = vnegq_s32(vld1q_s32(s.shift));
    const uint32x4_t sign = vreinterpretq_u32_s32(vld1q_s32(s.sign));
    const int64x2_t low = vld1q_s64(s.add), high = vld1q_s64(s.add + 2);
    return {vld1q_s32(s.multiplier),
            vcombine_s32(vshrn_n_s64(low, 31), vshrn_n_s64(high, 31)),
            shift,
            {low, high},
            {vmovl_s32(vget_low_s32(shift)), vmovl_s32(vget_high_s32(shift))},
            {vget_low_u32(sign), vget_high_u32(sign)},
            s.long_shift,
            s.twice};
  }

  static Vec rescale(Vec v, const Scale& s) {
    if (s.is_long) return s.twice ? rescale_long<Rounds::kTwice>(v, s) : rescale_long<Rounds::kOnce>(v, s);
    return s.twice ? rescale_short<true>(v, s) : rescale_short<false>(v, s);
  }

  // A shift of more than 32 begins with one of 31, which SQDMULH does: it doubles a product and takes the upper half.
  // What is added is a multiple of 2^31 then, so nothing below that matters, and SHADD, which adds and halves without
  // overflow, does one more. SQRDMULH adds 2^30 to the product before its shift; where RESCALE that rounds twice takes
  // 2^30 away, for negative values, the upper half is one less. Neither saturates: no multiplier is -2^31.
  // See proofs/check_rescale.py.
  template <Rounds kRounds>
  static Vec rescale_long(Vec v, const Scale& s) {
    Vec upper = kRounds == Rounds::kOnce ? vqdmulhq_s32(v, s.multiplier) : vqrdmulhq_s32(v, s.multiplier);
    if constexpr (kRounds == Rounds::kTwice) upper = vsraq_n_s32(upper, v, 31);
    return vshlq_s32(vhaddq_s32(upper, s.half_add), s.shift);
  }

  template <bool kTwice>
  static Vec rescale_short(Vec v, const Scale& s) {
    const int64x2_t low = rescale_half<kTwice>(vget_low_s32(v), vget_low_s32(s.multiplier), s, 0);
    const int64x2_t high = rescale_half<kTwice>(vget_high_s32(v), vget_high_s32(s.multiplier), s, 1);
    return vcombine_s32(vmovn_s64(low), vmovn_s64(high));
  }

  template <bool kTwice>
  static int64x2_t rescale_half(int32x2_t v, int32x2_t multiplier, const Scale& s, int half) {
    int64x2_t sum = vmlal_s32(s.add[half], v, multiplier);
    if constexpr (kTwice) {
      const uint32x2_t sign = vand_u32(vreinterpret_u32_s32(v), s.sign[half]);
      sum = vreinterpretq_s64_u64(vsubw_u32(vreinterpretq_u64_s64(sum), sign));
    }
    return vshlq_s64(sum, s.long_shift[half]);
  }

  template <Rounds kRounds>
  static Vec codes(Vec a, Vec b, Vec c, Vec d, const Scale (&s)[kQuad]) {
    return join(rescale_long<kRounds>(a, s[0]), rescale_long<kRounds>(b, s[1]), rescale_long<kRounds>(c, s[2]),
                rescale_long<kRounds>(d, s[3]));
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
}  // namespace intrs
