#include "exit.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

namespace intrs {
namespace {

constexpr std::chrono::seconds kPatience{5};  // with callbacks

std::atomic<bool> begun{false};

struct State {
  std::mutex mutex;
  std::condition_variable ended;
  int working = 0, in_callbacks = 0;
  std::thread::id exiting;
};

void forked() noexcept;

// Never destroyed: threads may still use it while the process ends.
State& state() {
  static State* const state = [] {
    pthread_atfork(nullptr, nullptr, forked);
    return new State;
  }();
  return *state;
}

// A child process has but the thread that called fork: no work goes on in it, and nobody holds the mutex.
void forked() noexcept {
  new (&state()) State;
}

}  // namespace

bool exit_begun() {
  return begun.load(std::memory_order_relaxed);
}

bool is_exiting_thread() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().exiting == std::this_thread::get_id();
}

void begin_exit() {
  State& s = state();
  std::unique_lock<std::mutex> lock(s.mutex);
  s.exiting = std::this_thread::get_id();
  begun = true;
  while (!s.ended.wait_for(lock, kPatience, [&] { return s.working == 0; })) {
    if (s.working == s.in_callbacks) return;
  }
}

Work::Work() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  counted_ = !begun;
  if (counted_) ++state().working;
}

void Work::end() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (counted_) --state().working;
  counted_ = false;
  state().ended.notify_all();
}

InCallback::InCallback() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  ++state().in_callbacks;
}

InCallback::~InCallback() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  --state().in_callbacks;
}

}  // namespace intrs
