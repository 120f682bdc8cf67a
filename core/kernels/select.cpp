#include <cstdlib>

#include "../error.h"
#include "kernels.h"

namespace intrs {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const KernelSet& set : scalar_sets()) {
    if (!set.test_only && set.usable()) names.push_back(set.name);
  }
  return names;
}

const KernelSet& select_kernels(const std::string& name) {
  const char* variable = std::getenv("INTRS_KERNELS");
  const std::string wanted = !name.empty() ? name : variable && *variable ? variable : kernel_names().front();
  for (const KernelSet& set : scalar_sets()) {
    if (wanted == set.name && set.usable()) return set;
  }
  throw Error("there is no kernel set '" + wanted + "' on this machine; it has: " + joined(kernel_names()) +
              " (see INTRS_KERNELS)");
}

}  // namespace intrs
