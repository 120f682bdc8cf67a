// WebAssembly with vectors of 128 bits: four samples of four channels, stored as signed bytes. Products are pairs of 16
// bits (i32x4.dot_i16x8_s). Only instructions that give the same bits on every machine: none of relaxed SIMD.
#include <wasm_simd128.h>

#include "lanes.h"

namespace intrs {
namespace {

struct Vector : FourBlocks {
  static constexpr int32_t kLanes = 4;
  static constexpr uint8_t kFlip = 0;
  static constexpr bool kByElement = false;
  static constexpr int32_t kPixels = 2, kTiles = 4, kLeastTiled = 8;
  static constexpr int kTogether = 2, kUnroll = 1;  // as many sums as V8 keeps in the 16 registers of x86-64
  static constexpr int32_t kDepthwisePixels = 2;
  static constexpr int64_t kTileCycles[2] = {231, 4600};
  using Vec = v128_t;

  static uint32_t marks(Words v) { return uint32_t(wasm_i32x4_bitmask(Vec(v))); }

  // --- RESCALE ----------------------------------------------------------------------------------------------------

  // Lane i has the scale of channel i. Shifts of a vector are the same in all lanes here, so where they differ there
  // is a product with a power of two before one that is the same.
  struct Scale {
    Vec multiplier;
    Vec add;           // if long_shift and not twice: what is added to the upper halves of the products
    Vec add64[2];      // else: what is added to the products of lanes 0 and 1, and of 2 and 3
    Vec power;         // if long_shift: 2^(31 - shift)
    Vec sign;          // if twice: Scales::sign
    int32_t shift[4];  // less 32 if long_shift
    bool is_long, twice;
  };

  static Scale scale(const Scales& s) {
    Scale scale = {fours(s.multiplier), fours(s.upper_add), {}, {}, fours(s.sign), {}, s.long_shift, s.twice};
    int32_t powers[kQuad] = {};
    for (int k = 0; k < kQuad; ++k) {
      scale.shift[k] = s.shift[k];
      if (s.long_shift) powers[k] = s.shift[k] < 32 ? int32_t(1u << (31 - s.shift[k])) : 0;
    }
    scale.power = fours(powers);
    for (int half = 0; half < 2; ++half) scale.add64[half] = wasm_v128_load(s.add + 2 * half);
    return scale;
  }

  static Vec rescale(Vec v, const Scale& s) {
    if (s.is_long) return s.twice ? rescale_long<Rounds::kTwice>(v, s) : rescale_long<Rounds::kOnce>(v, s);
    return s.twice ? rescale_short<true>(v, s) : rescale_short<false>(v, s);
  }

  // The products, with what RESCALE that rounds twice adds and takes away.
  template <bool kAll, bool kTwice>
  static INTRS_INLINE void products(Vec v, const Scale& s, Vec& low, Vec& high) {
    low = wasm_i64x2_extmul_low_i32x4(v, s.multiplier), high = wasm_i64x2_extmul_high_i32x4(v, s.multiplier);
    if constexpr (kAll) low = wasm_i64x2_add(low, s.add64[0]), high = wasm_i64x2_add(high, s.add64[1]);
    if constexpr (kTwice) {
      const Vec sign = wasm_v128_and(v, s.sign);
      low = wasm_i64x2_sub(low, wasm_u64x2_extend_low_u32x4(sign));
      high = wasm_i64x2_sub(high, wasm_u64x2_extend_high_u32x4(sign));
    }
  }

  static Vec lower_halves(Vec low, Vec high) { return wasm_i32x4_shuffle(low, high, 0, 2, 4, 6); }
  static Vec upper_halves(Vec low, Vec high) { return wasm_i32x4_shuffle(low, high, 1, 3, 5, 7); }

  // A shift of more than 32 takes the upper halves of the products and goes on from there in 32 bits: what is added is
  // a multiple of 2^32 then, unless RESCALE rounds twice.
  template <Rounds kRounds>
  static INTRS_INLINE Vec upper(Vec v, const Scale& s) {
    Vec low, high;
    products<kRounds != Rounds::kOnce, kRounds == Rounds::kTwice>(v, s, low, high);
    const Vec halves = upper_halves(low, high);
    return kRounds != Rounds::kOnce ? halves : wasm_i32x4_add(halves, s.add);
  }

