#include "noise.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "error.h"

namespace intrs {
namespace {

// Calls visit(word, block) for every value that is still open; they are few.
template <class Visit>
void for_open(const Values& values, Visit visit) {
  constexpr uint32_t kRows = 64 / kBlocksAtOnce;
  for (uint32_t w = 0; w < kCoordinatesPerBlock; w += kRows) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < kRows; ++i) bits |= uint64_t{values.open[w + i]} << i * kBlocksAtOnce;
    for (; bits != 0; bits &= bits - 1) {
      const auto at = uint32_t(__builtin_ctzll(bits));
      visit(w + at / kBlocksAtOnce, at % kBlocksAtOnce);
    }
  }
}

}  // namespace

NoiseTable::NoiseTable(int32_t first, std::vector<uint64_t> thresholds)
    : first_(first), thresholds_(std::move(thresholds)) {
  require(first > -32768 && first + int64_t(thresholds_.size()) <= 32767, "noise table: values must fit 16 bits");
  require(std::adjacent_find(thresholds_.begin(), thresholds_.end(), std::greater_equal<>()) == thresholds_.end(),
          "noise table: thresholds must increase");
  for (uint32_t b = 0; b < 1u << bucket::kBits; ++b) {
    const uint64_t low = uint64_t{b} << (64 - bucket::kBits);
    starts_.push_back(uint32_t(std::lower_bound(thresholds_.begin(), thresholds_.end(), low) - thresholds_.begin()));
  }
  starts_.push_back(uint32_t(thresholds_.size()));
  for (uint32_t b = 0; b < 1u << bucket::kBits; ++b) buckets_.push_back(make_bucket(b));
}

uint32_t NoiseTable::make_bucket(uint32_t index) const {
  const uint32_t begin = starts_[index], count = starts_[index + 1] - begin;
  if (count > 1) return bucket::kCrowded << 16;
  const uint32_t edge = count == 1 ? bucket::next_bits(uint32_t(thresholds_[begin] >> 32)) : 0xffff;
  return uint32_t(first_ + int32_t(begin)) << 16 | (0xffff - edge);
}

// Thresholds whose high half is below `high` are counted without the low half; equal ones need it.
int32_t NoiseTable::search(uint32_t high, const Stream& stream, uint32_t coordinate) const {
  const uint32_t* start = &starts_[bucket::index(high)];
  const auto end = thresholds_.begin() + start[1];
  auto at = std::lower_bound(thresholds_.begin() + start[0], end, uint64_t{high} << 32);
  if (at != end && uint32_t(*at >> 32) == high) {
    const Block refining = stream.block(kRefining | coordinate / kCoordinatesPerBlock);
    const uint64_t u = uint64_t{high} << 32 | refining[coordinate % kCoordinatesPerBlock];
    at = std::upper_bound(at, end, u);
  }
  return first_ + int32_t(at - thresholds_.begin());
}

void NoiseTable::draw(const Stream& stream, const NoiseKernels& kernels, const uint8_t* image, uint32_t dimension,
                      int32_t* out) const {
  Words words;
  Values values;
  for (uint32_t start = 0; start < dimension; start += kAtOnce, image += kAtOnce, out += kAtOnce) {
    kernels.blocks(stream, start / kCoordinatesPerBlock, words);
    kernels.values(words, buckets_.data(), values);
    for_open(values, [&](uint32_t word, uint32_t block) {
      const uint32_t i = block * kCoordinatesPerBlock + word;
      values.known[i] = int16_t(search(words[word][block], stream, start + i));
    });
    const uint32_t end = std::min(dimension - start, kAtOnce);
    for (uint32_t i = 0; i < end; ++i) out[i] = image[i] + values.known[i];
  }
}

}  // namespace intrs
