// AVX-512 with VNNI: sixteen samples a vector, VPDPBUSD.
#include "x86_512.h"

namespace intrs {

KernelSet avx512vnni_set() {
  return Lanes<Dot<Avx512Vector>>::set("avx512vnni");
}

}  // namespace intrs
