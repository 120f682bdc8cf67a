// AVX VNNI: eight samples a vector, VPDPBUSD in its VEX form, for processors without AVX-512.
#include "dot.h"
#include "x86_256.h"

namespace intrs {
namespace {

struct Vector : Avx2Vector {
  static constexpr int32_t kPixels = 3, kTiles = 2, kLeastTiled = 8;
  static constexpr int kTogether = kQuad, kUnroll = 2;
  static constexpr int32_t kDepthwisePixels = 2;
  static constexpr int64_t kTileCycles[2] = {120, 3500};
  static Vec dot(Vec sum, Vec codes, Vec weights) { return _mm256_dpbusd_avx_epi32(sum, codes, weights); }
  static Vec dot16(Vec sum, Vec pairs, Vec weights) { return _mm256_dpwssd_avx_epi32(sum, pairs, weights); }
};

}  // namespace

KernelSet avxvnni_set() {
  return Lanes<Dot<Vector>>::set("avxvnni");
}

}  // namespace intrs
