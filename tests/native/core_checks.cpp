// Native checks of the core, meant for AddressSanitizer and UBSan: core_checks MUTATIONS NETWORK...
// Each NETWORK holds canonical bytes. It must run alike under every kernel set, lane width and number of threads;
// after each of MUTATIONS random changes it must be refused with an Error, or run without a fault.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "error.h"
#include "kernels/self_check.h"
#include "votes.h"

namespace {

using namespace intrs;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::exit(1);
}

struct Random {  // xorshift64*: repeatable everywhere
  uint64_t state;
  uint64_t operator()() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
  }
  uint64_t below(uint64_t limit) { return (*this)() % limit; }
};

using Bytes = std::vector<uint8_t>;

Bytes read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  check(bool(file), path);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void rfc_8439() {  // section 2.3.2
  Key key;
  for (uint32_t i = 0; i < 8; ++i) key[i] = (4 * i) | (4 * i + 1) << 8 | (4 * i + 2) << 16 | (4 * i + 3) << 24;
  const Block block = chacha20_block(key, 1, {0x09000000, 0x4a000000, 0});
  check(block[0] == 0xe4e7f110 && block[15] == 0x4e3c50a2, "RFC 8439 block");
}

const std::vector<uint64_t>& thresholds() {
  static const std::vector<uint64_t> values = {1ull << 32, (1ull << 32) + 1, 1ull << 62, 1ull << 63, ~0ull - 5, ~0ull};
  return values;
}

struct Indices {
  uint64_t first, count;
};

std::vector<uint64_t> votes(const Network& network, const KernelSet& kernels, unsigned threads, Indices range) {
  const NoiseTable noise(-3, thresholds());
  Bytes image(size_t(network.dimension()));
  for (size_t i = 0; i < image.size(); ++i) image[i] = uint8_t(37 * i);
  const Program program(network, kernels);
  const Samples samples = {Key{1, 2, 3}, 7, range.first, range.count};
  return count_votes({program, noise, image.data(), samples}, threads, nullptr);
}

// Scores of pixels far outside 0..255, so that clamps and bounds are met.
std::vector<int32_t> scores(const Network& network, const KernelSet& kernels, size_t images, Near near = Near()) {
  const Program program(network, kernels, false, near);
  Runner runner(program);
  Random random = {42};
  const auto dimension = size_t(network.dimension());
  std::vector<int32_t> pixels(images * dimension), result;
  for (int32_t& p : pixels) p = random.below(8) ? int32_t(random.below(4000)) - 2000 : int32_t(random());
  for (size_t begin = 0; begin < images; begin += size_t(runner.lanes())) {
    const size_t count = std::min(images - begin, size_t(runner.lanes()));
    for (size_t i = 0; i < count; ++i) runner.load(int32_t(i), &pixels[(begin + i) * dimension]);
    runner.run();
    for (size_t i = 0; i < count; ++i) {
      for (int32_t c = 0; c < network.classes(); ++c) result.push_back(runner.score(int32_t(i), c));
    }
  }
  return result;
}

std::vector<const KernelSet*> all_sets() {
  std::vector<const KernelSet*> sets = {&select_kernels("scalar-1"), &select_kernels("scalar-5")};
  for (const std::string& name : kernel_names()) sets.push_back(&select_kernels(name));
  return sets;
}

void runs_alike(const Network& network) {
  const KernelSet& scalar = select_kernels("scalar");
  const auto expected = scores(network, scalar, 19);
  const auto counted = votes(network, scalar, 1, {3, 37});
  for (const KernelSet* set : all_sets()) {
    check(scores(network, *set, 19) == expected, set->name);
    for (const int64_t kept : {3000, 30000, 300000}) {  // layers run together, few or many rows at a time
      check(scores(network, *set, 19, {kept, 0}) == expected, "layers run together");
    }
    check(votes(network, *set, 1, {3, 37}) == counted, set->name);
    check(votes(network, *set, 3, {3, 37}) == counted, "votes with three threads");
  }
  auto sum = votes(network, scalar, 2, {3, 20});
  const auto rest = votes(network, scalar, 2, {23, 17});
  for (size_t c = 0; c < sum.size(); ++c) sum[c] += rest[c];
  check(sum == counted, "votes over two ranges");
}

