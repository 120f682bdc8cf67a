// ARM with the dot product extension: four samples a vector, SDOT on signed bytes.
#include "neon.h"

#include "dot.h"

namespace intrs {
namespace {

struct Vector : NeonVector {
  static constexpr int32_t kPixels = 6, kTiles = 0;
  static constexpr int32_t kDepthwisePixels = 4;

  static Vec dot(Vec sum, Vec codes, Vec weights) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(weights));
  }
  template <int k>  // by element k of the weights
  static Vec dot_element(Vec sum, Vec codes, Vec weights) {
    return vdotq_laneq_s32(sum, vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(weights), k);
  }
};

}  // namespace

KernelSet neon_set() {
  return Lanes<Dot<Vector>>::set("neon");
}

}  // namespace intrs
