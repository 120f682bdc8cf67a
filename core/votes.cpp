#include "votes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "error.h"

namespace intrs {
namespace {

void check(const Job& job) {
  const Samples& s = job.samples;
  require(s.count <= UINT64_MAX - s.first, "the sample range goes past the last address");
  require(s.count == 0 || (s.first < kSelection) == (s.first + s.count - 1 < kSelection),
          "the sample range runs from estimation into selection");
  require(uint64_t(job.program.network.dimension()) <= kMaxCoordinates, "the image is too large");
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
  Worker(const Job& job, Shared& shared)
      : counts(size_t(job.program.network.classes())),
        job_(job),
        runner_(job.program),
        pixels_(size_t(job.program.network.dimension())),
        shared_(shared) {}

  void work() {
    const auto lanes = uint64_t(runner_.lanes());
    while (!shared_.stop) {
      const uint64_t begin = shared_.next.fetch_add(lanes);
      if (begin >= job_.samples.count) break;
      block(begin, std::min(lanes, job_.samples.count - begin));
    }
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    --shared_.working;
    shared_.left.notify_all();
  }

  std::vector<uint64_t> counts;

 private:
  void block(uint64_t begin, uint64_t count) {
    for (uint64_t lane = 0; lane < count; ++lane) {
      const Stream stream = {job_.seed, job_.image_index, job_.samples.first + begin + lane};
      job_.noise.draw(stream, job_.program.kernels.noise, job_.image, uint32_t(pixels_.size()), pixels_.data());
      runner_.load(int32_t(lane), pixels_.data());
    }
    runner_.run();
    for (uint64_t lane = 0; lane < count; ++lane) ++counts[size_t(runner_.top_class(int32_t(lane)))];
    shared_.done += count;
  }

  const Job& job_;
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

std::vector<uint64_t> count_votes(const Job& job, unsigned threads, const Progress& progress) {
  check(job);
  const uint64_t blocks = job.samples.count / uint64_t(job.program.kernels.layout.lanes) + 1;
  const unsigned most = std::max(1u, threads ? threads : std::thread::hardware_concurrency());
  Shared shared;
  shared.working = unsigned(std::min<uint64_t>(most, blocks));
  std::vector<Worker> workers;
  workers.reserve(shared.working);
  for (unsigned i = 0; i < shared.working; ++i) workers.emplace_back(job, shared);
  std::vector<std::thread> running = start(workers, shared);
  watch(shared, progress);
  for (std::thread& thread : running) thread.join();
  std::vector<uint64_t> counts(size_t(job.program.network.classes()));
  for (const Worker& worker : workers) {
    for (size_t c = 0; c < counts.size(); ++c) counts[c] += worker.counts[c];
  }
  return counts;
}

}  // namespace intrs
