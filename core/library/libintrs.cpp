// The C interface: check arguments, call, turn exceptions into statuses. No logic but Algorithm 1 itself.
#include "libintrs.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <string>

#include "../error.h"
#include "../votes.h"
#include "tables.h"

struct libintrs_network {
  libintrs_network(const uint8_t* bytes, size_t size, intrs::Network parsed, const intrs::KernelSet& kernels)
      : network(std::move(parsed)), program(network, kernels), identity(intrs::sha256(bytes, size)) {}

  const intrs::Network network;
  const intrs::Program program;
  const intrs::Digest identity;
};

struct libintrs_noise {
  const intrs::Noise noise;
};

struct libintrs_rule {
  const intrs::Rule rule;
};

namespace {

using namespace intrs;

// --- errors -------------------------------------------------------------------------------------------------------

thread_local char last_error[512] = "no call of this thread has failed";

libintrs_status failed(libintrs_status status, const char* words) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", words);
  return status;
}

// Derived from std::exception like all that is thrown here: web.cpp says what such a one says.
struct Refusal : std::exception {
  Refusal(libintrs_status status_, const char* words_) : status(status_), words(words_) {}
  const char* what() const noexcept override { return words; }

  libintrs_status status;
  const char* words;
};

void check(bool holds, libintrs_status status, const char* otherwise) {
  if (!holds) throw Refusal{status, otherwise};
}

void check_given(bool given) {
  check(given, LIBINTRS_BAD_ARGUMENT, "a pointer is null");
}

// Runs act; an Error of the core is `kind` of failure.
template <class Act>
libintrs_status guarded(libintrs_status kind, Act act) noexcept {
  try {
    act();
    return LIBINTRS_OK;
  } catch (const Refusal& refusal) {
    return failed(refusal.status, refusal.words);
  } catch (const Error& error) {
    return failed(kind, error.what());
  } catch (const std::bad_alloc&) {
    return failed(LIBINTRS_NO_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return failed(LIBINTRS_INTERNAL, error.what());
  } catch (...) {
    return failed(LIBINTRS_INTERNAL, "an unknown exception");
  }
}

void write(const Digest& from, uint8_t* to) {
  std::copy(from.begin(), from.end(), to);
}

// --- votes --------------------------------------------------------------------------------------------------------

using Counts = std::vector<uint64_t>;

// One image and all that decides its noise.
struct Subject {
  const libintrs_network& network;
  const Noise& noise;
  const uint8_t* image;
  const libintrs_settings& settings;
};

void check_subject(const libintrs_network* network, const libintrs_noise* noise, const uint8_t* image,
                   size_t image_bytes, const libintrs_settings* settings) {
  check_given(network && noise && image && settings);
  check(image_bytes == libintrs_image_bytes(network), LIBINTRS_BAD_IMAGE,
        "the image does not have height * width * channels bytes");
  check(settings->threads <= kMostThreads, LIBINTRS_BAD_ARGUMENT, "too many threads");
}

void check_together(const Noise& noise, const Rule& rule, size_t image_bytes) {
  check(rule.law == noise.law, LIBINTRS_NOT_TOGETHER, "the decisions are for another noise");
  check(rule.dimension == image_bytes, LIBINTRS_NOT_TOGETHER,
        "the decisions are for images of another number of values");
}

// Votes over a range of samples, reported as part of `most` of which `before` are done.
Counts count(const Subject& subject, uint64_t first, uint64_t number, uint64_t before, uint64_t most) {
  check(number > 0, LIBINTRS_BAD_COUNT, "no samples are to be taken");
  Key key;
  std::memcpy(key.data(), subject.settings.seed, sizeof key);
  const Ballot ballot = {
      subject.network.program, subject.noise.table, subject.image, {key, subject.settings.index, first, number}};
  ballot.samples.check();
  bool stopped = false;  // maybe by the last call, when all votes are there
  const Progress progress = [&](uint64_t done) {
    const auto& settings = subject.settings;
    stopped = settings.progress && settings.progress(settings.context, before + done, most) != 0;
    return !stopped;
  };
  const unsigned threads = subject.settings.threads;
  const Counts counts = threads == 1 ? count_votes_here(ballot, progress) : count_votes(ballot, threads, progress);
  check(!stopped, LIBINTRS_STOPPED, "stopped by the progress callback");
  return counts;
}

// Algorithm 1.
libintrs_answer certify(const Subject& subject, const Rule& rule) {
  const uint64_t most = rule.looks.back(), n0 = subject.settings.n0;
  const Counts selection = count(subject, kSelection, n0, 0, most);
  const auto label = size_t(std::max_element(selection.begin(), selection.end()) - selection.begin());
  uint64_t done = 0, votes = 0;
  for (size_t look = 0;; ++look) {
    votes += count(subject, done, rule.looks[look] - done, done, most)[label];
    done = rule.looks[look];
    if (!rule.stops(look, votes)) continue;
    const auto found = rule.radius_sq(look, votes);
    return {uint32_t(found.has_value()), uint32_t(label), votes, done, found.value_or(0)};
  }
}

}  // namespace

