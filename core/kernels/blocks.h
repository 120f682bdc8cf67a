// Noise for sixteen blocks at once, in vectors as wide as the registers of the including kernel set.
#pragma once

#include <cstring>

#include "../little_endian.h"
#include "../noise.h"

namespace intrs {
namespace {

typedef uint32_t Words4 __attribute__((vector_size(16)));  // a word of four blocks, and so on; GCC and Clang
typedef uint32_t Words8 __attribute__((vector_size(32)));
typedef uint32_t Words16 __attribute__((vector_size(64)));

template <class Vec>
struct ChaCha20 {
  static constexpr uint32_t kBlocks = sizeof(Vec) / 4;

  template <int k>
  static Vec rotate(Vec v) {
    return v << k | v >> (32 - k);
  }

  static void quarter_round(Vec& a, Vec& b, Vec& c, Vec& d) {  // RFC 8439, 2.1
    a += b, d = rotate<16>(d ^ a);
    c += d, b = rotate<12>(b ^ c);
    a += b, d = rotate<8>(d ^ a);
    c += d, b = rotate<7>(b ^ c);
  }

  static void double_round(Vec (&s)[16]) {  // columns, then diagonals
    quarter_round(s[0], s[4], s[8], s[12]);
    quarter_round(s[1], s[5], s[9], s[13]);
    quarter_round(s[2], s[6], s[10], s[14]);
    quarter_round(s[3], s[7], s[11], s[15]);
    quarter_round(s[0], s[5], s[10], s[15]);
    quarter_round(s[1], s[6], s[11], s[12]);
    quarter_round(s[2], s[7], s[8], s[13]);
    quarter_round(s[3], s[4], s[9], s[14]);
  }

  static void start(const Stream& stream, uint32_t first, Vec (&s)[16]) {
    const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (int w = 0; w < 4; ++w) s[w] = Vec{} + constants[w];
    for (int w = 0; w < 8; ++w) s[4 + w] = Vec{} + stream.key[size_t(w)];
    uint32_t counters[kBlocks];
    for (uint32_t i = 0; i < kBlocks; ++i) counters[i] = first + i;
    std::memcpy(&s[12], counters, sizeof counters);
    s[13] = Vec{} + uint32_t(stream.sample);
    s[14] = Vec{} + uint32_t(stream.sample >> 32);
    s[15] = Vec{} + stream.image;
  }

  static void draw(const Stream& stream, uint32_t first, Words& words) {
    for (uint32_t done = 0; done < kBlocksAtOnce; done += kBlocks) {
      Vec initial[16], state[16];
      start(stream, first + done, initial);
      for (int w = 0; w < 16; ++w) state[w] = initial[w];
      for (int round = 0; round < 10; ++round) double_round(state);
      for (int w = 0; w < 16; ++w) {
        state[w] += initial[w];
        std::memcpy(&words[w][done], &state[w], sizeof(Vec));
      }
    }
  }
};

// For sets without wider registers: the vectors that random words fill, and `marks`, whose bit i is element i of one
// that has all bits or none.
struct FourBlocks {
  using Words = Words4;
  static uint32_t marks(Words v) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < sizeof v / 4; ++i) bits |= (v[i] & 1) << i;
    return bits;
  }
};

// The values of two words side by side.
using Pairs = uint32_t[kCoordinatesPerBlock / 2][kBlocksAtOnce];

// To the order of coordinates.
inline void turn(const Pairs& pairs, uint32_t* to) {
  for (uint32_t b = 0; b < kBlocksAtOnce; ++b) {
    for (const auto& pair : pairs) *to++ = pair[b];
  }
}

// From random words to values; see `bucket`.
template <class V>
struct Lookup {
  using Vec = typename V::Words;
  static constexpr uint32_t kBlocks = sizeof(Vec) / 4;

  static Vec load(const uint32_t* from) {
    Vec v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }

  // The value is in the upper half, or open.
  static Vec find(const uint32_t* high, const uint32_t* buckets, uint16_t& open, uint32_t block) {
    uint32_t found[kBlocks];
    for (uint32_t i = 0; i < kBlocks; ++i) found[i] = buckets[bucket::index(high[i])];
    const Vec sum = load(found) + bucket::next_bits(load(high));
    const auto unsure = ((sum & 0xffff) == bucket::kEqual) | (sum >> 16 == bucket::kCrowded);
    open = uint16_t(open | V::marks(Vec(unsure)) << block);
    return sum;
  }

  static void values(const Words& high, const uint32_t* buckets, Values& values) {
    Pairs pairs;
    std::memset(values.open, 0, sizeof values.open);
    for (uint32_t w = 0; w < kCoordinatesPerBlock; w += 2) {
      for (uint32_t block = 0; block < kBlocksAtOnce; block += kBlocks) {
        const Vec even = find(&high[w][block], buckets, values.open[w], block);
        const Vec odd = find(&high[w + 1][block], buckets, values.open[w + 1], block);
        const Vec both = even >> 16 | (odd & 0xffff0000);  // the first word of a pair is the lower one
        std::memcpy(&pairs[w / 2][block], &both, sizeof both);
      }
    }
    uint32_t in_order[kAtOnce / 2];
    turn(pairs, in_order);
    std::memcpy(values.known, in_order, sizeof in_order);
  }
};

template <class V>
constexpr NoiseKernels noise_kernels() {
  return {ChaCha20<typename V::Words>::draw, Lookup<V>::values};
}

}  // namespace
}  // namespace intrs
