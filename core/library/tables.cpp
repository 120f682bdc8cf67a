#include "tables.h"

#include <algorithm>
#include <cstring>

#include "../error.h"
#include "../little_endian.h"

namespace intrs {
namespace {

constexpr char kNoiseMagic[] = "intrsnt1", kRadiiMagic[] = "intrsrt1", kLooksMagic[] = "intrsat1";
constexpr size_t kMagic = 8;
constexpr uint32_t kKinds = 2, kBounds = 8;           // laws on integers; more bounds than there are
constexpr uint64_t kMostSamples = uint64_t{1} << 40;  // so that no sum of votes overflows
constexpr const char* kDamaged = "not a radius table or an adaptive table, or damaged; write it again";
constexpr const char* kContradicts = "a table whose entries contradict each other";

class Bytes {
 public:
  Bytes(const uint8_t* at, size_t size) : at_(at), left_(size) {}

  template <class T>
  T next(const char* otherwise) {
    require(left_ >= sizeof(T), otherwise);
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value, left_ -= sizeof value;
    return value;
  }

  template <class T>
  std::vector<T> array(uint64_t count, const char* otherwise) {
    require(count <= left_ / sizeof(T), otherwise);
    const auto number = size_t(count);
    std::vector<T> values(number);
    if (count) std::memcpy(values.data(), at_, number * sizeof(T));
    at_ += number * sizeof(T), left_ -= number * sizeof(T);
    return values;
  }

  size_t left() const { return left_; }