// --- the interface ------------------------------------------------------------------------------------------------

const char* libintrs_message(libintrs_status status) {
  switch (status) {
    case LIBINTRS_OK: return "done";
    case LIBINTRS_BAD_ARGUMENT: return "a null pointer, or a number that makes no sense";
    case LIBINTRS_BAD_NETWORK: return "not the bytes of a network, or one that cannot be computed exactly";
    case LIBINTRS_BAD_COUNT: return "no samples, or more than there are addresses";
    case LIBINTRS_BAD_IMAGE: return "the image does not have height * width * channels bytes";
    case LIBINTRS_STOPPED: return "stopped by the progress callback";
    case LIBINTRS_BAD_TABLE: return "not a noise table, not a table of decisions, or damaged";
    case LIBINTRS_NOT_TOGETHER: return "network, noise and decisions are not for each other";
    case LIBINTRS_NO_KERNELS: return "no such kernel set on this machine, or it failed its self-check";
    case LIBINTRS_NO_MEMORY: return "there is not enough memory";
    case LIBINTRS_INTERNAL: return "a defect of this library; please report it";
  }
  return "unknown status";
}

const char* libintrs_last_error(void) {
  return last_error;
}

libintrs_status libintrs_open(const void* bytes, size_t size, const char* kernels, libintrs_network** network) {
  if (network) *network = nullptr;
  const KernelSet* set = nullptr;
  const libintrs_status status = guarded(LIBINTRS_NO_KERNELS, [&] {
    check_given(bytes && kernels && network);
    set = &select_kernels(kernels);
  });
  if (status != LIBINTRS_OK) return status;
  return guarded(LIBINTRS_BAD_NETWORK, [&] {
    const auto* from = static_cast<const uint8_t*>(bytes);
    *network = new libintrs_network(from, size, Network::parse(from, size), *set);
  });
}

void libintrs_close(libintrs_network* network) {
  delete network;
}

void libintrs_identity(const libintrs_network* network, uint8_t digest[32]) {
  write(network->identity, digest);
}

void libintrs_shape(const libintrs_network* network, uint32_t shape[3]) {
  const Shape& s = network->network.shapes.front();
  shape[0] = uint32_t(s.height), shape[1] = uint32_t(s.width), shape[2] = uint32_t(s.channels);
}

size_t libintrs_image_bytes(const libintrs_network* network) {
  return size_t(network->network.dimension());
}

uint32_t libintrs_classes(const libintrs_network* network) {
  return uint32_t(network->network.classes());
}

const char* libintrs_kernels(const libintrs_network* network) {
  return network->program.kernels.name;
}

libintrs_status libintrs_classify(const libintrs_network* network, const uint8_t* image, size_t image_bytes,
                                  uint32_t* label) {
  return guarded(LIBINTRS_INTERNAL, [&] {
    check_given(network && image && label);
    check(image_bytes == libintrs_image_bytes(network), LIBINTRS_BAD_IMAGE,
          "the image does not have height * width * channels bytes");
    const std::vector<int32_t> pixels(image, image + image_bytes);
    Runner runner(network->program);
    runner.load(0, pixels.data());
    runner.run();
    *label = uint32_t(runner.top_class(0));
  });
}

