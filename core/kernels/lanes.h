// Fast kernels over vectors of samples. Included by one file per instruction set, which supplies the vector type V.
//
// A vector holds V::kLanes samples of four channels, four bytes together, so that one 4-byte group of weights,
// broadcast, multiplies it: no im2col, no shuffles. Padding is a border in memory. An output channel is a list of
// entries (offset of a vector from the pixel, four weights); groups of four zero weights have no entry and cost
// nothing.
//
// V has:
//   kLanes, kFlip            samples in a vector; 0x80 if bytes are stored unsigned, 0 if signed
//   Vec, Words, Scale        a vector; the same for ChaCha20; what `rescale` needs for one channel
//   load, store, broadcast   whole vectors; broadcast of one int32 to all lanes
//   add, mul, shift_right    32-bit lanes; shift_right is arithmetic
//   channel<k>(v)            byte k of each lane as int32, sign or zero extended as stored
//   rescale(v, scale)        intrs_rescale plus output zero point, in the stored form; lane i is of channel i % 4
//   rescale_long             the same if scale.long_shift
//   join(a, b, c, d)         four channels as bytes, saturated
//   codes(a, b, c, d, s)     join of rescale_long of each, by scales s[0] to s[3], each the same in all lanes
//   low, high, clamp         bytewise maximum and minimum
//   Strips, strips, run      entries of four output channels and the inner loop over them: see dot.h and avx2.cpp
//   cycles                   hundredths of cycles that four output channels of a pixel take so
//   Taps, taps, TapWeights   what depthwise.h multiplies, by dot_taps; tap_weights packs, load_taps loads them
//   kDepthwisePixels         outputs that it does at once
//   interleave8_low ...      of two vectors, within each 128 bits: their lower or higher halves by bytes, or 16 bits
//   join_samples             lanes of four channels as bytes, saturated, one vector a sample
//   kTiles                   tiles that are multiplied at once, see winograd.h; 0 for a set without 16-bit products
//   kPixels                  output pixels of a tile, at most
//   kTileCycles              as cycles, but by tiles: for a product, and for a quad of inputs or outputs
#pragma once

#include <algorithm>
#include <cstring>

#include "../arith.h"
#include "blocks.h"
#include "depthwise.h"
#include "sets.h"
#include "winograd.h"

namespace intrs {
namespace {

constexpr int64_t kSpanBytes = 6144;  // of input for a span of a row: with a quad's weights it stays in a 32 kB cache

template <class V>
struct Lanes {
  using Vec = typename V::Vec;
  using Scale = typename V::Scale;
  using Tiles = Winograd<V, V::kTiles>;
  using ByTaps = Depthwise<V>;
  static constexpr int32_t kBytes = V::kLanes * kQuad;  // of a vector

  // --- Conv -----------------------------------------------------------------------------------------------------

  // Four output channels: their entries, starting values and scales.
  struct PackedQuad {
    typename V::Strips strips;
    int32_t start[kQuad];
    Scale scale[kQuad];
  };

  // Of four channels that lie in one vector.
  struct QuadScale {
    Vec start;
    Scale scale;
  };

  struct PackedConv : Packed {
    std::vector<PackedQuad> quads;
    Vec low, high;
    bool wide;
    bool usual;                         // codes come out, and all shifts are more than 32 but leave room
    int32_t late;                       // what is left to add after RESCALE: the zero point if there is no room for it
    std::vector<int32_t> tile_weights;  // if the layer is done by Winograd's tiles; quads have no strips then
    std::vector<typename V::TapWeights> tap_weights;  // if it is depthwise; nor have they then
    std::vector<QuadScale> tap_scales;
  };

