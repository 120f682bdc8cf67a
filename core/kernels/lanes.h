// Fast kernels over vectors of samples. Included by one file per instruction set, which supplies the vector type V.
//
// A vector holds V::kLanes samples of four channels, four bytes together, so that one 4-byte group of weights,
// broadcast, multiplies it: no im2col, no shuffles. Padding is a border in memory. An output channel is a list of
// entries (offset of a vector from the pixel, four weights); groups of four zero weights have no entry and cost
// nothing.
//
// V has:
//   kLanes, kFlip            samples in a vector; 0x80 if bytes are stored unsigned, 0 if signed
//   Vec, Words, Scale        a vector; the same as 32-bit words; what `rescale` needs for one channel
//   load, store, broadcast   whole vectors; broadcast of one int32 to all lanes
//   add, sub, mul, ...       32-bit lanes; shift_right is arithmetic
//   channel<k>(v)            byte k of each lane as int32, sign or zero extended as stored
//   rescale(v, scale)        intrs_rescale, or intrs_rescale_twice if scale.twice, plus output zero point, in the form
//                            that is stored; lane i is of channel i % 4
//   rescale_long<rounds>     the same if scale.long_shift
//   join(a, b, c, d)         four channels as bytes, saturated
//   codes<rounds>(a .. d, s) join of rescale_long of each, by scales s[0] to s[3], each the same in all lanes
//   low, high                bytewise maximum and minimum
//   Lookups                  made of 256 bytes; applied to a vector, it takes each byte for the index of another
//   Strips, strips, run      entries of four output channels and the inner loop over them: see dot.h and avx2.cpp
//   cycles                   hundredths of cycles that four output channels of a pixel take so
//   Taps, taps, TapWeights   what depthwise.h multiplies, by dot_taps; tap_weights packs, load_taps loads them
//   kDepthwisePixels         outputs that it does at once
//   kByElement               products take weights by element: one vector `fours` of weights serves four channels, by
//                            dot_element<k>, mul16_element<k> and dot16_element<k>; else dot, mul16 and dot16
//   interleave8_low ...      of two vectors, within each 128 bits: their lower or higher halves by bytes, or 16 bits
//   join_samples             lanes of four channels as bytes, saturated, one vector a sample
//   kTiles                   tiles that are multiplied at once, see winograd.h; 0 for a set without 16-bit products
//   kTogether, kUnroll       and for how many output channels; pairs of input channels in a turn of that loop
//   kPixels                  output pixels of a tile, at most
//   kTileCycles              as cycles, but by tiles: for a product, and for a quad of inputs or outputs
#pragma once

#include "blocks.h"
#include "lanes_conv.h"
#include "lanes_layers.h"
#include "lanes_quantise.h"
#include "sets.h"

namespace intrs {
namespace {

template <class V>
struct Lanes : LanesConv<V>, LanesLayers<V> {
  using LanesConv<V>::run;
  using LanesLayers<V>::run;

  static KernelSet set(const char* name) {
    KernelSet set = {};
    set.name = name;
    set.layout = {kQuad, V::kLanes, V::kFlip, true};
    set.noise = noise_kernels<V>();
    set.quantise = LanesQuantise<V>::quantise;
    set.pack = LanesPack<V>::pack;
    set.layers = KernelTable<Operation>::template of<Lanes>();
    return set;
  }
};

}  // namespace
}  // namespace intrs
