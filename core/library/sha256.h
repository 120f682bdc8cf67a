// SHA-256 of device/intrs_sha256.h as a value.
#pragma once

#include <array>

#include "../../device/intrs_sha256.h"

namespace intrs {

using Digest = std::array<uint8_t, 32>;

inline Digest sha256(const void* bytes, size_t size) {
  Digest digest;
  intrs_sha256(static_cast<const uint8_t*>(bytes), size, digest.data());
  return digest;
}

}  // namespace intrs