  // The border and the address range must suit; otherwise `plain_conv` does the layer.
  static bool suits(const Conv& op, const In& in, const Out& out) {
    const Window& w = op.window;
    const int64_t bottom =
        (out.shape.height - 1) * int64_t{w.stride_y} + (w.height - 1) * int64_t{w.dilation_y} - w.top;
    const int64_t right = (out.shape.width - 1) * int64_t{w.stride_x} + (w.width - 1) * int64_t{w.dilation_x} - w.left;
    const Border& b = in.border;
    const bool inside = w.top == 0 && w.left == 0 && bottom < in.shape.height && right < in.shape.width;
    const bool covered = w.top <= b.top && w.left <= b.left && bottom < in.shape.height + b.bottom &&
                         right < in.shape.width + b.right && b.code == op.input_zero_point;
    const int64_t reach = w.height * w.dilation_y * in.row;
    return (inside || covered) && reach < INT32_MAX;
  }

  // Does the output zero point fit into what RESCALE adds? Not with the shifts of a channel that is all but dead.
  static bool has_room(const Conv& op) {
    return std::all_of(op.rescale.shift.begin(), op.rescale.shift.end(), [](int8_t shift) { return shift <= 54; });
  }

  static PackedQuad pack_quad(const Conv& op, int32_t quad, int32_t channels, int32_t zero_point,
                              typename V::Strips strips) {
    PackedQuad q = {};
    for (int32_t k = 0; k < kQuad; ++k) {
      const int32_t channel = std::min(quad * kQuad + k, channels - 1);  // beyond the last: anything
      const size_t at = op.rescale.at(channel);
      q.start[k] = start_value(op, channel, channels, V::kFlip);
      q.scale[k] = V::scale({op.rescale.multiplier[at], op.rescale.shift[at], zero_point});
    }
    q.strips = std::move(strips);
    return q;
  }

  static QuadScale quad_scale(const Conv& op, int32_t quad, int32_t channels) {
    int32_t start[kQuad], multiplier[kQuad], shift[kQuad];
    for (int32_t k = 0; k < kQuad; ++k) {
      const int32_t channel = std::min(quad * kQuad + k, channels - 1);  // beyond the last: anything
      start[k] = start_value(op, channel, channels, V::kFlip);
      multiplier[k] = op.rescale.multiplier[op.rescale.at(channel)];
      shift[k] = op.rescale.shift[op.rescale.at(channel)];
    }
    return {V::fours(start), V::scale({multiplier, shift, op.output_zero_point + V::kFlip})};
  }

