// SHA-256 (FIPS 180-4): identities of networks and tables, and the noise address of an image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace intrs {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void add(const void* bytes, size_t size);
  Digest end();  // nothing may be added afterwards

 private:
  void block();

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> held_ = {};
  uint64_t count_ = 0;
};

inline Digest sha256(const void* bytes, size_t size) {
  Sha256 hash;
  hash.add(bytes, size);
  return hash.end();
}

}  // namespace intrs