 private:
  const uint8_t* at_;
  size_t left_;
};

bool begins(const uint8_t* bytes, size_t size, const char* magic) {
  return size >= kMagic && std::memcmp(bytes, magic, kMagic) == 0;
}

template <size_t N>
bool is_zero(const std::array<uint8_t, N>& number, size_t from, size_t to) {
  return std::all_of(number.begin() + std::ptrdiff_t(from), number.begin() + std::ptrdiff_t(to),
                     [](uint8_t byte) { return byte == 0; });
}

// Is it a noise: are its fractions positive?
bool is_law(const Law& law) {
  return law.kind < kKinds && !is_zero(law.sigma, 0, 8) && !is_zero(law.sigma, 8, 16) && !is_zero(law.eta, 0, 16) &&
         !is_zero(law.eta, 16, 32);
}

// Kind, bound, sigma, alpha, eta, dimension: what both tables of decisions begin with.
Bytes read_setting(const uint8_t* bytes, size_t size, Rule& rule) {
  Bytes in(bytes + kMagic, size - kMagic);
  rule.law.kind = in.next<uint32_t>(kDamaged);
  require(in.next<uint32_t>(kDamaged) < kBounds, kContradicts);
  rule.law.sigma = in.next<std::array<uint8_t, 16>>(kDamaged);
  in.next<std::array<uint8_t, 32>>(kDamaged);  // alpha
  rule.law.eta = in.next<std::array<uint8_t, 32>>(kDamaged);
  rule.dimension = in.next<uint64_t>(kDamaged);
  require(is_law(rule.law) && rule.dimension > 0, kContradicts);
  return in;
}

}  // namespace

Noise Noise::parse(const uint8_t* bytes, size_t size) {
  constexpr const char* kNoTable = "not a noise table, or damaged; write one with NoiseTable.to_bytes";
  require(begins(bytes, size, kNoiseMagic), kNoTable);
  Bytes in(bytes + kMagic, size - kMagic);
  Law law;
  law.kind = in.next<uint32_t>(kNoTable);
  const auto first = in.next<int32_t>(kNoTable);
  law.sigma = in.next<std::array<uint8_t, 16>>(kNoTable);
  law.eta = in.next<std::array<uint8_t, 32>>(kNoTable);
  const auto count = in.next<uint64_t>(kNoTable);
  require(is_law(law) && count > 0 && count < 65536 && int64_t(count) == -2 * int64_t{first}, kNoTable);
  std::vector<uint64_t> thresholds = in.array<uint64_t>(count, kNoTable);
  require(in.left() == 0, kNoTable);
  for (size_t i = 0; i < count; ++i) require(thresholds[i] + thresholds[count - 1 - i] == 0, kNoTable);
  return {law, NoiseTable(first, std::move(thresholds)), sha256(bytes, size)};
}

Rule Rule::parse(const uint8_t* bytes, size_t size) {
  Rule rule;
  const bool radii = begins(bytes, size, kRadiiMagic);
  require((radii || begins(bytes, size, kLooksMagic)) && size >= kMagic + rule.digest.size(), kDamaged);
  const size_t body = size - rule.digest.size();
  const Digest found = sha256(bytes, body);
  require(std::memcmp(found.data(), bytes + body, found.size()) == 0, kDamaged);
  rule.digest = sha256(bytes, size);
  radii ? rule.read_radii(bytes, body) : rule.read_looks(bytes, body);
  return rule;
}

void Rule::read_radii(const uint8_t* bytes, size_t size) {
  Bytes in = read_setting(bytes, size, *this);
  const auto n = in.next<uint64_t>(kDamaged);
  start_ = in.next<uint64_t>(kDamaged);
  const auto count = in.next<uint64_t>(kDamaged);
  require(n > 0 && n <= kMostSamples && start_ <= n + 1 && count == n + 1 - start_, kContradicts);
  values_ = in.array<uint64_t>(count, kDamaged);
  require(in.left() == 0, kDamaged);
  require(std::is_sorted(values_.begin(), values_.end()) && (values_.empty() || values_.back() <= INT64_MAX),
          kContradicts);
  looks = {n};
}

void Rule::read_looks(const uint8_t* bytes, size_t size) {
  Bytes in = read_setting(bytes, size, *this);
  const auto count = in.next<uint32_t>(kDamaged), radii = in.next<uint32_t>(kDamaged),
             caps = in.next<uint32_t>(kDamaged);
  in.array<uint64_t>(caps, kDamaged);
  looks = in.array<uint64_t>(count, kDamaged);
  require(!looks.empty() && looks.front() > 0 && looks.back() <= kMostSamples, kContradicts);
  require(std::adjacent_find(looks.begin(), looks.end(), std::greater_equal<>()) == looks.end(), kContradicts);
  for (uint32_t radius = 0; radius < radii; ++radius) {
    Threshold t;
    t.radius_sq = in.next<uint64_t>(kDamaged);
    in.next<uint64_t>(kDamaged);  // the probability that suffices
    t.asked = in.next<uint64_t>(kDamaged) != 0;
    t.accept = in.array<int64_t>(count, kDamaged);
    t.reject = in.array<int64_t>(count, kDamaged);
    const Threshold* before = thresholds_.empty() ? nullptr : &thresholds_.back();
    require(!before || before->radius_sq <= t.radius_sq, kContradicts);
    for (size_t k = 0; k < count; ++k) {
      const int64_t most = int64_t(looks[k]) + 1;
      require(t.accept[k] >= 0 && t.accept[k] <= most && t.reject[k] >= -1 && t.reject[k] < t.accept[k], kContradicts);
      require(!before || before->accept[k] <= t.accept[k], kContradicts);
    }
    thresholds_.push_back(std::move(t));
  }
  require(in.left() == 0, kDamaged);
}

bool Rule::stops(size_t look, uint64_t votes) const {
  const auto decided = [&](const Threshold& t) {
    return !t.asked || int64_t(votes) >= t.accept[look] || int64_t(votes) <= t.reject[look];
  };
  return look + 1 == looks.size() || std::all_of(thresholds_.begin(), thresholds_.end(), decided);
}

std::optional<uint64_t> Rule::radius_sq(size_t look, uint64_t votes) const {
  std::optional<uint64_t> largest;
  if (votes >= start_ && votes - start_ < values_.size()) largest = values_[size_t(votes - start_)];
  for (const Threshold& t : thresholds_) {
    if (int64_t(votes) < t.accept[look]) break;
    largest = t.radius_sq;
  }
  return largest;
}

}  // namespace intrs
