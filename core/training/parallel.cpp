#include "parallel.h"

#include <dlfcn.h>
#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace intrs::training {
namespace {

// Threads that wait for work. There is one team per process, which is never taken down: the process ends with it.
class Team {
 public:
  // Has the members take parts 1 .. parts of the work; the caller takes part 0 and whatever there is no member for.
  void run(unsigned parts, const std::function<void(unsigned)>& work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (members_ + 1 < parts && add_member()) {
      }
      work_ = &work;
      parts_ = parts;
      working_ = std::min(parts - 1, members_);
      first_left_ = working_ + 1;
      ++round_;
    }
    begun_.notify_all();
    work(0);
    for (unsigned part = first_left_; part < parts; ++part) work(part);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return working_ == 0; });
  }

 private:
  bool add_member() {
    try {
      std::thread([this, number = members_ + 1, round = round_] { serve(number, round); }).detach();
    } catch (const std::system_error&) {  // no more threads to be had
      return false;
    }
    ++members_;
    return true;
  }

  [[noreturn]] void serve(unsigned number, unsigned long seen) {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      begun_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (number >= parts_) continue;
      lock.unlock();
      (*work_)(number);
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(unsigned)>* work_ = nullptr;
  unsigned parts_ = 0, members_ = 0, working_ = 0, first_left_ = 0;
  unsigned long round_ = 0;
};

std::mutex& one_caller() {
  static std::mutex mutex;
  return mutex;
}

Team& team() {  // a process that was forked has none of its parent's threads
  static Team* found = nullptr;
  static pid_t owner = 0;
  if (!found || owner != getpid()) {
    found = new Team;
    owner = getpid();
  }
  return *found;
}

}  // namespace

namespace {

// GNU's OpenMP, if PyTorch has loaded it. Its threads wait for PyTorch's next operation in a busy loop, so others would
// have to share the processors with them.
struct OpenMp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread)() = nullptr;
  int (*threads)() = nullptr;

  OpenMp() {
    void* library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    thread = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_thread_num"));
    threads = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_num_threads"));
    if (thread && threads) parallel = reinterpret_cast<decltype(parallel)>(dlsym(library, "GOMP_parallel"));
  }
};

struct Region {
  const OpenMp& openmp;
  unsigned parts;
  const std::function<void(unsigned)>& work;

  void run() const {  // by each of the threads that were to be had
    const auto step = unsigned(openmp.threads());
    for (auto part = unsigned(openmp.thread()); part < parts; part += step) work(part);
  }
};

bool on_openmp(unsigned parts, const std::function<void(unsigned)>& work) {
  static const OpenMp openmp;
  if (!openmp.parallel) return false;
  Region region = {openmp, parts, work};
  openmp.parallel([](void* given) { static_cast<Region*>(given)->run(); }, &region, parts, 0);
  return true;
}

}  // namespace

void on_threads(unsigned parts, const std::function<void(unsigned)>& work) {
  if (parts < 2) {
    for (unsigned part = 0; part < parts; ++part) work(part);
    return;
  }
  // No exception may leave a thread; memory may run out in any. The first is thrown again here.
  std::mutex mutex;
  std::exception_ptr failure;
  const std::function<void(unsigned)> kept = [&](unsigned part) {
    try {
      work(part);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  if (!on_openmp(parts, kept)) {
    std::unique_lock<std::mutex> mine(one_caller(), std::defer_lock);
    if (mine.try_lock()) {
      team().run(parts, kept);
    } else {
      for (unsigned part = 0; part < parts; ++part) kept(part);
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace intrs::training
