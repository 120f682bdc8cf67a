// Vectors of 512 bits: sixteen samples of four channels. Included by files compiled for AVX-512 with VNNI.
#pragma once

#include <immintrin.h>

#include "dot.h"

namespace intrs {
namespace {

struct Avx512Vector {
  static constexpr int32_t kLanes = 16, kPixels = 6, kTiles = 2, kLeastTiled = 8;
  static constexpr int kTogether = kQuad, kUnroll = 2;
  static constexpr int32_t kDepthwisePixels = 4;
  static constexpr int64_t kTileCycles[2] = {120, 3500};
  static constexpr uint8_t kFlip = 0x80;
  static constexpr bool kByElement = false;
  using Vec = __m512i;
  using Words = Words16;
  static uint32_t marks(Words v) { return _mm512_movepi32_mask((__m512i)v); }

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
            _mm512_srli_epi64(multiplier, 32),
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
    const Vec upper = _mm512_srli_epi64(v, 32);
    Vec even = _mm512_mul_epi32(v, s.multiplier), odd = _mm512_mul_epi32(upper, s.odd_multiplier);
    even = add_first<kRounds>(even, s.even, v), odd = add_first<kRounds>(odd, s.odd, upper);
    const auto mixed = _mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), 0x5555, _mm512_castsi512_ps(even));
    const Vec uppers = _mm512_castps_si512(mixed);
    return _mm512_srav_epi32(kRounds != Rounds::kOnce ? uppers : _mm512_add_epi32(uppers, s.add), s.shift);
  }

  // What Scales says of RESCALE that rounds twice, in 64 bits; the values are the lower halves of v.
  template <Rounds kRounds>
  static Vec add_first(Vec product, Vec add, Vec v) {
    if constexpr (kRounds == Rounds::kOnce) return product;
    const Vec sum = _mm512_add_epi64(product, add);
    if constexpr (kRounds == Rounds::kUp) return sum;
    return _mm512_sub_epi64(sum, _mm512_and_si512(v, _mm512_set1_epi64(0x80000000)));
  }

  template <Rounds kRounds>
  static Vec codes(Vec a, Vec b, Vec c, Vec d, const Scale (&s)[kQuad]) {
    return join(rescale_long<kRounds>(a, s[0]), rescale_long<kRounds>(b, s[1]), rescale_long<kRounds>(c, s[2]),
                rescale_long<kRounds>(d, s[3]));
  }

  template <bool kTwice>
  static Vec rescale_short(Vec v, const Scale& s) {
    Vec even = _mm512_add_epi64(_mm512_mul_epi32(v, s.multiplier), s.even);
    Vec odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(v, 32), s.odd_multiplier), s.odd);
    if constexpr (kTwice) {
      const Vec sign = _mm512_and_si512(v, s.sign);
      even = _mm512_sub_epi64(even, _mm512_and_si512(sign, _mm512_set1_epi64(0xFFFFFFFF)));
      odd = _mm512_sub_epi64(odd, _mm512_srli_epi64(sign, 32));
    }
    even = _mm512_srav_epi64(even, _mm512_and_si512(s.shift, _mm512_set1_epi64(63)));
    odd = _mm512_srav_epi64(odd, _mm512_srli_epi64(s.shift, 32));
    return _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  }

  static Vec fours(const int32_t* v) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(v)));
  }
  static Vec pairs64(int64_t a, int64_t b) { return _mm512_set4_epi64(b, a, b, a); }

  // As _mm512_dpbusd_epi32, for which GCC 12 copies the sum to another register and back.
  static Vec dot(Vec sum, Vec codes, Vec weights) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(weights));
    return sum;
  }
  static Vec mul16(Vec pairs, Vec weights) { return _mm512_madd_epi16(pairs, weights); }
  static Vec dot16(Vec sum, Vec pairs, Vec weights) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(pairs), "v"(weights));
    return sum;
  }
  static Vec load(const uint8_t* from) { return _mm512_loadu_si512(from); }
  static void store(uint8_t* to, Vec v) { _mm512_storeu_si512(to, v); }
  static Vec broadcast(int32_t v) { return _mm512_set1_epi32(v); }
  static Vec bytes(int32_t v) { return _mm512_set1_epi8(char(v)); }
  static Vec add(Vec a, Vec b) { return _mm512_add_epi32(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_epi32(a, b); }
  static Vec four32(Vec a) { return _mm512_slli_epi32(a, 2); }
  static Vec add16(Vec a, Vec b) { return _mm512_add_epi16(a, b); }
  static Vec sub16(Vec a, Vec b) { return _mm512_sub_epi16(a, b); }
  static Vec four16(Vec a) { return _mm512_slli_epi16(a, 2); }
  static Vec even16(Vec bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi16(255)); }
  static Vec odd16(Vec bytes) { return _mm512_srli_epi16(bytes, 8); }
  static Vec mul(Vec a, Vec b) { return _mm512_mullo_epi32(a, b); }
  static Vec shift_right(Vec a, int by) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(by)); }
  static Vec high(Vec a, Vec b) { return _mm512_max_epu8(a, b); }
  static Vec low(Vec a, Vec b) { return _mm512_min_epu8(a, b); }

  template <int k>
  static Vec channel(Vec v) {
    return k == 3 ? _mm512_srli_epi32(v, 24) : _mm512_and_si512(_mm512_srli_epi32(v, 8 * k), _mm512_set1_epi32(255));
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
        rows[row] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(differences)));
      }
    }

    Vec operator()(Vec index) const {
      const Vec step = bytes(16);
      Vec low = index, high = _mm512_xor_si512(index, bytes(-128)), found = bytes(0);
      for (int row = 0; row < 8; ++row) {
        found = _mm512_xor_si512(found, _mm512_shuffle_epi8(rows[row], low));
        found = _mm512_xor_si512(found, _mm512_shuffle_epi8(rows[row + 8], high));
        low = _mm512_subs_epi8(low, step), high = _mm512_subs_epi8(high, step);
      }
      return found;
    }
  };

  static Vec interleave8_low(Vec a, Vec b) { return _mm512_unpacklo_epi8(a, b); }
  static Vec interleave8_high(Vec a, Vec b) { return _mm512_unpackhi_epi8(a, b); }
  static Vec interleave16_low(Vec a, Vec b) { return _mm512_unpacklo_epi16(a, b); }
  static Vec interleave16_high(Vec a, Vec b) { return _mm512_unpackhi_epi16(a, b); }
  static Vec join_samples(Vec a, Vec b, Vec c, Vec d) {
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  }

  static Vec join(Vec a, Vec b, Vec c, Vec d) {
    const Vec order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(join_samples(a, b, c, d), order);
  }
};

}  // namespace
}  // namespace intrs
