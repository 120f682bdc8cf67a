// Convolutions of 3x3 taps and stride 1 by Winograd's F(4x4, 3x3), exact in integers: 36 products of 16 bits instead
// of 144 of 8 bits for a tile of 4x4 outputs.
//
// With the usual matrices B, G, A (Lavin and Gray 2016) a tile is A' [ (G g G') * (B' d B) ] A. The fractions of G are
// cleared by whole factors, a different one for each row, so that all three steps are in integers:
//
//   B' =  4  0 -5  0  1  0     G =  6  0  0     A' =  1  4  4  1  1  0    24 y0
//         0 -4 -4  1  1  0         -1 -1 -1           0  2 -2  1 -1  0    12 y1
//         0  4 -4 -1  1  0         -1  1 -1           0  1  1  1  1  0     6 y2
//         0 -2 -1  2  1  0          1  2  4           0  1 -1  2 -2  1     6 y3
//         0  2 -1 -2  1  0          1 -2  4
//         0  4  0 -5  0  1          0  0  6
//
// Bytes d in 0..255 give |B' d B| <= 68 * 255 = 17340 and weights give |G g G'| <= 49 * 128 = 6272: both fit 16 bits,
// and a pair of products fits 32. All sums are modulo 2^32, where nothing is lost: what comes out is 9 * 2^s * acc
// modulo 2^32 with s <= 6, so 2^s * acc after a multiplication by 9^-1 modulo 2^32, so acc itself after an arithmetic
// shift by s, as long as |acc| < 2^25. `fits` proves that from weights and bias. The second column of A' is a sixth of
// the factors, so what is to be added to every output is added 36 times to the one product in row and column 1.
//
// Signed bytes give less: |B' d B| <= 100 * 128 = 12800.
//
// A vector of four channels of bytes splits into two of two channels of 16 bits: V::even16 has channels 0 and 2, odd16
// 1 and 3. On x86 these are a mask and a shift, and the pairs lie side by side: such a vector times a pair of weights,
// broadcast, is VPMADDWD or VPDPWSSD. On ARM one table lookup puts the samples of channel 0 before those of channel 2,
// and each half times a weight, by element, is SMLAL.
#pragma once

#include "entries.h"

namespace intrs {
namespace {

constexpr int32_t kTile = 4, kPatch = 6, kPositions = kPatch * kPatch;  // outputs, inputs of a tile, a side
constexpr int32_t kBlockTiles = 4, kBlockQuads = 4;                     // what is done at once
constexpr uint32_t kNinth = 954437177;                                  // 9^-1 modulo 2^32
constexpr int kTwos[kTile] = {3, 2, 1, 1};                              // powers of two in 24, 12, 6, 6
static_assert(9 * kNinth == 1, "kNinth inverts 9");

// A row of G times three values.
inline void transform_weights(const int32_t* g, int32_t step, int32_t* out, int32_t out_step) {
  const int32_t a = g[0], b = g[step], c = g[2 * step];
  const int32_t rows[kPatch] = {6 * a, -a - b - c, -a + b - c, a + 2 * b + 4 * c, a - 2 * b + 4 * c, 6 * c};
  for (int32_t i = 0; i < kPatch; ++i) out[i * out_step] = rows[i];
}

template <class V, int kAtOnce>
struct Winograd {
  using Vec = typename V::Vec;
  static constexpr int64_t kBytes = V::kLanes * 4;  // of a vector
  static constexpr int kUnroll = V::kUnroll, kTogether = V::kTogether;
  static constexpr int64_t kPairBytes = kBlockTiles * kBytes;
  static_assert(kBlockTiles % kAtOnce == 0, "a block is whole products");
  static_assert(kQuad % kTogether == 0 && (kTogether == kQuad || !V::kByElement), "a quad is whole products");

  // --- packing --------------------------------------------------------------------------------------------------

  static bool suits(const Conv& op, const Shape& out) {
    const Window& w = op.window;
    return w.height == 3 && w.width == 3 && w.stride_y == 1 && w.stride_x == 1 && w.dilation_y == 1 &&
           w.dilation_x == 1 && op.groups == 1 && !op.wide && op.channels_per_group >= V::kLeastTiled &&
           out.channels >= V::kLeastTiled && fits(op, out.channels);
  }

