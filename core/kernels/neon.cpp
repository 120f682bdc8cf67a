// ARM with the dot product extension: four samples a vector, SDOT on signed bytes.
#include <arm_neon.h>

#include "dot.h"

namespace intrs {
namespace {

struct Vector {
  static constexpr int32_t kLanes = 4, kPixels = 6, kPixelsByChannel = 12, kTiles = 0;
  static constexpr uint8_t kFlip = 0;
  using Vec = int32x4_t;
  using Words = Words4;

  struct Scale {
    int32x2_t multiplier;
    int64x2_t add, shift;
  };

  static Scale scale(int32_t multiplier, int shift, int32_t zero_point) {
    const int64_t add = (int64_t{1} << (shift - 1)) + int64_t{zero_point} * (int64_t{1} << shift);
    return {vdup_n_s32(multiplier), vdupq_n_s64(add), vdupq_n_s64(-shift)};
  }

  static Vec rescale(Vec v, const Scale& s) {
    const int64x2_t low = vshlq_s64(vmlal_s32(s.add, vget_low_s32(v), s.multiplier), s.shift);
    const int64x2_t high = vshlq_s64(vmlal_s32(s.add, vget_high_s32(v), s.multiplier), s.shift);
    return vcombine_s32(vmovn_s64(low), vmovn_s64(high));
  }

  static Vec dot(Vec sum, Vec codes, Vec weights) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(weights));
  }
  static Vec load(const uint8_t* from) { return vreinterpretq_s32_u8(vld1q_u8(from)); }
  static void store(uint8_t* to, Vec v) { vst1q_u8(to, vreinterpretq_u8_s32(v)); }
  static Vec broadcast(int32_t v) { return vdupq_n_s32(v); }
  static Vec bytes(int32_t v) { return vreinterpretq_s32_s8(vdupq_n_s8(int8_t(v))); }
  static Vec add(Vec a, Vec b) { return vaddq_s32(a, b); }
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

  static Vec join(Vec a, Vec b, Vec c, Vec d) {
    const int16x8_t first = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    const int16x8_t second = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
    const int8x16_t packed = vcombine_s8(vqmovn_s16(first), vqmovn_s16(second));
    static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return vreinterpretq_s32_s8(vqtbl1q_s8(packed, vld1q_u8(order)));
  }
};

}  // namespace

KernelSet neon_set() {
  return Lanes<Dot<Vector>>::set("neon");
}

}  // namespace intrs
