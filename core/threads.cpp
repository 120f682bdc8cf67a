#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "error.h"
#include "exit.h"
#include "voter.h"

namespace intrs {
namespace {

// What the threads share: the last to leave is waited for.
struct Shared : Handout {
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable left;
  unsigned working = 0;
};

class Worker : public Voter {
 public:
  Worker(const Ballot& ballot, Shared& shared) : Voter(ballot, shared), shared_(shared) {}

  void work() {
    while (!shared_.stop && !exit_begun() && next()) {
    }
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    --shared_.working;
    shared_.left.notify_all();
  }

 private:
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
    if (!shared.stop && progress && !progress(shared.done)) shared.stop = true;
    lock.lock();
  }
}

}  // namespace

std::vector<uint64_t> count_votes(const Ballot& ballot, unsigned threads, const Progress& progress) {
  check_ballot(ballot, threads);
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

}  // namespace intrs