  // About how long an output pixel takes: products, transforms of the input and of the output, RESCALE.
  static int64_t cycles(const Conv& op, int32_t channels) {
    const int64_t in = quads(op.channels_per_group), out = quads(channels);
    return V::kTileCycles[0] * in * out * 2 * kQuad * kPositions / (kTile * kTile) + V::kTileCycles[1] * (in + out);
  }

  // |acc| < 2^25 for every output channel, whatever the bytes. It is the same however they are stored: here, unsigned.
  static bool fits(const Conv& op, int32_t channels) {
    const size_t count = op.weights.size() / size_t(channels);
    for (size_t o = 0; o < size_t(channels); ++o) {
      int64_t positive = 0, negative = 0;
      for (size_t i = 0; i < count; ++i) {
        const int64_t w = op.weights[o * count + i];
        (w > 0 ? positive : negative) += w;
      }
      const int64_t start = start_value(op, int32_t(o), channels, 0x80);
      if (std::max(start + 255 * positive, -start - 255 * negative) >= 1 << 25) return false;
    }
    return true;
  }

  static int32_t pairs(int32_t channels) { return 2 * quads(channels); }

  // From one position of `inputs` to the next. The odd line keeps them from competing for the same lines of a cache.
  static int64_t position_step(int32_t channels) { return kPairBytes * pairs(channels) + 64; }

  static int64_t input_bytes(int32_t channels) { return kPositions * position_step(channels); }

  static int64_t scratch(int32_t channels) {
    return input_bytes(channels) + kPositions * kBlockTiles * kBytes * kBlockQuads * kQuad;
  }

  // Pairs of weights of 16 bits, [position][quad of outputs][pair of inputs][output of the quad].
  static std::vector<int32_t> weights(const Conv& op, int32_t channels) {
    const int32_t inputs = op.channels_per_group;
    const auto out_quads = size_t(quads(channels)), in_pairs = size_t(pairs(inputs));
    std::vector<int32_t> all(kPositions * out_quads * in_pairs * kQuad);
    for (int32_t o = 0; o < channels; ++o) {
      for (int32_t c = 0; c < inputs; ++c) {
        int32_t g[9], half[3 * kPatch], full[kPositions];
        for (int32_t tap = 0; tap < 9; ++tap)
          g[tap] = op.weights[(size_t(o) * 9 + size_t(tap)) * size_t(inputs) + size_t(c)];
        for (int32_t i = 0; i < 3; ++i) transform_weights(g + 3 * i, 1, half + kPatch * i, 1);
        for (int32_t i = 0; i < kPatch; ++i) transform_weights(half + i, kPatch, full + i, kPatch);
        const auto pair = size_t(c / 4 * 2 + c % 2);
        for (size_t position = 0; position < kPositions; ++position) {
          int32_t& at = all[((position * out_quads + size_t(o / kQuad)) * in_pairs + pair) * kQuad + size_t(o % kQuad)];
          at = int32_t(uint32_t(at) | (uint32_t(full[position]) & 0xffff) << c % 4 / 2 * 16);
        }
      }
    }
    return all;
  }

  // --- running: tiles are numbered row by row -------------------------------------------------------------------

  Winograd(const Conv& op, const std::vector<int32_t>& weights_, const In& in_, const Out& out_, uint8_t* scratch)
      : in(in_),
        out(out_),
        top(op.window.top),
        left(op.window.left),
        across((out.shape.width - 1) / kTile + 1),
        count(across * ((out.shape.height - 1) / kTile + 1)),
        in_pairs(pairs(in.shape.channels)),
        out_quads(quads(out.shape.channels)),
        tile_weights(weights_.data()),
        inputs(scratch),
        products(scratch + input_bytes(in.shape.channels)) {}

  const In in;
  const Out out;
  const int32_t top, left, across, count, in_pairs, out_quads;
  const int32_t* const tile_weights;
  uint8_t* const inputs;    // [position][pair of channels][slot]
  uint8_t* const products;  // [quad slot][slot][output of the quad][position]

  int32_t first_row(int32_t tile) const { return tile / across * kTile; }
  int32_t first_column(int32_t tile) const { return tile % across * kTile; }

  // B' d B of tiles first .. last - 1, each into its slot.
  void transform_inputs(int32_t first, int32_t last) const {
    for (int32_t tile = first, next; tile < last; tile = next) {
      next = std::min(last, (tile / across + 1) * across);
      transform_row(tile, next - tile, tile - first);
    }
  }