  static std::unique_ptr<Packed> pack(const Conv& op, const In& in, const Out& out) {
    if (!suits(op, in, out)) return nullptr;
    auto packed = std::make_unique<PackedConv>();
    const int32_t channels = out.shape.channels;
    std::vector<Quad> entries(size_t(quads(channels)));
    for (int32_t c = 0; c < channels; ++c) {
      entries[size_t(c / kQuad)][size_t(c % kQuad)] = entries_of(op, in, c, channels, kBytes);
    }
    int64_t cycles = 0;
    for (const Quad& quad : entries) cycles += V::cycles(quad);
    const bool room = has_room(op);
    const int32_t zero_point = op.wide ? 0 : op.output_zero_point + V::kFlip;
    const auto is_long = [](int8_t shift) { return shift > 32; };
    packed->usual = !op.wide && room && std::all_of(op.rescale.shift.begin(), op.rescale.shift.end(), is_long);
    const bool tiled = packed->usual && Tiles::suits(op, out.shape) && Tiles::cycles(op, channels) < cycles;
    packed->late = room ? 0 : zero_point;
    const bool depthwise = packed->usual && ByTaps::suits(op, out.shape);
    if (depthwise) {
      packed->tap_weights = ByTaps::weights(op, channels);
      for (int32_t quad = 0; quad < quads(channels); ++quad)
        packed->tap_scales.push_back(quad_scale(op, quad, channels));
    }
    if (tiled) {
      packed->tile_weights = Tiles::weights(op, channels);
      packed->scratch = Tiles::scratch(op.channels_per_group);
      packed->bytes = int64_t(packed->tile_weights.size() * sizeof(int32_t));
      packed->rows = kTile;
    }
    for (int32_t quad = 0; quad < quads(channels); ++quad) {
      auto strips = tiled || depthwise ? typename V::Strips() : V::strips(entries[size_t(quad)]);
      packed->quads.push_back(pack_quad(op, quad, channels, zero_point - packed->late, std::move(strips)));
    }
    if (!tiled) packed->bytes = int64_t(op.weights.size());  // nearly
    packed->wide = op.wide;
    packed->low = V::bytes(op.clamp_low + V::kFlip);
    packed->high = V::bytes(op.clamp_high + V::kFlip);
    return packed;
  }

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
    each<P>([&](auto p) INTRS_BODY {
      store_codes(packed, V::codes(sums[p][0], sums[p][1], sums[p][2], sums[p][3], q.scale), to + p * step);
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

  // The same by Winograd's tiles: a few tiles, then a few quads of their outputs at a time.
  static void conv_tiles(const Conv& op, const PackedConv& packed, const In& in, const Out& out, uint8_t* scratch) {
    const Tiles tiles(op, packed.tile_weights, in, out, scratch);
    for (int32_t first = 0; first < tiles.count; first += kBlockTiles) {
      const int32_t last = std::min(first + kBlockTiles, tiles.count);
      tiles.transform_inputs(first, last);
      for (int32_t quad = 0; quad < tiles.out_quads; quad += kBlockQuads) {
        const int32_t end = std::min(quad + kBlockQuads, tiles.out_quads);
        tiles.multiply(quad, end, last - first);
        for (int32_t q = quad; q < end; ++q) {
          for (int32_t tile = first; tile < last; ++tile) finish_tile(packed, tiles, q, q - quad, tile, tile - first);
        }
      }
    }
  }

  static void finish_tile(const PackedConv& packed, const Tiles& tiles, int32_t quad, int32_t quad_slot, int32_t tile,
                          int32_t tile_slot) {
    const PackedQuad& q = packed.quads[size_t(quad)];
    Vec sums[kTile * kTile][kQuad];
    tiles.transform_output(quad_slot, tile_slot, q.start, sums);
    tiles.for_outputs(tile, [&](int32_t pixel, uint8_t* to) {
      const Vec(&s)[kQuad] = sums[pixel];
      store_codes(packed, V::codes(s[0], s[1], s[2], s[3], q.scale), to + quad * kBytes);
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
    each<N>([&](auto n) INTRS_BODY {
      each<kQuad>([&](auto j) INTRS_BODY { sums[n][j] = V::rescale_long(sums[n][j], q.scale); });
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

  static void conv(const Conv& op, const Packed* any, In in, Out out, uint8_t* scratch) {
    if (!any) return plain_conv(op, in, out);
    const auto& packed = static_cast<const PackedConv&>(*any);
    if constexpr (V::kTiles > 0) {
      if (!packed.tile_weights.empty()) return conv_tiles(op, packed, in, out, scratch);
    }
    if (!packed.tap_weights.empty()) return conv_depthwise(op, packed, in, out);
    const int32_t width = out.shape.width, spans = (width - 1) / span_pixels(op, in) + 1;
    for (int32_t y = 0; y < out.shape.height; ++y) {
      for (int32_t span = 0; span < spans; ++span) {
        conv_span(op, packed, in, out, y, part(width, span, spans), part(width, span + 1, spans));
      }
    }
  }

  // --- plain loops over this layout, for what is rare: borders that do not suit, extreme scales ---------------------

  static int32_t code(const uint8_t* pixel, int32_t channel, int32_t lane) {
    return int8_t(pixel[(channel / kQuad * V::kLanes + lane) * kQuad + channel % kQuad] ^ V::kFlip);
  }

  static void set_code(uint8_t* pixel, int32_t channel, int32_t lane, int32_t value) {
    pixel[(channel / kQuad * V::kLanes + lane) * kQuad + channel % kQuad] = uint8_t(uint8_t(value) ^ V::kFlip);
  }

  static int32_t plain_sum(const Conv& op, const In& in, int64_t out_y, int64_t out_x, int32_t o, int32_t channels,
                           int32_t lane) {
    const Window& w = op.window;
    const int32_t per_group = op.channels_per_group, first = o / (channels / op.groups) * per_group;
    const int8_t* weights = &op.weights[size_t(o) * op.weights.size() / size_t(channels)];
    int32_t sum = op.bias[size_t(o)];
    for (int32_t ky = 0; ky < w.height; ++ky) {
      for (int32_t kx = 0; kx < w.width; ++kx, weights += per_group) {
        const int64_t y = out_y * w.stride_y - w.top + int64_t{ky} * w.dilation_y;
        const int64_t x = out_x * w.stride_x - w.left + int64_t{kx} * w.dilation_x;
        if (y < 0 || y >= in.shape.height || x < 0 || x >= in.shape.width) continue;
        for (int32_t c = 0; c < per_group; ++c) {
          sum += weights[c] * (code(in.at(y, x), first + c, lane) - op.input_zero_point);
        }
      }
    }
    return sum;
  }

  static void plain_conv(const Conv& op, const In& in, const Out& out) {
    const int32_t channels = out.shape.channels;
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int32_t o = 0; o < channels; ++o) {
        const size_t at = op.rescale.at(o);
        for (int32_t lane = 0; lane < V::kLanes; ++lane) {
          const int32_t sum = plain_sum(op, in, y, x, o, channels, lane);
          const int32_t value = intrs_rescale(sum, op.rescale.multiplier[at], op.rescale.shift[at]);
          if (op.wide) {
            const int64_t element = (o / kQuad * V::kLanes + lane) * kQuad + o % kQuad;
            std::memcpy(out.at(y, x) + element * 4, &value, 4);
          } else {
            set_code(out.at(y, x), o, lane, intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
          }
        }
      }
    });
  }

  // --- the other layers -----------------------------------------------------------------------------------------

  template <class Visit>
  static void for_places(const Shape& shape, Visit visit) {
    for (int32_t y = 0; y < shape.height; ++y) {
      for (int32_t x = 0; x < shape.width; ++x) visit(y, x);
    }
  }

  // Calls visit(row, column, bytes from the pixel) for every vector of a tensor.
  template <class Visit>
  static void for_vectors(const Out& out, Visit visit) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int64_t at = 0; at < out.pixel; at += kBytes) visit(y, x, at);
    });
  }

  static void add(const Add& op, In a, In b, Out out) {
    const Vec ma = V::broadcast(op.multiplier_a), mb = V::broadcast(op.multiplier_b);
    // (sa - za') ma + (sb - zb') mb + half, zero points in the stored form; modulo 2^32, like all that follows.
    const uint32_t rest = (1u << (op.shift - 1)) - uint32_t(op.zero_point_a + V::kFlip) * uint32_t(op.multiplier_a) -
                          uint32_t(op.zero_point_b + V::kFlip) * uint32_t(op.multiplier_b);
    const Vec start = V::broadcast(int32_t(rest)), zero_point = V::broadcast(op.output_zero_point + V::kFlip);
    const Vec low = V::bytes(op.clamp_low + V::kFlip), high = V::bytes(op.clamp_high + V::kFlip);
    const auto one = [&](Vec x, Vec y) {
      const Vec sum = V::add(V::add(V::mul(x, ma), V::mul(y, mb)), start);
      return V::add(V::shift_right(sum, op.shift), zero_point);
    };
    for_vectors(out, [&](int32_t y, int32_t x, int64_t at) {
      const Vec va = V::load(a.at(y, x) + at), vb = V::load(b.at(y, x) + at);
      const Vec joined = V::join(one(V::template channel<0>(va), V::template channel<0>(vb)),
                                 one(V::template channel<1>(va), V::template channel<1>(vb)),
                                 one(V::template channel<2>(va), V::template channel<2>(vb)),
                                 one(V::template channel<3>(va), V::template channel<3>(vb)));
      V::store(out.at(y, x) + at, V::low(V::high(joined, low), high));
    });
  }

  // Calls visit(y, x) for the taps of a pool that lie inside its input.
  template <class Visit>
  static void for_taps(const Window& w, const Shape& in, int32_t out_y, int32_t out_x, Visit visit) {
    const int32_t y0 = out_y * w.stride_y - w.top, x0 = out_x * w.stride_x - w.left;
    for (int32_t y = std::max(y0, 0); y < std::min(y0 + w.height, in.height); ++y) {
      for (int32_t x = std::max(x0, 0); x < std::min(x0 + w.width, in.width); ++x) visit(y, x);
    }
  }

  static void max_pool(const MaxPool& op, In in, Out out) {
    for_vectors(out, [&](int32_t out_y, int32_t out_x, int64_t at) {
      Vec best = V::bytes(-128 + V::kFlip);
      for_taps(op.window, in.shape, out_y, out_x,
               [&](int32_t y, int32_t x) { best = V::high(best, V::load(in.at(y, x) + at)); });
      V::store(out.at(out_y, out_x) + at, best);
    });
  }

  static void avg_pool(const AvgPool& op, In in, Out out) {
    for_vectors(out, [&](int32_t out_y, int32_t out_x, int64_t at) {
      Vec sum[kQuad];
      int32_t count = 0, multiplier = 0;
      int shift = 0;
      for (Vec& s : sum) s = V::broadcast(0);
      for_taps(op.window, in.shape, out_y, out_x, [&](int32_t y, int32_t x) {
        const Vec v = V::load(in.at(y, x) + at);
        sum[0] = V::add(sum[0], V::template channel<0>(v));
        sum[1] = V::add(sum[1], V::template channel<1>(v));
        sum[2] = V::add(sum[2], V::template channel<2>(v));
        sum[3] = V::add(sum[3], V::template channel<3>(v));
        ++count;
      });
      intrs_reciprocal(uint32_t(count), &multiplier, &shift);
      const Vec zero = V::broadcast(-count * (op.input_zero_point + V::kFlip));
      const Scale scale = V::scale({multiplier, shift, op.output_zero_point + V::kFlip});
      for (Vec& s : sum) s = V::rescale(V::add(s, zero), scale);
      V::store(out.at(out_y, out_x) + at, V::join(sum[0], sum[1], sum[2], sum[3]));
    });
  }

  static void requantise(const Requantise& op, In in, Out out) {
    const int8_t shift = op.rescale.shift[0];
    if (shift > 54) return plain_requantise(op, in, out);
    const Scale scale = V::scale({op.rescale.multiplier[0], shift, op.output_zero_point + V::kFlip});
    const Vec zero = V::broadcast(-(op.input_zero_point + V::kFlip));
    const Vec low = V::bytes(op.clamp_low + V::kFlip), high = V::bytes(op.clamp_high + V::kFlip);
    const auto one = [&](Vec x) { return V::rescale(V::add(x, zero), scale); };
    for_vectors(out, [&](int32_t y, int32_t x, int64_t at) {
      const Vec v = V::load(in.at(y, x) + at);
      const Vec joined = V::join(one(V::template channel<0>(v)), one(V::template channel<1>(v)),
                                 one(V::template channel<2>(v)), one(V::template channel<3>(v)));
      V::store(out.at(y, x) + at, V::low(V::high(joined, low), high));
    });
  }

  static void plain_requantise(const Requantise& op, const In& in, const Out& out) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int32_t i = 0; i < out.shape.channels * V::kLanes; ++i) {
        const int32_t channel = i / V::kLanes, lane = i % V::kLanes;
        const int32_t value = intrs_rescale(code(in.at(y, x), channel, lane) - op.input_zero_point,
                                            op.rescale.multiplier[0], op.rescale.shift[0]);
        set_code(out.at(y, x), channel, lane, intrs_clamp(value + op.output_zero_point, op.clamp_low, op.clamp_high));
      }
    });
  }

  static void concat_pixel(const In& in, const uint8_t* from, uint8_t* to, int32_t first) {
    if (first % kQuad == 0) {
      std::memcpy(to + first / kQuad * kBytes, from, size_t(in.pixel));
      return;
    }
    for (int32_t i = 0; i < in.shape.channels * V::kLanes; ++i) {
      const int32_t channel = i / V::kLanes, lane = i % V::kLanes;
      set_code(to, first + channel, lane, code(from, channel, lane));
    }
  }

  static void concat(const std::vector<In>& inputs, Out out) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      int32_t first = 0;
      for (const In& in : inputs) {
        concat_pixel(in, in.at(y, x), out.at(y, x), first);
        first += in.shape.channels;
      }
    });
  }

  static void pad(const Pad& op, In in, Out out) {
    for (int32_t y = 0; y < out.shape.height; ++y) {
      std::memset(out.at(y, 0), uint8_t(op.value) ^ V::kFlip, size_t(out.shape.width * out.pixel));
    }
    for (int32_t y = 0; y < in.shape.height; ++y) {
      std::memcpy(out.at(y + op.top, op.left), in.at(y, 0), size_t(in.shape.width * in.pixel));
    }
  }

  // One sample: codes in coordinate order first, by whole vectors, then to their places four bytes at a time. What
  // follows a pixel's last channel goes along; channels beyond the last hold anything.
  static void quantise(const Quantiser& q, const int32_t* pixels, int32_t lane, Out out) {
    const auto channels = size_t(out.shape.channels);
    if (channels > kQuad) return plain_quantise(q, pixels, lane, out);
    constexpr size_t kRow = 48;  // coordinates at once: whole pixels of 1, 2, 3 or 4 channels
    int32_t low[kRow], high[kRow], multiplier[kRow], offset[kRow];
    for (size_t i = 0; i < kRow; ++i) {
      low[i] = q.low[i % channels], high[i] = q.high[i % channels];
      multiplier[i] = q.multiplier[i % channels], offset[i] = q.offset[i % channels];
    }
    const auto total = size_t(out.shape.size());
    uint8_t codes[kRow + kQuad] = {};
    int32_t padded[kRow] = {};
    uint8_t* to = out.codes + lane * kQuad;
    int32_t x = 0;
    for (size_t begin = 0; begin < total; begin += kRow, pixels += kRow) {
      const int32_t* from = pixels;
      if (total - begin < kRow) from = std::copy_n(pixels, total - begin, padded) - (total - begin);
      for (size_t i = 0; i < kRow; ++i) {
        const int32_t p = std::min(std::max(from[i], low[i]), high[i]);
        const int32_t code = (p * multiplier[i] + offset[i]) >> q.shift;
        codes[i] = uint8_t(std::min(std::max(code, -128), 127) + V::kFlip);
      }
      for (size_t i = 0; i < std::min(kRow, total - begin); i += channels) {
        std::memcpy(to, codes + i, kQuad);
        to += out.pixel;
        if (++x == out.shape.width) x = 0, to += out.row - out.shape.width * out.pixel;
      }
    }
  }

  static void plain_quantise(const Quantiser& q, const int32_t* pixels, int32_t lane, const Out& out) {
    for_places(out.shape, [&](int32_t y, int32_t x) {
      for (int32_t c = 0; c < out.shape.channels; ++c) {
        const auto i = size_t(c);
        const int32_t p = intrs_clamp(*pixels++, q.low[i], q.high[i]);
        set_code(out.at(y, x), c, lane, intrs_clamp((p * q.multiplier[i] + q.offset[i]) >> q.shift, -128, 127));
      }
    });
  }

  static KernelSet set(const char* name) {
    KernelSet set = {};
    set.name = name;
    set.layout = {kQuad, V::kLanes, V::kFlip, true};
    set.noise = noise_kernels<V>();
    set.quantise = quantise;
    set.pack = pack;
    set.conv = conv;
    set.add = add;
    set.max_pool = max_pool;
    set.avg_pool = avg_pool;
    set.requantise = requantise;
    set.concat = concat;
    set.pad = pad;
    return set;
  }
};

}  // namespace
}  // namespace intrs
