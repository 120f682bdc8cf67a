#include "noise.h"

#include <algorithm>

#include "error.h"

namespace intrs {

NoiseTable::NoiseTable(int32_t first, std::vector<uint64_t> thresholds)
    : first_(first), thresholds_(std::move(thresholds)) {
  require(thresholds_.size() < 32768 && first >= -32768 && first + int64_t(thresholds_.size()) <= 32767,
          "noise table: values must fit 16 bits");
  require(std::adjacent_find(thresholds_.begin(), thresholds_.end(), std::greater_equal<>()) == thresholds_.end(),
          "noise table: thresholds must increase");
  for (uint64_t b = 0; b < uint64_t{1} << kGuideBits; ++b) {
    const auto at = std::lower_bound(thresholds_.begin(), thresholds_.end(), b << (64 - kGuideBits));
    guide_.push_back(uint32_t(at - thresholds_.begin()));
  }
}

// Thresholds whose high half is below `high` are counted without the low half; equal ones need it.
int32_t NoiseTable::value(uint32_t high, const Stream& stream, uint32_t coordinate) const {
  size_t j = guide_[high >> (32 - kGuideBits)];
  while (j < thresholds_.size() && uint32_t(thresholds_[j] >> 32) < high) ++j;
  if (j < thresholds_.size() && uint32_t(thresholds_[j] >> 32) == high) {
    const Block refining = stream.block(kRefining | coordinate / kCoordinatesPerBlock);
    const uint64_t u = uint64_t{high} << 32 | refining[coordinate % kCoordinatesPerBlock];
    while (j < thresholds_.size() && thresholds_[j] <= u) ++j;
  }
  return first_ + int32_t(j);
}

void NoiseTable::draw(const Stream& stream, uint32_t dimension, int32_t* out) const {
  for (uint32_t start = 0; start < dimension; start += kCoordinatesPerBlock) {
    const Block words = stream.block(start / kCoordinatesPerBlock);
    const uint32_t end = std::min(dimension - start, kCoordinatesPerBlock);
    for (uint32_t i = 0; i < end; ++i) out[start + i] = value(words[i], stream, start + i);
  }
}

}  // namespace intrs
