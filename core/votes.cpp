#include "votes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "error.h"
#include "exit.h"

namespace intrs {
namespace {

void check(const Ballot& ballot, unsigned threads) {
  ballot.samples.check();
  require(uint64_t(ballot.program.network.dimension()) <= kMaxCoordinates, "the image is too large");
  require(threads <= kMostThreads, "too many threads");
}

// What the threads share: blocks are handed out one by one, and the last to leave is waited for.
struct Shared {
  std::atomic<uint64_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable left;
  unsigned working = 0;
};

class Worker {
 public:
  Worker(const Ballot& ballot, Shared& shared)
      : counts(size_t(ballot.program.network.classes())),
        ballot_(ballot),
        runner_(ballot.program),
        pixels_(size_t(ballot.program.network.dimension())),
        shared_(shared) {}

  // One block, if there is one left.
  bool next() {
    const auto lanes = uint64_t(runner_.lanes());
    const uint64_t begin = shared_.next.fetch_add(lanes);
    if (begin >= ballot_.samples.count) return false;
    block(begin, std::min(lanes, ballot_.samples.count - begin));
    return true;
  }

  void work() {
    while (!shared_.stop && !exit_begun() && next()) {
    }
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    --shared_.working;
    shared_.left.notify_all();
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
    shared_.done += count;
  }

  const Ballot& ballot_;
  Runner runner_;
  std::vector<int32_t> pixels_;
  Shared& shared_;
};

// A machine that grants fewer threads than asked for still does the work, if only one.
std::vector<std::thread> start(std::vector<Worker>& workers, Shared& shared) {
  std::vector<std::thread> running;
  try {
    for (Worker& worker : workers) running.emplace_back([&worker] { worker.work(); });
  } catch (const std::system_error&) {
    require(!running.empty(), "the operating system grants no thread");
    const std::lock_guard<std::mutex> lock(shared.mutex);
    shared.working -= unsigned(workers.size() - running.size());
  }
  return running;
}

void watch(Shared& shared, const Progress& progress) {
  std::unique_lock<std::mutex> lock(shared.mutex);
  while (!shared.left.wait_for(lock, std::chrono::milliseconds(100), [&] { return shared.working == 0; })) {
    lock.unlock();
    if (progress && !progress(shared.done)) shared.stop = true;
    lock.lock();
  }
}

}  // namespace

std::vector<uint64_t> count_votes(const Ballot& ballot, unsigned threads, const Progress& progress) {
  check(ballot, threads);
  const uint64_t blocks = ballot.samples.count / uint64_t(ballot.program.kernels.layout.lanes) + 1;
  const unsigned most = std::max(1u, threads ? threads : std::thread::hardware_concurrency());
  Shared shared;
  shared.working = unsigned(std::min<uint64_t>(most, blocks));
  std::vector<Worker> workers;
  workers.reserve(shared.working);
  for (unsigned i = 0; i < shared.working; ++i) workers.emplace_back(ballot, shared);
  std::vector<std::thread> running = start(workers, shared);
  watch(shared, progress);
  for (std::thread& thread : running) thread.join();
  std::vector<uint64_t> counts(size_t(ballot.program.network.classes()));
  for (const Worker& worker : workers) {
    for (size_t c = 0; c < counts.size(); ++c) counts[c] += worker.counts[c];
  }
  return counts;
}

std::vector<uint64_t> count_votes_here(const Ballot& ballot, const Progress& progress) {
  check(ballot, 1);
  Shared shared;
  Worker worker(ballot, shared);
  while (worker.next() && (!progress || progress(shared.done))) {
  }
  return worker.counts;
}

}  // namespace intrs
