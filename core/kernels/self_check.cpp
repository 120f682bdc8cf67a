#include "self_check.h"

#include <algorithm>
#include <map>

#include "../error.h"
#include "../lock.h"
#include "runner.h"
#include "sets.h"

namespace intrs {
namespace {

// --- the networks -------------------------------------------------------------------------------------------------

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

// Class scores over all of a tensor.
Conv check_scores(Random& random, const Shape& in) {
  Conv conv = check_conv(random, 6, in.channels, 1, {in.height, in.width});
  conv.wide = true;
  conv.output_zero_point = 0;
  return conv;
}

Network check_image(Shape shape) {
  Network n;
  n.quantiser = {shape, {-300, -300, -300}, {500, 500, 500}, {70000, 65000, 60000}, {-9000000, 0, 77}, 16};
  n.shapes = {shape};
  return n;
}

void append(Network& n, Operation operation, std::vector<int32_t> inputs, Shape shape) {
  n.layers.push_back({std::move(operation), std::move(inputs)});
  n.shapes.push_back(shape);
}

ConvDouble check_double(Conv conv) {
  conv.rescale.twice = true;
  return {std::move(conv)};
}

// Layers that round twice: directly, depthwise, by tiles, and with a shift of 32 and less.
void append_double(Network& n, Random& random) {
  append(n, check_double(check_conv(random, 13, 30, 1, check_window(1, 2, 0))), {4}, {5, 4, 13});
  append(n, check_double(check_conv(random, 30, 30, 30, check_window(3, 1, 1))), {4}, {9, 7, 30});
  append(n, check_double(check_conv(random, 30, 30, 1, check_window(3, 1, 1))), {4}, {9, 7, 30});
  Conv small = check_conv(random, 3, 13, 1, check_window(1, 1, 0));
  small.rescale = {{1 << 20, 777777, 1 << 19}, {31, 30, 32}};
  append(n, check_double(std::move(small)), {5}, {5, 4, 3});
  append(n, RequantiseDouble{{-2, 9, -100, 101, {{1518500250}, {33}, true}}}, {5}, {5, 4, 13});
}

// Layers of single places, and of all places with one: tensor 2 has 10 channels, as has the pixel that is made of it.
void append_pointwise(Network& n, Random& random) {
  const auto pixel = int32_t(n.shapes.size()), table = pixel + 1;
  append(n, AvgPool{{9, 7}, 5, 7}, {2}, {1, 1, 10});
  CodeTable any;
  for (int8_t& result : any.results) result = int8_t(random.below(256) - 128);
  append(n, any, {2}, {9, 7, 10});
  append(n, Mul{5, -3, 7, -128, 120, {{1518500250}, {38}}}, {2, table}, {9, 7, 10});
  append(n, Mul{7, 5, -7, -100, 127, {{1518500250}, {37}, true}}, {pixel, 2}, {9, 7, 10});
  const Rescale a = {{1518500250}, {31}, true}, b = {{1 << 30}, {33}, true}, sum = {{1700000000}, {50}, true};
  append(n, ScaledAdd{5, -3, 20, 9, -120, 127, false, a, b, sum}, {2, table}, {9, 7, 10});
  append(n, ScaledAdd{5, 7, 20, -9, -128, 100, true, b, a, sum}, {2, pixel}, {9, 7, 10});
}

// Channels in any order, and a part of them that begins within a quad; rows and columns left out, turned round,
// repeated.
void append_gathered(Network& n) {
  append(n, Gather{{}, {}, {9, 0, 5, 1, 6, 2, 7, 3, 8, 4, 4}}, {2}, {9, 7, 11});
  append(n, Gather{{0, 2, 4, 6, 8}, {6, 5, 4, 3, 2, 1, 0, 0}, {3, 4, 5, 6, 7}}, {2}, {5, 8, 5});
  append(n, Gather{{1, 1, 0}, {}, {}}, {2}, {3, 7, 10});
}

// More channels than a tile of AMX has rows, and windows whose rows are longer than one; after a ReLU, rounded twice.
void append_wide(Network& n, Random& random) {
  append(n, check_conv(random, 20, 10, 1, check_window(7, 1, 3)), {2}, {9, 7, 20});
  Conv relu = check_conv(random, 36, 30, 1, check_window(3, 2, 1));
  relu.clamp_low = relu.output_zero_point;
  append(n, check_double(std::move(relu)), {4}, {5, 4, 36});
}

}  // namespace

Network check_kinds() {
  Random random;
  Network n = check_image({9, 7, 3});
  append(n, check_conv(random, 10, 3, 1, check_window(3, 1, 1)), {0}, {9, 7, 10});
  append(n, check_conv(random, 10, 10, 10, check_window(3, 1, 1)), {1}, {9, 7, 10});
  append(n, Add{1 << 20, 777777, 5, 5, 21, -9, -128, 100}, {1, 2}, {9, 7, 10});
  append(n, Concat{}, {3, 1, 2}, {9, 7, 30});
  append(n, check_conv(random, 13, 30, 1, check_window(1, 2, 0)), {4}, {5, 4, 13});
  append(n, MaxPool{check_window(3, 1, 1)}, {5}, {5, 4, 13});
  append(n, AvgPool{check_window(3, 2, 1), 5, -2}, {6}, {3, 2, 13});
  append(n, Requantise{-2, 9, -100, 101, {{1518500250}, {31}}}, {7}, {3, 2, 13});
  append(n, Pad{0, 0, 1, 0, 4}, {8}, {3, 3, 13});
  append(n, check_conv(random, 30, 30, 30, check_window(3, 2, 1)), {4}, {5, 4, 30});  // depthwise of stride 2
  append(n, check_conv(random, 30, 30, 1, check_window(3, 1, 1)), {4}, {9, 7, 30});   // tiles, two in a row
  append_double(n, random);
  append_pointwise(n, random);
  append_gathered(n);
  append_wide(n, random);
  append(n, check_scores(random, n.shapes[9]), {9}, {1, 1, 6});
  return n;
}

// The shortcut comes first, so that all that follow up to the Add pass on their output to the next layer alone.
Network check_rows() {
  Random random;
  Network n = check_image({29, 4, 3});
  append(n, check_conv(random, 16, 3, 1, check_window(3, 2, 1)), {0}, {15, 2, 16});
  append(n, check_conv(random, 16, 3, 1, check_window(3, 1, 1)), {0}, {29, 4, 16});
  append(n, check_conv(random, 16, 16, 1, check_window(3, 1, 1)), {2}, {29, 4, 16});   // tiles
  append(n, check_conv(random, 16, 16, 16, check_window(3, 2, 1)), {3}, {15, 2, 16});  // depthwise
  append(n, Requantise{5, 9, -100, 101, {{1518500250}, {31}}}, {4}, {15, 2, 16});
  append(n, check_conv(random, 16, 16, 1, {3, 3, 1, 1, 2, 2, 2, 2, 2, 2}), {5}, {15, 2, 16});  // dilated
  append(n, Gather{{}, {1, 0}, {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}}, {6}, {15, 2, 16});
  append(n, Add{1 << 20, 777777, 5, 5, 21, -9, -128, 100}, {7, 1}, {15, 2, 16});
  Conv scores = check_scores(random, n.shapes[8]);
  scores.rescale = {{1 << 30}, {30}};  // no rounding: any other code gives other scores
  append(n, std::move(scores), {8}, {1, 1, 6});
  return n;
}

Near check_near(int32_t rows) {
  Near near;
  near.kept = INT64_MAX;
  near.small = 0;
  near.rows = rows;
  return near;
}

namespace {

// --- what is compared ---------------------------------------------------------------------------------------------

using Numbers = std::vector<int32_t>;

// Some random words, and noise from a table of which some buckets are empty and some crowded.
Numbers noise_values(const NoiseKernels& kernels) {
  Numbers values;
  const Key key = {1, 2, 3, 4, 5, 6, 7, 8};
  const Stream stream = {key, 9, uint64_t{1} << 40};
  Words words;
  kernels.blocks(stream, 77, words);
  for (const auto& row : words) values.insert(values.end(), row, row + kBlocksAtOnce);
  std::vector<uint64_t> thresholds;
  for (uint64_t i = 1; i < 3000; ++i) thresholds.push_back(i * i * i << 29);
  const std::vector<uint8_t> image(1000, 50);
  Numbers noisy(image.size());
  NoiseTable(-99, std::move(thresholds)).draw(stream, kernels, image.data(), uint32_t(image.size()), noisy.data());
  values.insert(values.end(), noisy.begin(), noisy.end());
  return values;
}

constexpr int32_t kImages = 19;  // fill all lanes of a set once, and some of them again

// Runs them and calls visit(runner, lane) for each.
template <class Visit>
void for_images(const Program& program, Visit visit) {
  Runner runner(program);
  Random random;
  std::vector<int32_t> pixels(size_t(program.network.dimension()));
  for (int32_t image = 0; image < kImages; image += runner.lanes()) {
    const int32_t count = std::min(kImages - image, runner.lanes());
    for (int32_t lane = 0; lane < count; ++lane) {
      for (int32_t& p : pixels) p = random.below(900) - 300;
      runner.load(lane, pixels.data());
    }
    runner.run();
    for (int32_t lane = 0; lane < count; ++lane) visit(runner, lane);
  }
}

Numbers all_tensors(const Network& network, const KernelSet& set) {
  Numbers values;
  for_images(Program(network, set, true), [&](const Runner& runner, int32_t lane) {
    for (size_t t = 0; t < network.shapes.size(); ++t) runner.read(t, lane, values);
  });
  return values;
}

Numbers class_scores(const Network& network, const KernelSet& set, const Near& near) {
  Numbers values;
  for_images(Program(network, set, false, near),
             [&](const Runner& runner, int32_t lane) { runner.read(network.layers.size(), lane, values); });
  return values;
}

bool passes(const KernelSet& set) {
  const KernelSet scalar = scalar_set();
  const Network kinds = check_kinds(), rows = check_rows();
  const Numbers expected = class_scores(rows, scalar, Near());
  return set.layout.lanes < kImages && noise_values(set.noise) == noise_values(scalar.noise) &&
         all_tensors(kinds, set) == all_tensors(kinds, scalar) &&
         std::all_of(
             std::begin(kCheckRows), std::end(kCheckRows),
             [&](int32_t at_once) { return class_scores(rows, set, check_near(at_once)) == expected; });
}

}  // namespace

void self_check(const KernelSet& set) {
  static Mutex mutex;
  static std::map<std::string, bool> passed;
  const Lock lock(mutex);
  auto found = passed.find(set.name);
  if (found == passed.end()) found = passed.emplace(set.name, passes(set)).first;  // running out of memory says nothing
  if (!found->second) {
    throw Error("kernel set '" + std::string(set.name) +
                "' failed its self-check: on this machine it does not give the " +
                "bits of the scalar one. Please report this; INTRS_KERNELS=scalar works meanwhile");
  }
}

}  // namespace intrs
