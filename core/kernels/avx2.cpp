// AVX2: eight samples a vector. It has no exact dot product of bytes: VPMADDUBSW adds two products in 16 bits and
// saturates. The weights are constants, so how much fits is proven here, in `chunks`: entries are added in 16 bits as
// long as neither their positive nor their negative weights, times 255, can leave 16 bits; then they are widened once.
#include "x86_256.h"

namespace intrs {
namespace {

constexpr int32_t kMostWeight = 32767 / 255;  // what the weights of one sign may sum to in a chunk; 128
constexpr size_t kOpenChunks = 24;            // chunks that are still being filled
constexpr int kMostEntries = 8;               // of a chunk

// What one chunk holds so far: sums of positive and of negative weights for each of the two 16-bit sums.
struct Chunk {
  int32_t positive[2] = {}, negative[2] = {};
  std::vector<Entry> entries;

  bool takes(const Entry& e) {
    if (entries.size() == kMostEntries) return false;
    int32_t p[2] = {positive[0], positive[1]}, n[2] = {negative[0], negative[1]};
    for (int k = 0; k < kQuad; ++k) {
      int32_t* sums = e.weights[k] > 0 ? p : n;
      sums[k / 2] += std::abs(int32_t{e.weights[k]});
    }
    if (p[0] > kMostWeight || p[1] > kMostWeight || n[0] > kMostWeight || n[1] > kMostWeight) return false;
    std::copy_n(p, 2, positive);
    std::copy_n(n, 2, negative);
    entries.push_back(e);
    return true;
  }
};

// An entry of which two weights of one sign do not fit a chunk together, as two entries.
std::vector<Entry> fitting(const Entry& e) {
  if (Chunk().takes(e)) return {e};
  Entry first = e, second = e;
  first.weights[1] = first.weights[3] = second.weights[0] = second.weights[2] = 0;
  return {first, second};
}

// First fit, which comes close to the fewest chunks.
std::vector<Chunk> chunks(const std::vector<Entry>& entries) {
  std::vector<Chunk> all;
  for (const Entry& entry : entries) {
    for (const Entry& part : fitting(entry)) {
      size_t at = all.size() > kOpenChunks ? all.size() - kOpenChunks : 0;
      while (at < all.size() && !all[at].takes(part)) ++at;
      if (at == all.size()) {
        all.emplace_back();
        all.back().takes(part);
      }
    }
  }
  return all;
}

struct Vector : Avx2Vector {
  static constexpr int32_t kPixels = 5, kTiles = 2, kLeastTiled = 8;
  static constexpr int kTogether = kQuad, kUnroll = 2;
  static constexpr int32_t kDepthwisePixels = 2;
  static constexpr int64_t kTileCycles[2] = {64, 2450};

  static Vec dot16(Vec sum, Vec pairs, Vec weights) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, weights));
    __asm__("" : "+x"(sum));  // GCC would add in another order, for which there are not enough registers
    return sum;
  }

  // Depthwise layers: taps 0 and 2 of a lane, and 1 and 3, as pairs of 16 bits, whose products fit 32.
  struct Taps {
    Vec even, odd;
  };
  struct TapWeights {
    int32_t even[kQuad], odd[kQuad];
  };
  static TapWeights tap_weights(const int8_t (&taps)[kQuad][4]) {
    TapWeights weights;
    for (int k = 0; k < kQuad; ++k) {
      weights.even[k] = int32_t(uint32_t(uint16_t(taps[k][0])) | uint32_t(uint16_t(taps[k][2])) << 16);
      weights.odd[k] = int32_t(uint32_t(uint16_t(taps[k][1])) | uint32_t(uint16_t(taps[k][3])) << 16);
    }
    return weights;
  }
  static Taps load_taps(const TapWeights& weights) { return {fours(weights.even), fours(weights.odd)}; }
  static Taps taps(Vec bytes) { return {even16(bytes), odd16(bytes)}; }
  static Vec dot_taps(Vec sum, const Taps& taps, const Taps& weights) {
    return dot16(dot16(sum, taps.even, weights.even), taps.odd, weights.odd);
  }

  // Of one output channel: chunks sorted by length, so that no branch depends on one chunk's length.
  struct Strip {
    std::vector<Entry> entries;
    int32_t chunks[kMostEntries + 1] = {};  // how many there are of each length
  };

  // Hundredths of cycles, measured on Zen 4, RESCALE included, for weights of usual size.
  static int64_t cycles(const Quad& quad) {
    int64_t cycles = 0;
    for (const auto& entries : quad) cycles += 100 * int64_t(entries.size()) + 600;
    return cycles;
  }

  using Strips = std::array<Strip, kQuad>;

  static Strip strip(const std::vector<Entry>& entries) {
    Strip strip;
    std::vector<Chunk> sorted = chunks(entries);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Chunk& a, const Chunk& b) { return a.entries.size() > b.entries.size(); });
    for (const Chunk& chunk : sorted) {
      ++strip.chunks[chunk.entries.size()];
      strip.entries.insert(strip.entries.end(), chunk.entries.begin(), chunk.entries.end());
    }
    return strip;
  }

  static Strips strips(const Quad& quad) { return {strip(quad[0]), strip(quad[1]), strip(quad[2]), strip(quad[3])}; }

  // The chunks of kLength entries, then those that are shorter.
  template <int P, int kLength>
  static INTRS_INLINE void run_chunks(const Strip& strip, const Entry* entry, const uint8_t* from, int64_t step,
                                      Vec (&acc)[P]) {
    const Vec ones = _mm256_set1_epi16(1);
    const int64_t steps[5] = {0, step, 2 * step, 3 * step, 4 * step};  // in registers, not added up for every entry
    for (int32_t count = strip.chunks[kLength]; count > 0; --count, entry += kLength) {
      Vec part[P];
      for (int e = 0; e < kLength; ++e) {
        const uint8_t* at = from + entry[e].offset;
        const Vec w = broadcast(four(entry[e].weights));
        for (int p = 0; p < P; ++p) {
          const Vec pairs = _mm256_maddubs_epi16(load(at + steps[p]), w);
          part[p] = e == 0 ? pairs : _mm256_add_epi16(part[p], pairs);
          __asm__("" : "+x"(part[p]));  // GCC would add in another order, for which there are not enough registers
        }
      }
      for (int p = 0; p < P; ++p) acc[p] = _mm256_add_epi32(acc[p], _mm256_madd_epi16(part[p], ones));
    }
    if constexpr (kLength > 1) run_chunks<P, kLength - 1>(strip, entry, from, step, acc);
  }

  template <int P>
  static INTRS_INLINE void run(const Strips& strips, const int32_t (&start)[kQuad], const uint8_t* from, int64_t step,
                               Vec (&sums)[P][kQuad]) {
    for (size_t k = 0; k < kQuad; ++k) {
      Vec acc[P];
      for (int p = 0; p < P; ++p) acc[p] = broadcast(start[k]);
      run_chunks<P, kMostEntries>(strips[k], strips[k].entries.data(), from, step, acc);
      for (int p = 0; p < P; ++p) sums[p][k] = acc[p];
    }
  }
};

}  // namespace

KernelSet avx2_set() {
  return Lanes<Vector>::set("avx2");
}

}  // namespace intrs
