// One block of samples after the other, by one thread.
#pragma once

#include <algorithm>
#include <atomic>

#include "votes.h"

namespace intrs {

// What those who count one ballot share: blocks are handed out one by one.
struct Handout {
  std::atomic<uint64_t> next{0}, done{0};
};

// Throws Error for a ballot that cannot be counted.
void check_ballot(const Ballot& ballot, unsigned threads);

class Voter {
 public:
  Voter(const Ballot& ballot, Handout& handout)
      : counts(size_t(ballot.program.network.classes())),
        ballot_(ballot),
        runner_(ballot.program),
        pixels_(size_t(ballot.program.network.dimension())),
        handout_(handout) {}

  // One block, if there is one left.
  bool next() {
    const auto lanes = uint64_t(runner_.lanes());
    const uint64_t begin = handout_.next.fetch_add(lanes);
    if (begin >= ballot_.samples.count) return false;
    block(begin, std::min(lanes, ballot_.samples.count - begin));
    return true;
  }

  std::vector<uint64_t> counts;

 private:
  void block(uint64_t begin, uint64_t count) {
    for (uint64_t lane = 0; lane < count; ++lane) {
      const Stream stream = ballot_.samples.stream(begin + lane);
      ballot_.noise.draw(stream, ballot_.program.kernels.noise, ballot_.image, uint32_t(pixels_.size()),
                         pixels_.data());
      runner_.load(int32_t(lane), pixels_.data());
    }
    runner_.run();
    for (uint64_t lane = 0; lane < count; ++lane) ++counts[size_t(runner_.top_class(int32_t(lane)))];
    handout_.done += count;
  }

  const Ballot& ballot_;
  Runner runner_;
  std::vector<int32_t> pixels_;
  Handout& handout_;
};

}  // namespace intrs
