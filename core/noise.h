// Bits -> integer noise, by inverse CDF on an integer table (docs/theory.md).
//
// A coordinate has a uniform 64-bit number U: its high half is word (coordinate % 16) of block (coordinate / 16), its
// low half the same word of the refining block. The value is first + #{j : threshold[j] <= U}. The low half is drawn
// only where the high half equals that of a threshold, which happens about once in 2^32 / (number of thresholds).
#pragma once

#include <vector>

#include "bits.h"

namespace intrs {

class NoiseTable {
 public:
  NoiseTable(int32_t first, std::vector<uint64_t> thresholds);

  // Noise of coordinates 0 .. dimension - 1 of one sample, added to an image.
  void draw(const Stream& stream, DrawBlocks blocks, const uint8_t* image, uint32_t dimension, int32_t* out) const;

 private:
  static constexpr int kBucketBits = 12;
  static constexpr uint32_t kAtOnce = kBlocksAtOnce * kCoordinatesPerBlock;

  // What is known of all numbers with the same leading bits, in 32 bits so that the table stays in a first-level cache:
  // the value below the one threshold among them in the upper half, the threshold's next 16 bits in the lower. Not sure
  // of its value is a number whose own next 16 bits equal those, and any if several thresholds lie there (crowded).
  using Bucket = int32_t;
  static constexpr int32_t kNone = 0xffff;      // stands for the 16 bits where there is no threshold
  static constexpr int32_t kCrowded = -0x8000;  // stands for the value; see the constructor

  static Bucket bucket(int32_t value, int32_t edge) { return value * 0x10000 + edge; }
  static int32_t value(Bucket b) { return b >> 16; }
  static int32_t edge(Bucket b) { return b & 0xffff; }
  static int32_t next_bits(uint32_t high) { return high >> (16 - kBucketBits) & 0xffff; }

  static void decide(const uint32_t* high, int32_t* values, uint8_t* unsure);
  Bucket make_bucket(uint32_t index) const;
  int32_t search(uint32_t high, const Stream& stream, uint32_t coordinate) const;

  int32_t first_;
  std::vector<uint64_t> thresholds_;
  std::vector<uint32_t> starts_;  // the first threshold at or past each bucket, and past the last
  std::vector<Bucket> buckets_;
};

}  // namespace intrs
