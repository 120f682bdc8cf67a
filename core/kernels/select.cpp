#if defined(__x86_64__)
#include <cpuid.h>
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
bool has_avx2() {
  return __builtin_cpu_supports("avx2");
}

// CPUID leaf 7, subleaf 1, EAX bit 4; older compilers do not know its name.
[[maybe_unused]] bool has_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

bool has_avx512vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
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
