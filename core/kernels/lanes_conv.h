// A Conv over the vectors of samples of lanes.h, with weights packed by lanes_pack.h: directly, by Winograd's tiles, or
// by taps if it is depthwise.
#pragma once

#include <cstring>

#include "lanes_pack.h"
#include "lanes_plain.h"

namespace intrs {
namespace {

constexpr int64_t kSpanBytes = 6144;  // of input for a span of a row: with a quad's weights it stays in a 32 kB cache

template <class V>
struct LanesConv {
  using Vec = typename V::Vec;
  using Pack = LanesPack<V>;
  using PackedConv = typename Pack::PackedConv;
  using PackedQuad = typename Pack::PackedQuad;
  using QuadScale = typename Pack::QuadScale;
  using Tiles = typename Pack::Tiles;
  using ByTaps = typename Pack::ByTaps;
  static constexpr int32_t kBytes = Pack::kBytes;

  static void store_wide(const Vec* channels, uint8_t* to) {
    int32_t lanes[kQuad][V::kLanes];
    for (int k = 0; k < kQuad; ++k) V::store(reinterpret_cast<uint8_t*>(lanes[k]), channels[k]);
    for (int32_t i = 0; i < V::kLanes * kQuad; ++i) std::memcpy(to + 4 * i, &lanes[i % kQuad][i / kQuad], 4);
  }

  static INTRS_INLINE void store_codes(const PackedConv& packed, Vec codes, uint8_t* to) {
    V::store(to, V::low(V::high(codes, packed.low), packed.high));
  }

  // Sums of four channels of P pixels become codes.
  template <int P>
  static INTRS_INLINE void finish(const PackedConv& packed, const PackedQuad& q, const Vec (&sums)[P][kQuad],
                                  uint8_t* to, int64_t step) {
    if (!packed.usual) {
      Vec copy[P][kQuad];  // else the sums would have an address
      each<P>([&](auto p) INTRS_BODY { each<kQuad>([&](auto k) INTRS_BODY { copy[p][k] = sums[p][k]; }); });
      return finish_unusual(packed, q, copy, P, to, step);
    }
    by_rounds(packed.rounds, [&](auto rounds) INTRS_BODY { finish_usual<rounds(), P>(packed, q, sums, to, step); });
  }

  template <Rounds kRounds, int P>
  static INTRS_INLINE void finish_usual(const PackedConv& packed, const PackedQuad& q, const Vec (&sums)[P][kQuad],
                                        uint8_t* to, int64_t step) {
    each<P>([&](auto p) INTRS_BODY {
      const Vec codes = V::template codes<kRounds>(sums[p][0], sums[p][1], sums[p][2], sums[p][3], q.scale);
      store_codes(packed, codes, to + p * step);
    });
  }

  // The same for scales of any size, and for scores.
  __attribute__((noinline)) static void finish_unusual(const PackedConv& packed, const PackedQuad& q,
                                                       const Vec (*sums)[kQuad], int32_t pixels, uint8_t* to,
                                                       int64_t step) {
    const Vec late = V::broadcast(packed.late);
    for (int32_t p = 0; p < pixels; ++p, to += step) {
      Vec scaled[kQuad];
      for (int k = 0; k < kQuad; ++k) scaled[k] = V::add(V::rescale(sums[p][k], q.scale[k]), late);
      packed.wide ? store_wide(scaled, to)
                  : store_codes(packed, V::join(scaled[0], scaled[1], scaled[2], scaled[3]), to);
    }
  }

  // P neighbouring output pixels, four channels. A function of its own: inlined, its sums would not stay in registers.
  template <int P>
  __attribute__((noinline)) static void conv_tile(const PackedConv& packed, const PackedQuad& q, const uint8_t* from,
                                                  int64_t step, uint8_t* to, int64_t out_step) {
    Vec sums[P][kQuad];
    V::template run<P>(q.strips, q.start, from, step, sums);
    finish<P>(packed, q, sums, to, out_step);
  }

  template <int P>
  static void conv_tile_of(int32_t pixels, const PackedConv& packed, const PackedQuad& q, const uint8_t* from,
                           int64_t step, uint8_t* to, int64_t out_step) {
    if (pixels == P) {
      conv_tile<P>(packed, q, from, step, to, out_step);
    } else if constexpr (P > 1) {
      conv_tile_of<P - 1>(pixels, packed, q, from, step, to, out_step);
    }
  }

  // Part of a row of the output: all channels, one quad after the other, so that both the input of these pixels and the
  // weights of a quad stay in the first-level cache.
  static void conv_span(const Conv& op, const PackedConv& packed, const In& in, const Out& out, int32_t y,
                        int32_t begin, int32_t end) {
    const Window& w = op.window;
    const int32_t tiles = (end - begin + V::kPixels - 1) / V::kPixels;
    const int64_t quad_bytes = kBytes * (op.wide ? 4 : 1);
    for (size_t quad = 0; quad < packed.quads.size(); ++quad) {
      for (int32_t tile = 0; tile < tiles; ++tile) {
        const int32_t x = begin + part(end - begin, tile, tiles), next = begin + part(end - begin, tile + 1, tiles);
        conv_tile_of<V::kPixels>(next - x, packed, packed.quads[quad],
                                 in.at(int64_t{y} * w.stride_y - w.top, int64_t{x} * w.stride_x - w.left),
                                 w.stride_x * in.pixel, out.at(y, x) + int64_t(quad) * quad_bytes, out.pixel);
      }
    }
  }

  // How many output pixels of a row have an input of about kSpanBytes.
  static int32_t span_pixels(const Conv& op, const In& in) {
    const int64_t column = int64_t{op.window.height} * op.window.stride_x * in.pixel;
    return int32_t(std::max<int64_t>(V::kPixels, kSpanBytes / column));
  }

