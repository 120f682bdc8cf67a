#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <TargetConditionals.h>
#include <sys/sysctl.h>
#endif

#include <cstdlib>

#include "../error.h"
#include "self_check.h"
#include "sets.h"

namespace intrs {
namespace {

#if defined(__x86_64__)
// From CPUID itself: __builtin_cpu_supports needs a symbol that not every compiler's run-time library has.
struct Cpu {
  unsigned a = 0, b = 0, c = 0, d = 0;
  Cpu(unsigned leaf, unsigned subleaf) { __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d); }
};

constexpr unsigned kTiles = 0x60000;  // of AMX

// Whether the operating system saves these registers (XCR0): 6 for AVX, 0xE6 for AVX-512.
bool saves(unsigned registers) {
  if (!(Cpu(1, 0).c >> 27 & 1)) return false;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & registers) == registers;
}

bool has_avx2() {
  return Cpu(7, 0).b >> 5 & 1 && saves(6);
}

[[maybe_unused]] bool has_avxvnni() {
  return has_avx2() && Cpu(7, 1).a >> 4 & 1;
}

bool has_avx512vnni() {
  return has_avx512() && Cpu(7, 0).c >> 11 & 1;
}

// Whether it multiplies matrices of bytes, and the system lets this process do so: Linux wants to be asked, once.
[[maybe_unused]] bool has_amx_int8() {
  constexpr unsigned kTileAndInt8 = 1u << 24 | 1u << 25;
  if (!has_avx512vnni() || (Cpu(7, 0).d & kTileAndInt8) != kTileAndInt8 || !saves(kTiles)) return false;
#if defined(__linux__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of <asm/prctl.h>, and the bit of XCR0
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}
#elif defined(__aarch64__)
bool has_neon_dot() {
#if defined(__linux__)
  constexpr unsigned long kDotProduct = 1ul << 20;  // HWCAP_ASIMDDP
  return getauxval(AT_HWCAP) & kDotProduct;
#elif defined(__APPLE__) && !TARGET_OS_OSX
  int has = 0;  // phones before the A13 do not have it
  size_t size = sizeof has;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has;
#elif defined(__APPLE__)
  return true;  // every Mac of this architecture has it
#else
  return false;
#endif
}
#endif

std::vector<KernelSet> sets_of_this_machine() {  // fastest first
  std::vector<KernelSet> sets;
#if defined(__x86_64__)
#if defined(INTRS_AMX)
  if (has_amx_int8()) sets.push_back(amx_set());
#endif
  if (has_avx512vnni()) sets.push_back(avx512vnni_set());
#if defined(INTRS_AVXVNNI)
  if (has_avxvnni()) sets.push_back(avxvnni_set());
#endif
  if (has_avx2()) sets.push_back(avx2_set());
#elif defined(__aarch64__)
  if (has_neon_dot()) sets.push_back(neon_set());
  sets.push_back(neon_smlal_set());
#elif defined(__wasm_simd128__)
  sets.push_back(wasm_set());
#endif
  sets.push_back(scalar_set());
#if !defined(__wasm__)  // where every kilobyte is fetched
  for (const KernelSet& set : test_sets()) sets.push_back(set);
#endif
  return sets;
}

const std::vector<KernelSet>& all_sets() {
  static const std::vector<KernelSet> sets = sets_of_this_machine();
  return sets;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const KernelSet& set : all_sets()) {
    if (!set.test_only) names.push_back(set.name);
  }
  return names;
}

bool has_fma() {
#if defined(__x86_64__)
  return has_avx2() && Cpu(1, 0).c >> 12 & 1;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31, kAll = kF | kDq | kBw | kVl;
  return (Cpu(7, 0).b & kAll) == kAll && saves(0xE6);
#else
  return false;
#endif
}

bool has_amx_bf16() {
#if defined(__x86_64__)
  const Cpu palette(0x1D, 1);  // some virtual machines hide it, and then oneDNN uses tiles of no rows
  return Cpu(7, 0).d >> 22 & 1 && saves(kTiles) && (palette.c & 0xFFFF) >= 16;
#else
  return false;
#endif
}

bool has_bf16() {
#if defined(__x86_64__)
  return has_avx512() && Cpu(7, 1).a >> 5 & 1;
#else
  return true;
#endif
}

const KernelSet& select_kernels(const std::string& name) {
  const char* variable = std::getenv("INTRS_KERNELS");
  const std::string wanted = !name.empty() ? name : variable && *variable ? variable : kernel_names().front();
  for (const KernelSet& set : all_sets()) {
    if (wanted == set.name) {
      self_check(set);
      return set;
    }
  }
  throw Error("there is no kernel set '" + wanted + "' on this machine; it has: " + joined(kernel_names()) +
              " (see INTRS_KERNELS)");
}

}  // namespace intrs
