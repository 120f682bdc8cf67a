// Vectors of 256 bits: eight samples of four channels. Included by files compiled for AVX2.
#pragma once

#include <immintrin.h>

#include "lanes.h"

namespace intrs {
namespace {

struct Avx2Vector {
  static constexpr int32_t kLanes = 8;
  static constexpr uint8_t kFlip = 0x80;
  using Vec = __m256i;
  using Words = Words8;

  // (product + add) >> shift for a signed 64-bit product. AVX2 has no arithmetic 64-bit shift: add 2^63, which makes
  // the sum unsigned, and take 2^(63 - shift) off the result.
  struct Scale {
    Vec multiplier, add, off;
    __m128i even, odd;
    bool long_shift;
  };

  static Scale scale(int32_t multiplier, int shift, int32_t zero_point) {
    const uint64_t add = (uint64_t{1} << (shift - 1)) + (uint64_t(int64_t{zero_point}) << shift) + (uint64_t{1} << 63);
    const bool long_shift = shift >= 32;
    const auto off = int32_t(uint32_t(uint64_t{1} << (63 - shift)));
    return {_mm256_set1_epi32(multiplier),
            _mm256_set1_epi64x(int64_t(add)),
            _mm256_set1_epi32(off),
            _mm_cvtsi32_si128(shift),
            _mm_cvtsi32_si128(long_shift ? shift - 32 : shift),
            long_shift};
  }

  static Vec rescale(Vec v, const Scale& s) {
    Vec even = _mm256_add_epi64(_mm256_mul_epi32(v, s.multiplier), s.add);
    Vec odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(v, 32), s.multiplier), s.add);
    even = _mm256_srl_epi64(even, s.even);
    odd = _mm256_srl_epi64(odd, s.odd);
    if (!s.long_shift) odd = _mm256_slli_epi64(odd, 32);
    return _mm256_sub_epi32(_mm256_blend_epi32(even, odd, 0xAA), s.off);
  }

  static Vec load(const uint8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const Vec*>(from)); }
  static void store(uint8_t* to, Vec v) { _mm256_storeu_si256(reinterpret_cast<Vec*>(to), v); }
  static Vec broadcast(int32_t v) { return _mm256_set1_epi32(v); }
  static Vec bytes(int32_t v) { return _mm256_set1_epi8(char(v)); }
  static Vec add(Vec a, Vec b) { return _mm256_add_epi32(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_epi32(a, b); }
  static Vec four32(Vec a) { return _mm256_slli_epi32(a, 2); }
  static Vec add16(Vec a, Vec b) { return _mm256_add_epi16(a, b); }
  static Vec sub16(Vec a, Vec b) { return _mm256_sub_epi16(a, b); }
  static Vec mul16(Vec pairs, Vec weights) { return _mm256_madd_epi16(pairs, weights); }
  static Vec four16(Vec a) { return _mm256_slli_epi16(a, 2); }
  static Vec even16(Vec bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi16(255)); }
  static Vec odd16(Vec bytes) { return _mm256_srli_epi16(bytes, 8); }
  static Vec mul(Vec a, Vec b) { return _mm256_mullo_epi32(a, b); }
  static Vec shift_right(Vec a, int by) { return _mm256_sra_epi32(a, _mm_cvtsi32_si128(by)); }
  static Vec high(Vec a, Vec b) { return _mm256_max_epu8(a, b); }
  static Vec low(Vec a, Vec b) { return _mm256_min_epu8(a, b); }

  template <int k>
  static Vec channel(Vec v) {
    return k == 3 ? _mm256_srli_epi32(v, 24) : _mm256_and_si256(_mm256_srli_epi32(v, 8 * k), _mm256_set1_epi32(255));
  }

  static Vec join(Vec a, Vec b, Vec c, Vec d) {
    const Vec order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                       0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(_mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)), order);
  }
};

}  // namespace
}  // namespace intrs
