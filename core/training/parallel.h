// Work divided among threads, in parts that depend on their number alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

namespace intrs::training {

// Calls work(part) for 0 .. parts, on threads that are kept for the next call, and waits for all of them.
void on_threads(unsigned parts, const std::function<void(unsigned)>& work);

// Calls work(part, begin, end) for even parts of 0 .. count.
template <class Work>
void in_parts(size_t count, unsigned parts, const Work& work) {
  const auto begin = [&](size_t part) { return count * part / parts; };
  on_threads(parts, [&](unsigned part) { work(part, begin(part), begin(part + 1)); });
}

inline unsigned parts_of(size_t count, unsigned threads) {
  return unsigned(std::max<size_t>(1, std::min<size_t>(count, threads)));
}

}  // namespace intrs::training
