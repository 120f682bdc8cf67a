#include "error.h"
#include "voter.h"

namespace intrs {

void check_ballot(const Ballot& ballot, unsigned threads) {
  ballot.samples.check();
  require(uint64_t(ballot.program.network.dimension()) <= kMaxCoordinates, "the image is too large");
  require(threads <= kMostThreads, "too many threads");
}

std::vector<uint64_t> count_votes_here(const Ballot& ballot, const Progress& progress) {
  check_ballot(ballot, 1);
  Handout handout;
  Voter voter(ballot, handout);
  while (voter.next() && (!progress || progress(handout.done))) {
  }
  return voter.counts;
}

}  // namespace intrs
