// What a Conv needs of its weights, over the vectors of samples of lanes.h: decided and put in order once.
#pragma once

#include <algorithm>
#include <memory>

#include "depthwise.h"
#include "winograd.h"

namespace intrs {
namespace {

template <class V>
struct LanesPack {
  using Vec = typename V::Vec;
  using Scale = typename V::Scale;
  using Tiles = Winograd<V, V::kTiles>;
  using ByTaps = Depthwise<V>;
  static constexpr int32_t kBytes = V::kLanes * kQuad;  // of a vector

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
    Rounds rounds;
    bool usual;                         // codes come out, and all shifts are more than 32 but leave room
    int32_t late;                       // what is left to add after RESCALE: the zero point if there is no room for it
    std::vector<int32_t> tile_weights;  // if the layer is done by Winograd's tiles; quads have no strips then
    std::vector<typename V::TapWeights> tap_weights;  // if it is depthwise; nor have they then
    std::vector<QuadScale> tap_scales;
  };

  // The border and the address range must suit; otherwise LanesPlain does the layer.
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
    return std::all_of(op.rescale.shift.begin(), op.rescale.shift.end(),
                       [](int8_t shift) { return shift <= kMostWithRoom; });
  }

  static PackedQuad pack_quad(const Conv& op, int32_t quad, int32_t channels, int32_t zero_point,
                              typename V::Strips strips) {
    PackedQuad q = {};
    for (int32_t k = 0; k < kQuad; ++k) {
      const int32_t channel = std::min(quad * kQuad + k, channels - 1);  // beyond the last: anything
      const size_t at = op.rescale.at(channel);
      q.start[k] = start_value(op, channel, channels, V::kFlip);
      q.scale[k] = V::scale({op.rescale.multiplier[at], op.rescale.shift[at], zero_point, op.rescale.twice});
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
    return {V::fours(start), V::scale({multiplier, shift, op.output_zero_point + V::kFlip, op.rescale.twice})};
  }

  static std::vector<Quad> all_entries(const Conv& op, const In& in, int32_t channels) {
    std::vector<Quad> entries(size_t(quads(channels)));
    for (int32_t c = 0; c < channels; ++c) {
      entries[size_t(c / kQuad)][size_t(c % kQuad)] = entries_of(op, in, c, channels, kBytes);
    }
    return entries;
  }

  static bool faster_by_tiles(const Conv& op, const Shape& out, const std::vector<Quad>& entries) {
    int64_t cycles = 0;
    for (const Quad& quad : entries) cycles += V::cycles(quad);
    return Tiles::suits(op, out) && Tiles::cycles(op, out.channels) < cycles;
  }

  static void pack_tiles(const Conv& op, int32_t channels, PackedConv& packed) {
    packed.tile_weights = Tiles::weights(op, channels);
    packed.scratch = Tiles::scratch(op.channels_per_group);
    packed.bytes = int64_t(packed.tile_weights.size() * sizeof(int32_t));
    packed.rows = kTile;
  }

  static void pack_taps(const Conv& op, int32_t channels, PackedConv& packed) {
    packed.tap_weights = ByTaps::weights(op, channels);
    for (int32_t quad = 0; quad < quads(channels); ++quad) packed.tap_scales.push_back(quad_scale(op, quad, channels));
  }

  // RESCALE and clamp; returns the zero point that RESCALE is to add.
  static int32_t pack_output(const Conv& op, PackedConv& packed) {
    const auto& shifts = op.rescale.shift;
    const bool room = has_room(op),
               all_long = std::all_of(shifts.begin(), shifts.end(), [](int8_t s) { return s > 32; });
    const int32_t zero_point = op.wide ? 0 : op.output_zero_point + V::kFlip;
    packed.wide = op.wide;
    const bool negative_clamped = !op.wide && op.clamp_low >= op.output_zero_point;
    packed.rounds = !op.rescale.twice ? Rounds::kOnce : negative_clamped ? Rounds::kUp : Rounds::kTwice;
    packed.usual = !op.wide && room && all_long;
    packed.late = room ? 0 : zero_point;
    packed.low = V::bytes(op.clamp_low + V::kFlip);
    packed.high = V::bytes(op.clamp_high + V::kFlip);
    return zero_point - packed.late;
  }

  static std::unique_ptr<Packed> pack(const Conv& op, const In& in, const Out& out) {
    if (!suits(op, in, out)) return nullptr;
    auto packed = std::make_unique<PackedConv>();
    const int32_t channels = out.shape.channels, zero_point = pack_output(op, *packed);
    const std::vector<Quad> entries = all_entries(op, in, channels);
    const bool tiled = packed->usual && faster_by_tiles(op, out.shape, entries);
    const bool depthwise = packed->usual && ByTaps::suits(op, out.shape);
    packed->bytes = int64_t(op.weights.size());  // nearly
    if (tiled) pack_tiles(op, channels, *packed);
    if (depthwise) pack_taps(op, channels, *packed);
    for (int32_t quad = 0; quad < quads(channels); ++quad) {
      auto strips = tiled || depthwise ? typename V::Strips() : V::strips(entries[size_t(quad)]);
      packed->quads.push_back(pack_quad(op, quad, channels, zero_point, std::move(strips)));
    }
    return packed;
  }
};

}  // namespace
}  // namespace intrs
