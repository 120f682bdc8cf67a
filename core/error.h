// What the core throws while it is being set up; never in the hot path.
#pragma once

#include <stdexcept>
#include <string>

namespace intrs {

struct Error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

inline void require(bool holds, const char* otherwise) {
  if (!holds) throw Error(otherwise);
}

}  // namespace intrs
