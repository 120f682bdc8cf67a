// Vectors of 256 bits: eight samples of four channels. Included by files compiled for AVX2.
#pragma once

#include <immintrin.h>

#include "lanes.h"

namespace intrs {
namespace {

struct Avx2Vector {
  static constexpr int32_t kLanes = 8;
  static constexpr uint8_t kFlip = 0x80;
  static constexpr bool kByElement = false;
  using Vec = __m256i;
  using Words = Words8;
  static uint32_t marks(Words v) { return uint32_t(_mm256_movemask_ps((__m256)v)); }

  // Lane i has the scale of channel i % 4. A shift of more than 32 takes the upper halves of the products and goes on
  // from there in 32 bits: what is added is a multiple of 2^32 then, unless RESCALE rounds twice.
  struct Scale {
    Vec multiplier, odd_multiplier;  // the second for the upper halves of 64-bit lanes, in their lower halves
    Vec add, shift;                  // if long_shift: what is added to the upper halves; shifts, less 32 then
    Vec even, odd;                   // else, or if twice: what is added to even and to odd lanes
    Vec sign;                        // if twice: Scales::sign
    bool long_shift, twice;
  };

  static Scale scale(const Scales& s) {
    const Vec multiplier = fours(s.multiplier);
    return {multiplier,
            _mm256_srli_epi64(multiplier, 32),
            fours(s.upper_add),
            fours(s.shift),
            pairs64(s.add[0], s.add[2]),
            pairs64(s.add[1], s.add[3]),
            fours(s.sign),
            s.long_shift,
            s.twice};
  }

  static Vec rescale(Vec v, const Scale& s) {
    if (s.long_shift) return s.twice ? rescale_long<Rounds::kTwice>(v, s) : rescale_long<Rounds::kOnce>(v, s);
    return s.twice ? rescale_short<true>(v, s) : rescale_short<false>(v, s);
  }

  template <Rounds kRounds>
  static Vec rescale_long(Vec v, const Scale& s) {
    const Vec upper = _mm256_srli_epi64(v, 32);
    Vec even = _mm256_mul_epi32(v, s.multiplier), odd = _mm256_mul_epi32(upper, s.odd_multiplier);
    even = add_first<kRounds>(even, s.even, v), odd = add_first<kRounds>(odd, s.odd, upper);
    return upper_shifted<kRounds>(_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA), s);
  }

  // What Scales says of RESCALE that rounds twice, in 64 bits; the values are the lower halves of v.
  template <Rounds kRounds>
  static Vec add_first(Vec product, Vec add, Vec v) {
    if constexpr (kRounds == Rounds::kOnce) return product;
    const Vec sum = _mm256_add_epi64(product, add);
    if constexpr (kRounds == Rounds::kUp) return sum;
    return _mm256_sub_epi64(sum, _mm256_and_si256(v, _mm256_set1_epi64x(0x80000000)));
  }

  template <Rounds kRounds>
  static Vec upper_shifted(Vec upper, const Scale& s) {
    return _mm256_srav_epi32(kRounds != Rounds::kOnce ? upper : _mm256_add_epi32(upper, s.add), s.shift);
  }

  // The same for a scale that is the same in all lanes. The upper halves come out in the order 0 2 1 3 of each 128
  // bits, which takes one operation less; `codes` puts the bytes in order.
  template <Rounds kRounds>
  static Vec rescale_mixed(Vec v, const Scale& s) {
    const Vec upper = _mm256_srli_epi64(v, 32);
    Vec even = _mm256_mul_epi32(v, s.multiplier), odd = _mm256_mul_epi32(upper, s.multiplier);
    even = add_first<kRounds>(even, s.even, v), odd = add_first<kRounds>(odd, s.even, upper);
    const auto mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd), 0xDD);
    return upper_shifted<kRounds>(_mm256_castps_si256(mixed), s);
  }

  template <Rounds kRounds>
  static Vec codes(Vec a, Vec b, Vec c, Vec d, const Scale (&s)[kQuad]) {
    const Vec order = _mm256_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15,  //
                                       0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(join_samples(rescale_mixed<kRounds>(a, s[0]), rescale_mixed<kRounds>(b, s[1]),
                                            rescale_mixed<kRounds>(c, s[2]), rescale_mixed<kRounds>(d, s[3])),
                               order);
  }

  template <bool kTwice>
  static Vec rescale_short(Vec v, const Scale& s) {
    Vec even = _mm256_add_epi64(_mm256_mul_epi32(v, s.multiplier), s.even);
    Vec odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(v, 32), s.odd_multiplier), s.odd);
    if constexpr (kTwice) {
      const Vec sign = _mm256_and_si256(v, s.sign);
      even = _mm256_sub_epi64(even, _mm256_and_si256(sign, _mm256_set1_epi64x(0xFFFFFFFF)));
      odd = _mm256_sub_epi64(odd, _mm256_srli_epi64(sign, 32));
    }
    even = shift_right64(even, _mm256_and_si256(s.shift, _mm256_set1_epi64x(63)));
    odd = shift_right64(odd, _mm256_srli_epi64(s.shift, 32));
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  }

  // AVX2 has no arithmetic 64-bit shift: the sign is flipped, and taken off again where the shift has moved it to.
  static Vec shift_right64(Vec v, Vec by) {
    const Vec sign = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_xor_si256(v, sign), by), _mm256_srlv_epi64(sign, by));
  }

  static Vec fours(const int32_t* v) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(v)));
  }
  static Vec pairs64(int64_t a, int64_t b) { return _mm256_setr_epi64x(a, b, a, b); }

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

  // Sixteen rows of sixteen bytes, each XORed with the row before it. VPSHUFB gives 0 for an index with its highest bit
  // set, so subtracting 16 again and again, saturated, leaves out the rows beyond the index; what is left of them gives
  // the index's own row. Both halves of the rows are done that way, the upper one with the highest bit flipped.
  struct Lookups {
    Vec rows[16];

    explicit Lookups(const uint8_t (&bytes)[256]) {
      for (int row = 0; row < 16; ++row) {
        uint8_t differences[16];
        for (int i = 0; i < 16; ++i) {
          differences[i] = uint8_t(bytes[16 * row + i] ^ (row % 8 ? bytes[16 * row + i - 16] : 0));
        }
        rows[row] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(differences)));
      }
    }

    Vec operator()(Vec index) const {
      const Vec step = bytes(16);
      Vec low = index, high = _mm256_xor_si256(index, bytes(-128)), found = bytes(0);
      for (int row = 0; row < 8; ++row) {
        found = _mm256_xor_si256(found, _mm256_shuffle_epi8(rows[row], low));
        found = _mm256_xor_si256(found, _mm256_shuffle_epi8(rows[row + 8], high));
        low = _mm256_subs_epi8(low, step), high = _mm256_subs_epi8(high, step);
      }
      return found;
    }
  };

  static Vec interleave8_low(Vec a, Vec b) { return _mm256_unpacklo_epi8(a, b); }
  static Vec interleave8_high(Vec a, Vec b) { return _mm256_unpackhi_epi8(a, b); }
  static Vec interleave16_low(Vec a, Vec b) { return _mm256_unpacklo_epi16(a, b); }
  static Vec interleave16_high(Vec a, Vec b) { return _mm256_unpackhi_epi16(a, b); }
  static Vec join_samples(Vec a, Vec b, Vec c, Vec d) {
    return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  }

  static Vec join(Vec a, Vec b, Vec c, Vec d) {
    const Vec order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                       0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(join_samples(a, b, c, d), order);
  }
};

}  // namespace
}  // namespace intrs
