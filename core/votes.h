// The Monte-Carlo loop: noise, network, argmax, count. threads.cpp is the only place with threads.
#pragma once

#include <functional>

#include "bits.h"
#include "kernels/runner.h"
#include "noise.h"

namespace intrs {

// What is voted on, and by which samples.
struct Ballot {
  const Program& program;
  const NoiseTable& noise;
  const uint8_t* image;  // height, width, channels
  Samples samples;
};

// Threads of a count, at most.
constexpr unsigned kMostThreads = 4096;

// Called now and then from the calling thread with the number of samples done; false stops the count.
using Progress = std::function<bool(uint64_t done)>;

// Votes of each class over the samples; fewer if progress or the exit of Python (exit.h) stopped the count. Sample i
// alone decides vote i, so threads, blocks and order do not matter. threads = 0 stands for as many as the machine runs
// at once.
std::vector<uint64_t> count_votes(const Ballot& ballot, unsigned threads, const Progress& progress);

// The same on the calling thread alone, which reports after every block.
std::vector<uint64_t> count_votes_here(const Ballot& ballot, const Progress& progress);

}  // namespace intrs
