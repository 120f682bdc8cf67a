#include "noise.h"

#include <algorithm>
#include <functional>

#include "error.h"

namespace intrs {

NoiseTable::NoiseTable(int32_t first, std::vector<uint64_t> thresholds)
    : first_(first), thresholds_(std::move(thresholds)) {
  require(first > -32768 && first + int64_t(thresholds_.size()) <= 32767, "noise table: values must fit 16 bits");
  require(std::adjacent_find(thresholds_.begin(), thresholds_.end(), std::greater_equal<>()) == thresholds_.end(),
          "noise table: thresholds must increase");
  for (uint32_t b = 0; b < 1u << kBucketBits; ++b) buckets_.push_back(bucket(b));
}

NoiseTable::Bucket NoiseTable::bucket(uint32_t index) const {
  const uint64_t low = uint64_t{index} << (64 - kBucketBits), high = low + (uint64_t{1} << (64 - kBucketBits)) - 1;
  const auto begin = std::lower_bound(thresholds_.begin(), thresholds_.end(), low);
  const auto end = std::upper_bound(begin, thresholds_.end(), high);
  const auto value = int16_t(first_ + (begin - thresholds_.begin()));
  if (begin == end) return {uint32_t(low >> 32), int16_t(value - 1), 0};  // every high half is at or past the edge
  return {uint32_t(*begin >> 32), value, int16_t(end - begin > 1)};
}

// Thresholds whose high half is below `high` are counted without the low half; equal ones need it.
int32_t NoiseTable::search(uint32_t high, const Stream& stream, uint32_t coordinate) const {
  auto at = std::lower_bound(thresholds_.begin(), thresholds_.end(), uint64_t{high} << 32);
  if (at != thresholds_.end() && uint32_t(*at >> 32) == high) {
    const Block refining = stream.block(kRefining | coordinate / kCoordinatesPerBlock);
    const uint64_t u = uint64_t{high} << 32 | refining[coordinate % kCoordinatesPerBlock];
    at = std::upper_bound(at, thresholds_.end(), u);
  }
  return first_ + int32_t(at - thresholds_.begin());
}

void NoiseTable::draw(const Stream& stream, DrawBlocks blocks, const uint8_t* image, uint32_t dimension,
                      int32_t* out) const {
  constexpr uint32_t at_once = kBlocksAtOnce * kCoordinatesPerBlock;
  Words words;
  for (uint32_t start = 0; start < dimension; start += at_once) {
    blocks(stream, start / kCoordinatesPerBlock, words);
    const uint32_t end = std::min(dimension - start, at_once);
    for (uint32_t i = 0; i < end; ++i) {
      const uint32_t high = words[i % kCoordinatesPerBlock][i / kCoordinatesPerBlock];
      const Bucket& b = buckets_[high >> (32 - kBucketBits)];
      int32_t value = b.value + (high >= b.edge);
      if (b.crowded || high == b.edge) value = search(high, stream, start + i);
      out[start + i] = image[start + i] + value;
    }
  }
}

}  // namespace intrs
