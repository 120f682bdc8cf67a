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

  // All high halves with the same leading bits. Where at most one threshold lies among them, the value is
  // `value + (high >= edge)` but for high == edge; elsewhere the bucket is crowded and the thresholds are searched.
  struct Bucket {
    uint32_t edge;
    int16_t value;
    int16_t crowded;
  };

  Bucket bucket(uint32_t index) const;
  int32_t search(uint32_t high, const Stream& stream, uint32_t coordinate) const;

  int32_t first_;
  std::vector<uint64_t> thresholds_;
  std::vector<Bucket> buckets_;
};

}  // namespace intrs
