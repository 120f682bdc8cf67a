// A mutex. In WebAssembly each worker has an instance of its own, so there is one thread, and the library has no mutex.
#pragma once

#include <mutex>

namespace intrs {

#if defined(__wasm__)
struct Mutex {
  void lock() {}
  void unlock() {}
};
#else
using Mutex = std::mutex;
#endif

using Lock = std::lock_guard<Mutex>;

}  // namespace intrs
