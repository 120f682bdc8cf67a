#include "noise.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "error.h"

namespace intrs {
namespace {

bool any8(const uint8_t* flags) {
  uint64_t all;
  std::memcpy(&all, flags, sizeof all);
  return all != 0;
}

// From word by word, as `Words` lie, to block by block, as coordinates do.
void turn(const int32_t* from, int32_t* to) {
  for (uint32_t b = 0; b < kBlocksAtOnce; ++b) {
    for (uint32_t w = 0; w < kCoordinatesPerBlock; ++w) to[b * kCoordinatesPerBlock + w] = from[w * kBlocksAtOnce + b];
  }
}

}  // namespace

NoiseTable::NoiseTable(int32_t first, std::vector<uint64_t> thresholds)
    : first_(first), thresholds_(std::move(thresholds)) {
  require(first > -32768 && first + int64_t(thresholds_.size()) <= 32767, "noise table: values must fit 16 bits");
  require(std::adjacent_find(thresholds_.begin(), thresholds_.end(), std::greater_equal<>()) == thresholds_.end(),
          "noise table: thresholds must increase");
  for (uint32_t b = 0; b < 1u << kBucketBits; ++b) {
    const uint64_t low = uint64_t{b} << (64 - kBucketBits);
    starts_.push_back(uint32_t(std::lower_bound(thresholds_.begin(), thresholds_.end(), low) - thresholds_.begin()));
  }
  starts_.push_back(uint32_t(thresholds_.size()));
  for (uint32_t b = 0; b < 1u << kBucketBits; ++b) buckets_.push_back(make_bucket(b));
}

NoiseTable::Bucket NoiseTable::make_bucket(uint32_t index) const {
  const uint32_t begin = starts_[index], count = starts_[index + 1] - begin;
  if (count > 1) return bucket(kCrowded, kNone);
  return bucket(first_ + int32_t(begin), count == 1 ? next_bits(uint32_t(thresholds_[begin] >> 32)) : kNone);
}

// Buckets become values; a loop for vectors.
void NoiseTable::decide(const uint32_t* high, int32_t* values, uint8_t* unsure) {
  for (uint32_t i = 0; i < kAtOnce; ++i) {
    const Bucket b = values[i];
    const int32_t own = next_bits(high[i]), below = edge(b), least = value(b);
    values[i] = least + (own > below);
    unsure[i] = uint8_t(own == below) | uint8_t(least == kCrowded);
  }
}

// Thresholds whose high half is below `high` are counted without the low half; equal ones need it.
int32_t NoiseTable::search(uint32_t high, const Stream& stream, uint32_t coordinate) const {
  const uint32_t* start = &starts_[high >> (32 - kBucketBits)];
  const auto end = thresholds_.begin() + start[1];
  auto at = std::lower_bound(thresholds_.begin() + start[0], end, uint64_t{high} << 32);
  if (at != end && uint32_t(*at >> 32) == high) {
    const Block refining = stream.block(kRefining | coordinate / kCoordinatesPerBlock);
    const uint64_t u = uint64_t{high} << 32 | refining[coordinate % kCoordinatesPerBlock];
    at = std::upper_bound(at, end, u);
  }
  return first_ + int32_t(at - thresholds_.begin());
}

void NoiseTable::draw(const Stream& stream, DrawBlocks blocks, const uint8_t* image, uint32_t dimension,
                      int32_t* out) const {
  Words words;
  int32_t values[kAtOnce], in_order[kAtOnce];
  uint8_t unsure[kAtOnce];
  for (uint32_t start = 0; start < dimension; start += kAtOnce, image += kAtOnce, out += kAtOnce) {
    blocks(stream, start / kCoordinatesPerBlock, words);
    const uint32_t* const high = words[0];
    for (uint32_t i = 0; i < kAtOnce; ++i) values[i] = buckets_[high[i] >> (32 - kBucketBits)];
    decide(high, values, unsure);
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (i % 8 == 0 && !any8(unsure + i)) {
        i += 7;
      } else if (unsure[i]) {
        values[i] = search(high[i], stream, start + i % kBlocksAtOnce * kCoordinatesPerBlock + i / kBlocksAtOnce);
      }
    }
    turn(values, in_order);
    const uint32_t end = std::min(dimension - start, kAtOnce);
    for (uint32_t i = 0; i < end; ++i) out[i] = image[i] + in_order[i];
  }
}

}  // namespace intrs