void mutate(Bytes& bytes, Random& random) {
  const uint64_t kind = random.below(10);
  if (kind == 0) {
    bytes.resize(random.below(bytes.size() + 1));
  } else if (kind == 1) {
    bytes.push_back(uint8_t(random()));
  } else {
    const uint64_t header = kind < 7 ? std::min<uint64_t>(bytes.size(), 200) : bytes.size();
    for (uint64_t i = 0; i <= random.below(3); ++i) bytes[random.below(header)] = uint8_t(random());
  }
}

bool survives(const Bytes& bytes) {  // true if it is still a network
  try {
    const Network network = Network::parse(bytes.data(), bytes.size());
    if (network.multiply_adds() > 200000 || network.dimension() > 20000) return true;
    const auto expected = scores(network, select_kernels("scalar-1"), 2);
    for (const std::string& name : kernel_names())
      check(scores(network, select_kernels(name), 2, {10000, 0}) == expected, "mutation");
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <class Act>
bool refused(Act act) {
  try {
    act();
  } catch (const Error&) {
    return true;
  }
  return false;
}

void refuses_bad_ballots(const Network& network) {
  const KernelSet& scalar = select_kernels("scalar");
  for (const Indices bad : {Indices{kSelection - 1, 2}, Indices{UINT64_MAX, 2}}) {
    check(refused([&] { votes(network, scalar, 1, bad); }), "a range across selection and estimation is refused");
  }
  check(refused([&] { votes(network, scalar, kMostThreads + 1, {0, 1}); }), "too many threads are refused");
}

// The self-check meets every kind of layer. Under a set with borders it runs layers together, rows that are done with
// make room there, and a plan that holds fewer rows than its steps need is refused.
void self_check_covers() {
  std::set<size_t> kinds;
  for (const Layer& layer : check_kinds().layers) kinds.insert(layer.operation.index());
  check(kinds.size() == std::variant_size_v<Operation>, "the self-check has every kind of layer");
  const Network network = check_rows();
  for (const KernelSet* set : all_sets()) {
    for (const int32_t rows : kCheckRows) {
      Program program(network, *set, false, check_near(rows));
      if (!set->layout.bordered) continue;
      const auto longest = std::max_element(program.stages.begin(), program.stages.end(),
                                            [](Stage a, Stage b) { return a.last - a.first < b.last - b.first; });
      check(longest->last - longest->first == 6 && longest->rows == rows, "the self-check runs seven layers by rows");
      std::set<size_t> moved;
      for_steps(program, *longest, [&](const Step& step) {
        if (step.origin != step.old_origin) moved.insert(step.layer);
      });
      check(moved.size() >= 3, "rows make room in the self-check");
      for (size_t layer : moved) {
        const int32_t held = std::exchange(program.held[layer + 1], 0);
        check(refused([&] { prove_stages(program); }), "a plan without room is refused");
        program.held[layer + 1] = held;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  check(argc >= 3, "usage: core_checks MUTATIONS NETWORK...");
  rfc_8439();
  self_check_covers();
  Random random = {20260101};
  long accepted = 0, refused = 0;
  for (int i = 2; i < argc; ++i) {
    const Bytes bytes = read(argv[i]);
    const Network network = Network::parse(bytes.data(), bytes.size());
    runs_alike(network);
    refuses_bad_ballots(network);
    for (long m = 0; m < std::atol(argv[1]); ++m) {
      Bytes changed = bytes;
      mutate(changed, random);
      ++(survives(changed) ? accepted : refused);
    }
  }
  for (const std::string& name : kernel_names()) std::printf("%s ", name.c_str());
  std::printf("- %d networks run alike; of their mutations %ld were refused, %ld ran\n", argc - 2, refused, accepted);
}
