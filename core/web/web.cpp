// What the core needs in WebAssembly beside libintrs: there are no C++ exceptions and no threads.
#include <cstdlib>
#include <exception>
#include <typeinfo>

#include "../library/sha256.h"
#include "../votes.h"

namespace intrs {

// Every worker has an instance of its own.
std::vector<uint64_t> count_votes(const Ballot& ballot, unsigned, const Progress& progress) {
  return count_votes_here(ballot, progress);
}

}  // namespace intrs

extern "C" {

// Throws a JavaScript Error with these words, through all frames: no destructor runs, so the caller drops the instance.
__attribute__((import_module("intrs"), import_name("fail"))) void intrs_web_fail(const char* words);

void* __cxa_allocate_exception(size_t size) noexcept {
  return std::malloc(size);
}

// All that the core throws is a std::exception, and has no other base.
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  intrs_web_fail(static_cast<const std::exception*>(thrown)->what());
  std::abort();
}

__attribute__((export_name("sha256"))) void intrs_web_sha256(const void* bytes, size_t size, uint8_t* digest) {
  const intrs::Digest found = intrs::sha256(bytes, size);
  for (size_t i = 0; i < found.size(); ++i) digest[i] = found[i];
}

__attribute__((export_name("allocate"))) void* intrs_web_allocate(size_t size) {
  return std::malloc(size);
}

__attribute__((export_name("release"))) void intrs_web_release(void* bytes) {
  std::free(bytes);
}
}