  template <Rounds kRounds>
  static Vec rescale_long(Vec v, const Scale& s) {
    const Vec halves = upper<kRounds>(v, s);
    return lower_halves(wasm_i64x2_shr(wasm_i64x2_extmul_low_i32x4(halves, s.power), 31),
                        wasm_i64x2_shr(wasm_i64x2_extmul_high_i32x4(halves, s.power), 31));
  }

  template <bool kTwice>
  static Vec rescale_short(Vec v, const Scale& s) {
    Vec low, high;
    products<true, kTwice>(v, s, low, high);
    return lower_halves(shift64(low, s.shift), shift64(high, s.shift + 2));
  }

  static Vec shift64(Vec v, const int32_t* by) {
    return by[0] == by[1]
               ? wasm_i64x2_shr(v, uint32_t(by[0]))
               : wasm_i64x2_make(wasm_i64x2_extract_lane(v, 0) >> by[0], wasm_i64x2_extract_lane(v, 1) >> by[1]);
  }

  template <Rounds kRounds>
  static INTRS_INLINE Vec rescale_same(Vec v, const Scale& s) {  // shifts of all lanes are the same
    return wasm_i32x4_shr(upper<kRounds>(v, s), uint32_t(s.shift[0]));
  }

  template <Rounds kRounds>
  static INTRS_INLINE Vec codes(Vec a, Vec b, Vec c, Vec d, const Scale (&s)[kQuad]) {
    return join(rescale_same<kRounds>(a, s[0]), rescale_same<kRounds>(b, s[1]), rescale_same<kRounds>(c, s[2]),
                rescale_same<kRounds>(d, s[3]));
  }

  // --- vectors ----------------------------------------------------------------------------------------------------

  static Vec load(const uint8_t* from) { return wasm_v128_load(from); }
  static void store(uint8_t* to, Vec v) { wasm_v128_store(to, v); }
  static Vec fours(const int32_t* v) { return wasm_v128_load(v); }
  static Vec broadcast(int32_t v) { return wasm_i32x4_splat(v); }
  static Vec bytes(int32_t v) { return wasm_i8x16_splat(int8_t(v)); }
  static Vec add(Vec a, Vec b) { return wasm_i32x4_add(a, b); }
  static Vec sub(Vec a, Vec b) { return wasm_i32x4_sub(a, b); }
  static Vec mul(Vec a, Vec b) { return wasm_i32x4_mul(a, b); }
  static Vec shift_right(Vec a, int by) { return wasm_i32x4_shr(a, uint32_t(by)); }
  static Vec four32(Vec a) { return wasm_i32x4_shl(a, 2); }
  static Vec high(Vec a, Vec b) { return wasm_i8x16_max(a, b); }
  static Vec low(Vec a, Vec b) { return wasm_i8x16_min(a, b); }

  template <int k>
  static Vec channel(Vec v) {
    return wasm_i32x4_shr(wasm_i32x4_shl(v, 24 - 8 * k), 24);
  }

  struct Lookups {  // an index beyond a row of 16 finds 0
    Vec rows[16];

    explicit Lookups(const uint8_t (&bytes)[256]) {
      for (int row = 0; row < 16; ++row) rows[row] = wasm_v128_load(bytes + 16 * row);
    }

    Vec operator()(Vec index) const {
      Vec found = bytes(0);
      for (const Vec& row : rows) {
        found = wasm_v128_or(found, wasm_i8x16_swizzle(row, index));
        index = wasm_i8x16_sub(index, bytes(16));
      }
      return found;
    }
  };

