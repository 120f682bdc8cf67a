#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <cstdlib>
#include <map>
#include <mutex>

#include "../error.h"
#include "runner.h"
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
#else
  return true;  // every Apple processor of this architecture has it
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
#endif
  sets.push_back(scalar_set());
  for (const KernelSet& set : test_sets()) sets.push_back(set);
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

// --- self-check: a small network that meets every kernel, against scalar
// ------------------------------------------------

struct Random {  // xorshift32
  uint32_t state = 2463534242u;
  int32_t below(uint32_t limit) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return int32_t(state % limit);
  }
};

Conv check_conv(Random& random, int32_t out, int32_t in, int32_t groups, Window window) {
  Conv conv;
  conv.window = window;
  conv.groups = groups;
  conv.channels_per_group = in / groups;
  conv.input_zero_point = -3;
  conv.output_zero_point = 5;
  conv.rescale = {{1518500250}, {40}};
  for (int32_t i = 0; i < out; ++i) conv.bias.push_back(random.below(2000) - 1000);
  const int32_t weights = out * window.height * window.width * conv.channels_per_group;
  for (int32_t i = 0; i < weights; ++i) conv.weights.push_back(int8_t(random.below(8) ? random.below(256) - 128 : 127));
  return conv;
}

Window check_window(int32_t kernel, int32_t stride, int32_t pad) {
  return {kernel, kernel, stride, stride, 1, 1, pad, pad, pad, pad};
}

Network check_network() {
  Random random;
  Network n;
  n.quantiser = {{9, 7, 3}, {-300, -300, -300}, {500, 500, 500}, {70000, 65000, 60000}, {-9000000, 0, 77}, 16};
  n.shapes = {n.quantiser.shape};
  const auto append = [&n](Operation operation, std::vector<int32_t> inputs, Shape shape) {
    n.layers.push_back({std::move(operation), std::move(inputs)});
    n.shapes.push_back(shape);
  };
  append(check_conv(random, 10, 3, 1, check_window(3, 1, 1)), {0}, {9, 7, 10});
  append(check_conv(random, 10, 10, 10, check_window(3, 1, 1)), {1}, {9, 7, 10});
  append(Add{1 << 20, 777777, 5, 5, 21, -9, -128, 100}, {1, 2}, {9, 7, 10});
  append(Concat{}, {3, 1, 2}, {9, 7, 30});
  append(check_conv(random, 13, 30, 1, check_window(1, 2, 0)), {4}, {5, 4, 13});
  append(MaxPool{check_window(3, 1, 1)}, {5}, {5, 4, 13});
  append(AvgPool{check_window(3, 2, 1), 5, -2}, {6}, {3, 2, 13});
  append(Requantise{-2, 9, -100, 101, {{1518500250}, {31}}}, {7}, {3, 2, 13});
  append(Pad{0, 0, 1, 0, 4}, {8}, {3, 3, 13});
  append(check_conv(random, 30, 30, 30, check_window(3, 2, 1)), {4}, {5, 4, 30});  // depthwise of stride 2
  append(check_conv(random, 30, 30, 1, check_window(3, 1, 1)), {4}, {9, 7, 30});   // tiles, two in a row
  Conv last = check_conv(random, 6, 13, 1, check_window(3, 1, 0));
  last.wide = true;
  last.output_zero_point = 0;
  append(std::move(last), {9}, {1, 1, 6});
  return n;
}

// Some random words, and noise from a table of which some buckets are empty and some crowded.
void check_noise(const NoiseKernels& kernels, std::vector<int32_t>& values) {
  const Key key = {1, 2, 3, 4, 5, 6, 7, 8};
  const Stream stream = {key, 9, uint64_t{1} << 40};
  Words words;
  kernels.blocks(stream, 77, words);
  for (const auto& row : words) values.insert(values.end(), row, row + kBlocksAtOnce);
  std::vector<uint64_t> thresholds;
  for (uint64_t i = 1; i < 3000; ++i) thresholds.push_back(i * i * i << 29);
  const std::vector<uint8_t> image(1000, 50);
  std::vector<int32_t> noisy(image.size());
  NoiseTable(-99, std::move(thresholds)).draw(stream, kernels, image.data(), uint32_t(image.size()), noisy.data());
  values.insert(values.end(), noisy.begin(), noisy.end());
}

// Every tensor of eleven images, which fill the lanes of a set in one or more blocks, and some noise.
std::vector<int32_t> check_values(const Network& network, const KernelSet& kernels) {
  constexpr int32_t kImages = 11;
  const Program program(network, kernels, true);
  Runner runner(program);
  Random random;
  std::vector<int32_t> pixels(size_t(network.dimension())), values;
  for (int32_t image = 0; image < kImages; image += runner.lanes()) {
    const int32_t count = std::min(kImages - image, runner.lanes());
    for (int32_t lane = 0; lane < count; ++lane) {
      for (int32_t& p : pixels) p = random.below(900) - 300;
      runner.load(lane, pixels.data());
    }
    runner.run();
    for (int32_t lane = 0; lane < count; ++lane) {
      for (size_t t = 0; t < network.shapes.size(); ++t) runner.read(t, lane, values);
    }
  }
  check_noise(kernels.noise, values);
  return values;
}

bool passes(const KernelSet& set) {
  const Network network = check_network();
  return check_values(network, set) == check_values(network, scalar_set());
}

// A set is checked when it is first selected; one that fails is refused from then on.
void self_check(const KernelSet& set) {
  static std::mutex mutex;
  static std::map<std::string, bool> passed;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = passed.emplace(set.name, false);
  if (found.second) found.first->second = passes(set);
  if (!found.first->second) {
    throw Error("kernel set '" + std::string(set.name) +
                "' failed its self-check: on this machine it does not give the " +
                "bits of the scalar one. Please report this; INTRS_KERNELS=scalar works meanwhile");
  }
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
