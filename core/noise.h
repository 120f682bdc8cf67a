// Bits -> integer noise, by inverse CDF on an integer table (docs/theory.md).
//
// A coordinate has a uniform 64-bit number U: its high half is word (coordinate % 16) of block (coordinate / 16), its
// low half the same word of the refining block. The value is first + #{j : threshold[j] <= U}. The low half is drawn
// only where the high half equals that of a threshold, which happens about once in 2^32 / (number of thresholds).
#pragma once

#include <vector>

#include "bits.h"

namespace intrs {

// What is known of all numbers U with the same leading bits, in 32 bits so that the table stays in a first-level cache:
// the value below the one threshold among them in the upper half, the complement of the threshold's next 16 bits in the
// lower. The sum with a number's own next 16 bits carries into the upper half if they are larger, so its upper half is
// the value; its lower half is kEqual if they are equal, which leaves the value open. So does kCrowded in the upper
// half, which stands where several thresholds lie.
namespace bucket {
constexpr int kBits = 12;
constexpr uint32_t kEqual = 0xffff, kCrowded = 0x8000;  // no value is -32768; see NoiseTable

constexpr uint32_t index(uint32_t high) {
  return high >> (32 - kBits);
}
template <class Word>  // a number's upper half, or a vector of them
constexpr Word next_bits(Word high) {
  return high >> (16 - kBits) & 0xffff;
}
}  // namespace bucket

constexpr uint32_t kAtOnce = kBlocksAtOnce * kCoordinatesPerBlock;

struct Values {
  int16_t known[kAtOnce];               // by coordinate
  uint16_t open[kCoordinatesPerBlock];  // bit b of word w: the value of coordinate w of block b is not known
};

// The two steps of drawing that each kernel set has its own of.
struct NoiseKernels {
  DrawBlocks blocks;
  void (*values)(const Words& high, const uint32_t* buckets, Values& values);
};

class NoiseTable {
 public:
  NoiseTable(int32_t first, std::vector<uint64_t> thresholds);

  // Noise of coordinates 0 .. dimension - 1 of one sample, added to an image.
  void draw(const Stream& stream, const NoiseKernels& kernels, const uint8_t* image, uint32_t dimension,
            int32_t* out) const;

 private:
  uint32_t make_bucket(uint32_t index) const;
  int32_t search(uint32_t high, const Stream& stream, uint32_t coordinate) const;

  int32_t first_;
  std::vector<uint64_t> thresholds_;
  std::vector<uint32_t> starts_;  // the first threshold at or past each bucket, and past the last
  std::vector<uint32_t> buckets_;
};

}  // namespace intrs
