// The one door for randomness: (seed, image, sample, coordinate) -> ChaCha20 bits (RFC 8439).
//
// The 128 bits that RFC 8439 calls counter and nonce are the address, so any word can be drawn alone, in any order:
//   word 12 (counter)  block, that is coordinate / 16; the top bit set asks for the refining half (see noise.h)
//   word 13, 14        sample, low and high half; samples from kSelection on are the selection's
//   word 15            image
#pragma once

#include <array>
#include <cstdint>

namespace intrs {

using Key = std::array<uint32_t, 8>;     // the seed: 256 bits, little endian
using Block = std::array<uint32_t, 16>;  // one ChaCha20 block as little-endian words

constexpr uint32_t kCoordinatesPerBlock = 16;
constexpr uint32_t kRefining = 0x80000000u;
constexpr uint64_t kMaxCoordinates = uint64_t{1} << 31;

Block chacha20_block(const Key& key, uint32_t counter, const std::array<uint32_t, 3>& nonce);

// The stream of one noisy image.
struct Stream {
  const Key& key;
  uint32_t image;
  uint64_t sample;

  Block block(uint32_t index) const {
    return chacha20_block(key, index, {uint32_t(sample), uint32_t(sample >> 32), image});
  }
};

// Samples from here on belong to the selection of the class, those below to its estimation: addresses that never meet.
constexpr uint64_t kSelection = uint64_t{1} << 63;

// Noisy images of one image under one seed: samples first .. first + count - 1.
struct Samples {
  Key seed;
  uint32_t image;
  uint64_t first, count;

  // Throws Error if they go past the last address, or from estimation into selection.
  void check() const;
  Stream stream(uint64_t index) const { return {seed, image, first + index}; }
};

// Blocks first .. first + 15 of a stream at once, word by word: words[word][block]. One for each kernel set.
constexpr uint32_t kBlocksAtOnce = 16;
using Words = uint32_t[16][kBlocksAtOnce];
using DrawBlocks = void (*)(const Stream& stream, uint32_t first, Words& words);

}  // namespace intrs
