// The Monte-Carlo loop: noise, network, argmax, count. The only place with threads.
#pragma once

#include <functional>

#include "bits.h"
#include "kernels/runner.h"
#include "noise.h"

namespace intrs {

// Samples from here on belong to the selection of the class, those below to its estimation: addresses that never meet.
constexpr uint64_t kSelection = uint64_t{1} << 63;

struct Samples {
  uint64_t first, count;
};

struct Job {
  const Program& program;
  const NoiseTable& noise;
  const uint8_t* image;  // height, width, channels
  Key seed;
  uint32_t image_index;
  Samples samples;
};

// Called now and then from the calling thread with the number of samples done; false stops the count.
using Progress = std::function<bool(uint64_t done)>;

// Votes of each class over the samples. Sample i alone decides vote i, so threads, blocks and order do not matter.
std::vector<uint64_t> count_votes(const Job& job, unsigned threads, const Progress& progress);

}  // namespace intrs