  static Vec interleave8_low(Vec a, Vec b) {
    return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static Vec interleave8_high(Vec a, Vec b) {
    return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  static Vec interleave16_low(Vec a, Vec b) { return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static Vec interleave16_high(Vec a, Vec b) { return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
  static Vec join_samples(Vec a, Vec b, Vec c, Vec d) {
    return wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(a, b), wasm_i16x8_narrow_i32x4(c, d));
  }
  static Vec join(Vec a, Vec b, Vec c, Vec d) {
    const Vec samples = join_samples(a, b, c, d);
    return wasm_i8x16_shuffle(samples, samples, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  }

  // --- products of 16 bits: channels 0 and 2 of a lane, and 1 and 3 -----------------------------------------------

  static Vec even16(Vec bytes) { return wasm_i16x8_shr(wasm_i16x8_shl(bytes, 8), 8); }
  static Vec odd16(Vec bytes) { return wasm_i16x8_shr(bytes, 8); }
  static Vec add16(Vec a, Vec b) { return wasm_i16x8_add(a, b); }
  static Vec sub16(Vec a, Vec b) { return wasm_i16x8_sub(a, b); }
  static Vec four16(Vec a) { return wasm_i16x8_shl(a, 2); }
  static Vec mul16(Vec pairs, Vec weights) { return wasm_i32x4_dot_i16x8(pairs, weights); }
  static Vec dot16(Vec sum, Vec pairs, Vec weights) { return wasm_i32x4_add(sum, mul16(pairs, weights)); }

  static int32_t pair(int8_t a, int8_t b) {
    return int32_t(uint32_t(uint16_t(int16_t{a})) | uint32_t(uint16_t(int16_t{b})) << 16);
  }

  // --- depthwise layers: four taps of a channel in a lane ---------------------------------------------------------

  struct Taps {
    Vec even, odd;
  };
  struct TapWeights {
    int32_t even[kQuad], odd[kQuad];
  };
  static TapWeights tap_weights(const int8_t (&taps)[kQuad][4]) {
    TapWeights weights;
    for (int k = 0; k < kQuad; ++k) {
      weights.even[k] = pair(taps[k][0], taps[k][2]), weights.odd[k] = pair(taps[k][1], taps[k][3]);
    }
    return weights;
  }
  static Taps load_taps(const TapWeights& weights) { return {fours(weights.even), fours(weights.odd)}; }
  static Taps taps(Vec bytes) { return {even16(bytes), odd16(bytes)}; }
  static Vec dot_taps(Vec sum, const Taps& taps, const Taps& weights) {
    return dot16(dot16(sum, taps.even, weights.even), taps.odd, weights.odd);
  }

  // --- other layers: every vector is widened, then multiplies the weights of four output channels -----------------

  struct Step {
    int32_t offset;
    TapWeights weights;
  };
  using Strips = std::vector<Step>;

  static Strips strips(const Quad& quad) {
    Strips strips;
    for (const QuadStep& step : merged(quad)) {
      int8_t weights[kQuad][4];
      std::memcpy(weights, step.weights, sizeof weights);
      strips.push_back({step.offset, tap_weights(weights)});
    }
    return strips;
  }

  // Hundredths of instructions, RESCALE included.
  static int64_t cycles(const Quad& quad) {
    int64_t products = 0;
    for (const auto& entries : quad) products += int64_t(entries.size());
    return 500 * products + 4000;
  }

  template <int P>
  static INTRS_INLINE void run(const Strips& strips, const int32_t (&start)[kQuad], const uint8_t* from, int64_t step,
                               Vec (&sums)[P][kQuad]) {
    each<P>([&](auto p) INTRS_BODY { each<kQuad>([&](auto k) INTRS_BODY { sums[p][k] = broadcast(start[k]); }); });
    for (const Step& next : strips) {
      Taps codes[P];
      each<P>([&](auto p) INTRS_BODY { codes[p] = taps(load(from + next.offset + p * step)); });
      each<kQuad>([&](auto k) INTRS_BODY {
        const Taps weights = {broadcast(next.weights.even[k]), broadcast(next.weights.odd[k])};
        each<P>([&](auto p) INTRS_BODY { sums[p][k] = dot_taps(sums[p][k], codes[p], weights); });
      });
    }
  }
};

}  // namespace

KernelSet wasm_set() {
  return Lanes<Vector>::set("wasm");
}

}  // namespace intrs