  // The same of neighbours in a row, whose patches share columns. Rows and columns past the last that an output needs
  // are read again in its place.
  void transform_row(int32_t tile, int32_t tiles, int32_t slot) const {
    const uint8_t* rows[kPatch];
    int64_t columns[kBlockTiles * kTile + 2];
    for (int32_t i = 0; i < kPatch; ++i) {
      rows[i] = in.at(std::min(first_row(tile) + i, out.shape.height + 1) - top, 0);
    }
    for (int32_t i = 0; i < tiles * kTile + 2; ++i) {
      columns[i] = (std::min(first_column(tile) + i, out.shape.width + 1) - left) * in.pixel;
    }
    for (int32_t quad = 0; 2 * quad < in_pairs; ++quad) {
      transform_quad(rows, columns, quad * kBytes, tiles, inputs + (2 * quad * kBlockTiles + slot) * kBytes);
    }
  }

  __attribute__((noinline)) void transform_quad(const uint8_t* const* rows, const int64_t* columns, int64_t offset,
                                                int32_t tiles, uint8_t* to) const {
    Vec low[kBlockTiles * kTile + 2][kPatch], high[kBlockTiles * kTile + 2][kPatch];
    for (int32_t x = 0; x < tiles * kTile + 2; ++x) {
      Vec a[kPatch], b[kPatch];
      for (int32_t y = 0; y < kPatch; ++y) {
        const Vec codes = V::load(rows[y] + columns[x] + offset);
        a[y] = V::even16(codes), b[y] = V::odd16(codes);
      }
      patch_line(a, low[x]);
      patch_line(b, high[x]);
    }
    for (int32_t tile = 0; tile < tiles; ++tile, to += kBytes) {
      transform_rows(low + tile * kTile, to);
      transform_rows(high + tile * kTile, to + kBlockTiles * kBytes);
    }
  }

  void transform_rows(const Vec (*columns)[kPatch], uint8_t* to) const {
    const int64_t step = position_step(in.shape.channels);
    for (int32_t y = 0; y < kPatch; ++y) {
      Vec row[kPatch], result[kPatch];
      for (int32_t x = 0; x < kPatch; ++x) row[x] = columns[x][y];
      patch_line(row, result);
      for (int32_t x = 0; x < kPatch; ++x) V::store(to + (y * kPatch + x) * step, result[x]);
    }
  }

  static void patch_line(const Vec (&d)[kPatch], Vec (&to)[kPatch]) {
    const Vec a = V::sub16(d[4], V::four16(d[2])), b = V::sub16(d[3], V::four16(d[1]));
    const Vec c = V::sub16(d[4], d[2]), e = V::sub16(d[3], d[1]), e2 = V::add16(e, e);
    to[0] = V::add16(V::four16(V::sub16(d[0], d[2])), c);
    to[1] = V::add16(a, b);
    to[2] = V::sub16(a, b);
    to[3] = V::add16(c, e2);
    to[4] = V::sub16(c, e2);
    to[5] = V::sub16(V::sub16(d[5], d[3]), V::four16(e));
  }

  // For each position, quad and tile: the products summed over the channels, of which there are whole quads.
  void multiply(int32_t quad, int32_t quad_end, int32_t tiles) const {
    for (int32_t position = 0; position < kPositions; ++position) {
      for (int32_t q = quad; q < quad_end; ++q) {
        const int32_t* weights = tile_weights + (int64_t{position} * out_quads + q) * in_pairs * kQuad;
        for (int32_t slot = 0; slot < tiles; slot += kAtOnce) {
          multiply_tiles(weights, inputs + position * position_step(in.shape.channels) + slot * kBytes,
                         products + (((q - quad) * kBlockTiles + slot) * kQuad * kPositions + position) * kBytes);
        }
      }
    }
  }

