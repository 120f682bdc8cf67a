// AVX VNNI: eight samples a vector, VPDPBUSD in its VEX form, for processors without AVX-512.
#include "dot.h"
#include "x86_256.h"

namespace intrs {
namespace {

struct Vector : Avx2Vector {
  static constexpr int32_t kPixels = 3, kPixelsByChannel = 12;
  static Vec dot(Vec sum, Vec codes, Vec weights) { return _mm256_dpbusd_avx_epi32(sum, codes, weights); }
};

// CPUID leaf 7, subleaf 1, EAX bit 4; older compilers do not know its name.
bool usable() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(1));
  return __builtin_cpu_supports("avx2") && (a >> 4 & 1);
}

}  // namespace

KernelSet avxvnni_set() {
  return Lanes<Dot<Vector>>::set("avxvnni", usable);
}

}  // namespace intrs