  // The same by Winograd's tiles: a few tiles, then a few quads of their outputs at a time. A function of its own, so
  // that its loops have all registers.
  __attribute__((noinline)) static void conv_tiles(const Conv& op, const PackedConv& packed, const In& in,
                                                   const Out& out, uint8_t* scratch) {
    const Tiles tiles(op, packed.tile_weights, in, out, scratch);
    for (int32_t first = 0; first < tiles.count; first += kBlockTiles) {
      const int32_t last = std::min(first + kBlockTiles, tiles.count);
      tiles.transform_inputs(first, last);
      for (int32_t quad = 0; quad < tiles.out_quads; quad += kBlockQuads) {
        const int32_t end = std::min(quad + kBlockQuads, tiles.out_quads);
        tiles.multiply(quad, end, last - first);
        for (int32_t q = quad; q < end; ++q) {
          by_rounds(packed.rounds, [&](auto rounds) {
            for (int32_t t = first; t < last; ++t) finish_tile<rounds()>(packed, tiles, q, q - quad, t, t - first);
          });
        }
      }
    }
  }

  template <Rounds kRounds>
  static void finish_tile(const PackedConv& packed, const Tiles& tiles, int32_t quad, int32_t quad_slot, int32_t tile,
                          int32_t tile_slot) {
    const PackedQuad& q = packed.quads[size_t(quad)];
    Vec sums[kTile * kTile][kQuad];
    tiles.transform_output(quad_slot, tile_slot, q.start, sums);
    tiles.for_outputs(tile, [&](int32_t pixel, uint8_t* to) {
      const Vec(&s)[kQuad] = sums[pixel];
      store_codes(packed, V::template codes<kRounds>(s[0], s[1], s[2], s[3], q.scale), to + quad * kBytes);
    });
  }

  // N neighbouring outputs of a depthwise layer, four channels.
  template <int N, int S>
  __attribute__((noinline)) static void depthwise_tile(const Conv& op, const PackedConv& packed, size_t quad,
                                                       const In& in, const uint8_t* from, uint8_t* to,
                                                       int64_t out_step) {
    const QuadScale& q = packed.tap_scales[quad];
    Vec sums[N][kQuad];
    each<N>([&](auto n) INTRS_BODY { each<kQuad>([&](auto j) INTRS_BODY { sums[n][j] = q.start; }); });
    const size_t count = packed.tap_weights.size() / packed.tap_scales.size();
    ByTaps::template run<N, S>(op.window, in, from, &packed.tap_weights[quad * count], sums);
    by_rounds(packed.rounds, [&](auto rounds) INTRS_BODY { finish_taps<rounds(), N>(packed, q, sums, to, out_step); });
  }

  template <Rounds kRounds, int N>
  static INTRS_INLINE void finish_taps(const PackedConv& packed, const QuadScale& q, Vec (&sums)[N][kQuad], uint8_t* to,
                                       int64_t out_step) {
    each<N>([&](auto n) INTRS_BODY {
      each<kQuad>([&](auto j) INTRS_BODY { sums[n][j] = V::template rescale_long<kRounds>(sums[n][j], q.scale); });
      store_codes(packed, V::join_samples(sums[n][0], sums[n][1], sums[n][2], sums[n][3]), to + n * out_step);
    });
  }

  template <int N>
  static void depthwise_tile_of(int32_t pixels, const Conv& op, const PackedConv& packed, size_t quad, const In& in,
                                const uint8_t* from, uint8_t* to, int64_t out_step) {
    if (pixels == N) {
      if (op.window.stride_x == 1) {
        depthwise_tile<N, 1>(op, packed, quad, in, from, to, out_step);
      } else {
        depthwise_tile<N, 2>(op, packed, quad, in, from, to, out_step);
      }
    } else if constexpr (N > 1) {
      depthwise_tile_of<N - 1>(pixels, op, packed, quad, in, from, to, out_step);
    }
  }

  static void conv_depthwise(const Conv& op, const PackedConv& packed, const In& in, const Out& out) {
    const Window& w = op.window;
    const int32_t width = out.shape.width, tiles = (width - 1) / ByTaps::kMost + 1;
    for (int32_t y = 0; y < out.shape.height; ++y) {
      for (int32_t tile = 0; tile < tiles; ++tile) {
        const int32_t x = part(width, tile, tiles), next = part(width, tile + 1, tiles);
        const uint8_t* from = in.at(int64_t{y} * w.stride_y - w.top, int64_t{x} * w.stride_x - w.left);
        for (size_t quad = 0; quad < packed.quads.size(); ++quad) {
          const auto at = int64_t(quad) * kBytes;
          depthwise_tile_of<ByTaps::kMost>(next - x, op, packed, quad, in, from + at, out.at(y, x) + at, out.pixel);
        }
      }
    }
  }

  static void run(const Conv& op, const Inputs& inputs, Out out) {
    const In in = inputs[0];
    if (!inputs.packed) return LanesPlain<V>::conv(op, in, out);
    const auto& packed = static_cast<const PackedConv&>(*inputs.packed);
    if constexpr (V::kTiles > 0) {
      if (!packed.tile_weights.empty()) return conv_tiles(op, packed, in, out, inputs.scratch);
    }
    if (!packed.tap_weights.empty()) return conv_depthwise(op, packed, in, out);
    const int32_t width = out.shape.width, spans = (width - 1) / span_pixels(op, in) + 1;
    for (int32_t y = 0; y < out.shape.height; ++y) {
      for (int32_t span = 0; span < spans; ++span) {
        conv_span(op, packed, in, out, y, part(width, span, spans), part(width, span + 1, spans));
      }
    }
  }
};

}  // namespace
}  // namespace intrs
