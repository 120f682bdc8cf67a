// ChaCha20 for sixteen blocks at once, in vectors as wide as the registers of the including kernel set.
#pragma once

#include <cstring>

#include "../bits.h"

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

}  // namespace
}  // namespace intrs