  // kUnroll pairs of input channels, kTogether outputs; the first of all begin the sums.
  template <bool kFirst>
  static INTRS_INLINE void multiply_pairs(const int32_t* weights, const uint8_t* from, Vec (&acc)[kAtOnce][kTogether]) {
    each<kUnroll>([&](auto u) INTRS_BODY {
      Vec v[kAtOnce];
      each<kAtOnce>([&](auto t) INTRS_BODY { v[t] = V::load(from + u * kPairBytes + t * kBytes); });
      each<kTogether>([&](auto k) INTRS_BODY {
        const Vec w = V::kByElement ? V::fours(weights + u * kQuad) : V::broadcast(weights[u * kQuad + k]);
        each<kAtOnce>([&](auto t) INTRS_BODY {
          if constexpr (V::kByElement) {
            acc[t][k] = kFirst && u == 0 ? V::template mul16_element<k>(v[t], w)
                                         : V::template dot16_element<k>(acc[t][k], v[t], w);
          } else {
            acc[t][k] = kFirst && u == 0 ? V::mul16(v[t], w) : V::dot16(acc[t][k], v[t], w);
          }
        });
      });
    });
  }

  void multiply_tiles(const int32_t* weights, const uint8_t* from, uint8_t* to) const {
    for (int32_t first = 0; first < kQuad; first += kTogether) {
      multiply_outputs(weights + first, from, to + first * kPositions * kBytes);
    }
  }

  void multiply_outputs(const int32_t* weights, const uint8_t* from, uint8_t* to) const {
    Vec acc[kAtOnce][kTogether];
    multiply_pairs<true>(weights, from, acc);
    for (int32_t pair = kUnroll; pair < in_pairs; pair += kUnroll) {
      from += kUnroll * kPairBytes, weights += kUnroll * kQuad;
      multiply_pairs<false>(weights, from, acc);
    }
    for (auto& tile : acc) {
      for (Vec& sum : tile) {
        V::store(to, sum);
        to += kPositions * kBytes;
      }
      to += (kQuad - kTogether) * kPositions * kBytes;
    }
  }

  // A' m A of four channels of a tile, made accumulators.
  void transform_output(int32_t quad_slot, int32_t slot, const int32_t (&start)[kQuad],
                        Vec (&sums)[kTile * kTile][kQuad]) const {
    const uint8_t* from = products + (quad_slot * kBlockTiles + slot) * kQuad * kPositions * kBytes;
    const Vec ninth = V::broadcast(int32_t(kNinth));
    for (int k = 0; k < kQuad; ++k, from += kPositions * kBytes) {
      Vec rows[kPatch][kTile];
      for (int32_t r = 0; r < kPatch; ++r) {
        Vec m[kPatch];
        for (int32_t c = 0; c < kPatch; ++c) m[c] = V::load(from + (r * kPatch + c) * kBytes);
        if (r == 1) m[1] = V::add(m[1], V::broadcast(int32_t(36 * uint32_t(start[k]))));
        tile_line(m, rows[r]);
      }
      for (int32_t c = 0; c < kTile; ++c) {
        Vec m[kPatch], y[kTile];
        for (int32_t r = 0; r < kPatch; ++r) m[r] = rows[r][c];
        tile_line(m, y);
        for (int32_t r = 0; r < kTile; ++r) {
          sums[r * kTile + c][k] = V::shift_right(V::mul(y[r], ninth), kTwos[r] + kTwos[c]);
        }
      }
    }
  }

  static void tile_line(const Vec (&m)[kPatch], Vec (&y)[kTile]) {
    const Vec t1 = V::add(m[1], m[2]), t2 = V::sub(m[1], m[2]), t3 = V::add(m[3], m[4]), t4 = V::sub(m[3], m[4]);
    y[0] = V::add(V::add(m[0], V::four32(t1)), t3);
    y[1] = V::add(V::add(t2, t2), t4);
    y[2] = V::add(t1, t3);
    y[3] = V::add(V::add(t2, V::add(t4, t4)), m[5]);
  }

  // Calls visit(pixel of the tile, where it goes) for the outputs that exist.
  template <class Visit>
  void for_outputs(int32_t tile, Visit visit) const {
    const int32_t y0 = first_row(tile), x0 = first_column(tile);
    for (int32_t y = 0; y < std::min(kTile, out.shape.height - y0); ++y) {
      for (int32_t x = 0; x < std::min(kTile, out.shape.width - x0); ++x) {
        visit(y * kTile + x, out.at(y0 + y, x0 + x));
      }
    }
  }
};

// A set without 16-bit products.
template <class V>
struct Winograd<V, 0> {
  static bool suits(const Conv&, const Shape&) { return false; }
  static int64_t cycles(const Conv&, int32_t) { return 0; }
  static std::vector<int32_t> weights(const Conv&, int32_t) { return {}; }
  static int64_t scratch(int32_t) { return 0; }
};

}  // namespace
}  // namespace intrs