libintrs_status libintrs_content_index(const libintrs_network* network, const uint8_t* image, size_t image_bytes,
                                       uint32_t* index) {
  return guarded(LIBINTRS_INTERNAL, [&] {
    check_given(network && image && index);
    check(image_bytes == libintrs_image_bytes(network), LIBINTRS_BAD_IMAGE,
          "the image does not have height * width * channels bytes");
    uint32_t s[3];
    libintrs_shape(network, s);
    const std::string shape =
        "(" + std::to_string(s[0]) + ", " + std::to_string(s[1]) + ", " + std::to_string(s[2]) + ")";
    intrs_sha256_state sha;
    Digest digest;
    intrs_sha256_begin(&sha);
    intrs_sha256_add(&sha, reinterpret_cast<const uint8_t*>(shape.data()), shape.size());
    intrs_sha256_add(&sha, image, image_bytes);
    intrs_sha256_end(&sha, digest.data());
    std::memcpy(index, digest.data(), sizeof *index);
  });
}

libintrs_status libintrs_open_noise(const void* bytes, size_t size, libintrs_noise** noise) {
  if (noise) *noise = nullptr;
  return guarded(LIBINTRS_BAD_TABLE, [&] {
    check_given(bytes && noise);
    *noise = new libintrs_noise{Noise::parse(static_cast<const uint8_t*>(bytes), size)};
  });
}

void libintrs_close_noise(libintrs_noise* noise) {
  delete noise;
}

void libintrs_noise_digest(const libintrs_noise* noise, uint8_t digest[32]) {
  write(noise->noise.digest, digest);
}

libintrs_status libintrs_open_rule(const void* bytes, size_t size, libintrs_rule** rule) {
  if (rule) *rule = nullptr;
  return guarded(LIBINTRS_BAD_TABLE, [&] {
    check_given(bytes && rule);
    *rule = new libintrs_rule{Rule::parse(static_cast<const uint8_t*>(bytes), size)};
  });
}

void libintrs_close_rule(libintrs_rule* rule) {
  delete rule;
}

void libintrs_rule_digest(const libintrs_rule* rule, uint8_t digest[32]) {
  write(rule->rule.digest, digest);
}

uint64_t libintrs_rule_samples(const libintrs_rule* rule) {
  return rule->rule.looks.back();
}

size_t libintrs_rule_looks(const libintrs_rule* rule, uint64_t* looks, size_t room) {
  const auto& all = rule->rule.looks;
  if (looks) std::copy_n(all.begin(), std::min(room, all.size()), looks);
  return all.size();
}

libintrs_status libintrs_check_together(const libintrs_noise* noise, const libintrs_rule* rule, size_t image_bytes) {
  return guarded(LIBINTRS_INTERNAL, [&] {
    check_given(noise && rule);
    check_together(noise->noise, rule->rule, image_bytes);
  });
}

libintrs_status libintrs_decide(const libintrs_rule* rule, size_t look, uint64_t votes, libintrs_decision* decision) {
  return guarded(LIBINTRS_INTERNAL, [&] {
    check_given(rule && decision);
    check(look < rule->rule.looks.size() && votes <= rule->rule.looks[look], LIBINTRS_BAD_ARGUMENT,
          "no such look, or more votes than samples");
    const auto found = rule->rule.radius_sq(look, votes);
    *decision = {uint32_t(rule->rule.stops(look, votes)), uint32_t(found.has_value()), found.value_or(0)};
  });
}

libintrs_status libintrs_votes(const libintrs_network* network, const libintrs_noise* noise, const uint8_t* image,
                               size_t image_bytes, const libintrs_settings* settings, uint64_t first, uint64_t number,
                               uint64_t* counts, size_t classes) {
  return guarded(LIBINTRS_BAD_COUNT, [&] {
    check_subject(network, noise, image, image_bytes, settings);
    check_given(counts);
    check(classes >= libintrs_classes(network), LIBINTRS_BAD_ARGUMENT, "there is not room for a count per class");
    const Counts found = count({*network, noise->noise, image, *settings}, first, number, 0, number);
    std::copy(found.begin(), found.end(), counts);
  });
}

libintrs_status libintrs_certify(const libintrs_network* network, const libintrs_noise* noise,
                                 const libintrs_rule* rule, const uint8_t* image, size_t image_bytes,
                                 const libintrs_settings* settings, libintrs_answer* answer) {
  return guarded(LIBINTRS_BAD_COUNT, [&] {
    check_subject(network, noise, image, image_bytes, settings);
    check_given(rule && answer);
    check_together(noise->noise, rule->rule, image_bytes);
    *answer = certify({*network, noise->noise, image, *settings}, rule->rule);
  });
}
