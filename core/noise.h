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

  // Noise of coordinates 0 .. dimension - 1 of one sample.
  void draw(const Stream& stream, uint32_t dimension, int32_t* out) const;

  int32_t first() const { return first_; }
  int32_t last() const { return first_ + int32_t(thresholds_.size()); }

 private:
  static constexpr int kGuideBits = 12;

  int32_t value(uint32_t high, const Stream& stream, uint32_t coordinate) const;

  int32_t first_;
  std::vector<uint64_t> thresholds_;
  std::vector<uint32_t> guide_;  // guide_[b]: number of thresholds below b << (64 - kGuideBits)
};

}  // namespace intrs
