// Tables that the package writes, read from their canonical bytes: noise (docs/theory.md), squared radii by votes, and
// the looks of an adaptive rule (docs/adaptive.md, section 8). Untrusted input: every size is checked before it is
// used.
#pragma once

#include <optional>
#include <vector>

#include "../noise.h"
#include "sha256.h"

namespace intrs {

// What noise a table is for: law, sigma and the proven error eta of its sampling table, as they lie in the bytes.
struct Law {
  uint32_t kind = 0;
  std::array<uint8_t, 16> sigma = {};
  std::array<uint8_t, 32> eta = {};
  bool operator==(const Law& other) const { return kind == other.kind && sigma == other.sigma && eta == other.eta; }
};

struct Noise {
  // Throws Error for bytes that are no noise table in form. Whether the thresholds are those of their law it cannot
  // know: compare the digest with one that you trust.
  static Noise parse(const uint8_t* bytes, size_t size);

  Law law;
  NoiseTable table;
  Digest digest;
};

// When to stop, and what the votes of a class certify then. A fixed number of samples is a single look.
class Rule {
 public:
  // Throws Error for bytes that are no radius table and no adaptive table, or that are damaged.
  static Rule parse(const uint8_t* bytes, size_t size);

  Law law;
  uint64_t dimension = 0;       // values per image
  std::vector<uint64_t> looks;  // samples at each, ascending
  Digest digest;

  bool stops(size_t look, uint64_t votes) const;
  std::optional<uint64_t> radius_sq(size_t look, uint64_t votes) const;  // none is an abstention

 private:
  struct Threshold {  // of one radius: votes at each look that accept it, or give it up
    uint64_t radius_sq;
    bool asked;
    std::vector<int64_t> accept, reject;
  };

  void read_radii(const uint8_t* bytes, size_t size);
  void read_looks(const uint8_t* bytes, size_t size);

  std::vector<Threshold> thresholds_;  // of an adaptive rule: radii ascend
  std::vector<uint64_t> values_;       // else: squared radii from start_ votes on
  uint64_t start_ = 0;
};

}  // namespace intrs
