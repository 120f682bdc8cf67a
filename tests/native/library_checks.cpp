// Checks of libintrs's C interface, meant for AddressSanitizer and UBSan:
//   library_checks MUTATIONS NETWORK NOISE RULE OTHER_RULE...
// RULE fits network and noise, the other ones do not. Wrong arguments must be refused with the right status; after each
// of MUTATIONS random changes of each file it must be refused, or run without a fault.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "libintrs.h"
#include "sha256.h"

namespace {

using Bytes = std::vector<uint8_t>;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FAILED: %s (last error: %s)\n", what, libintrs_last_error());
  std::exit(1);
}

Bytes read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  check(bool(file), path);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

struct Random {  // xorshift64*
  uint64_t state;
  uint64_t below(uint64_t limit) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull % limit;
  }
};

struct Opened {
  libintrs_network* network = nullptr;
  libintrs_noise* noise = nullptr;
  libintrs_rule* rule = nullptr;

  Opened(const Bytes& n, const Bytes& t, const Bytes& r) {
    check(libintrs_open(n.data(), n.size(), "", &network) == LIBINTRS_OK, "the network opens");
    check(libintrs_open_noise(t.data(), t.size(), &noise) == LIBINTRS_OK, "the noise opens");
    check(libintrs_open_rule(r.data(), r.size(), &rule) == LIBINTRS_OK, "the rule opens");
  }
  ~Opened() {
    libintrs_close(network);
    libintrs_close_noise(noise);
    libintrs_close_rule(rule);
  }
  Opened(const Opened&) = delete;
};

libintrs_settings settings_of(uint32_t threads) {
  libintrs_settings settings = {};
  settings.seed[0] = 1, settings.threads = threads, settings.n0 = 9;
  return settings;
}

int stop_at_once(void*, uint64_t, uint64_t) {
  return 1;
}

int stop_at_first(void* context, uint64_t, uint64_t) {
  return ++*static_cast<int*>(context) == 1;
}

// Also where all votes of a part are there when it is asked: here, of the selection, which is one block.
void stops_when_asked(const Opened& o) {
  const Bytes image(libintrs_image_bytes(o.network), 7);
  int calls = 0;
  libintrs_settings settings = settings_of(1);
  settings.n0 = 1, settings.progress = stop_at_first, settings.context = &calls;
  libintrs_answer answer;
  check(
      libintrs_certify(o.network, o.noise, o.rule, image.data(), image.size(), &settings, &answer) == LIBINTRS_STOPPED,
      "stopped by the first call");
  check(calls == 1, "not asked again");
}

void refuses_bad_arguments(const Opened& o, const Bytes& network) {
  const Bytes image(libintrs_image_bytes(o.network), 7);
  const size_t classes = libintrs_classes(o.network);
  std::vector<uint64_t> counts(classes);
  libintrs_settings settings = settings_of(1);
  libintrs_answer answer;
  uint32_t label = 0;
  libintrs_network* none = nullptr;
  const auto votes = [&](size_t bytes, uint64_t first, uint64_t number, size_t room) {
    return libintrs_votes(o.network, o.noise, image.data(), bytes, &settings, first, number, counts.data(), room);
  };
  const uint64_t selection = LIBINTRS_SELECTION;
  check(libintrs_open(nullptr, 0, "", &none) == LIBINTRS_BAD_ARGUMENT && !none, "no bytes");
  check(libintrs_open(network.data(), network.size(), "none", &none) == LIBINTRS_NO_KERNELS && !none, "no kernels");
  check(libintrs_open(network.data(), 0, "", &none) == LIBINTRS_BAD_NETWORK && !none, "no network");
  check(libintrs_open(network.data(), network.size(), "", nullptr) == LIBINTRS_BAD_ARGUMENT, "no handle");
  check(std::strlen(libintrs_last_error()) > 0, "errors have words");
  check(votes(image.size() - 1, 0, 1, classes) == LIBINTRS_BAD_IMAGE, "a short image");
  check(votes(image.size(), 0, 0, classes) == LIBINTRS_BAD_COUNT, "no samples");
  check(votes(image.size(), selection - 1, 2, classes) == LIBINTRS_BAD_COUNT, "across estimation and selection");
  check(votes(image.size(), UINT64_MAX, 2, classes) == LIBINTRS_BAD_COUNT, "past the last address");
  check(votes(image.size(), 0, 1, classes - 1) == LIBINTRS_BAD_ARGUMENT, "no room for the counts");
  check(libintrs_classify(o.network, image.data(), 1, &label) == LIBINTRS_BAD_IMAGE, "a short image to classify");
  check(libintrs_classify(o.network, image.data(), image.size(), &label) == LIBINTRS_OK && label < classes, "a class");
  check(libintrs_certify(o.network, o.noise, nullptr, image.data(), image.size(), &settings, &answer) ==
            LIBINTRS_BAD_ARGUMENT,
        "no rule");
  settings.threads = 1u << 30;
  check(votes(image.size(), 0, 1, classes) == LIBINTRS_BAD_ARGUMENT, "too many threads");
  settings = settings_of(1);
  settings.progress = stop_at_once;
  check(votes(image.size(), 0, 1000, classes) == LIBINTRS_STOPPED, "stopped");
  stops_when_asked(o);
  settings = settings_of(1);
  settings.n0 = 0;
  check(libintrs_certify(o.network, o.noise, o.rule, image.data(), image.size(), &settings, &answer) ==
            LIBINTRS_BAD_COUNT,
        "n0 = 0");
  libintrs_close(nullptr);
  libintrs_close_noise(nullptr);
  libintrs_close_rule(nullptr);
}

void threads_do_not_matter(const Opened& o) {
  const Bytes image(libintrs_image_bytes(o.network), 7);
  std::vector<uint64_t> one(libintrs_classes(o.network)), three = one;
  const libintrs_settings here = settings_of(1), there = settings_of(3);
  for (auto* to : {&one, &three}) {
    const libintrs_settings& settings = to == &one ? here : there;
    check(libintrs_votes(o.network, o.noise, image.data(), image.size(), &settings, 5, 77, to->data(), to->size()) ==
              LIBINTRS_OK,
          "votes");
  }
  check(one == three, "threads do not matter");
}

// Looks and decisions, taken by parts, are those of libintrs_certify.
void decides_by_parts(const Opened& o) {
  const Bytes image(libintrs_image_bytes(o.network), 7);
  const libintrs_settings settings = settings_of(1);
  libintrs_answer answer;
  check(libintrs_certify(o.network, o.noise, o.rule, image.data(), image.size(), &settings, &answer) == LIBINTRS_OK,
        "an answer");
  std::vector<uint64_t> looks(libintrs_rule_looks(o.rule, nullptr, 0)), counts(libintrs_classes(o.network));
  check(libintrs_rule_looks(o.rule, looks.data(), looks.size()) == looks.size(), "as many looks");
  check(looks.back() == libintrs_rule_samples(o.rule), "the last look");
  check(libintrs_check_together(o.noise, o.rule, image.size()) == LIBINTRS_OK, "together");
  check(libintrs_check_together(o.noise, o.rule, image.size() + 1) == LIBINTRS_NOT_TOGETHER, "not together");
  libintrs_decision decision = {};
  uint64_t votes = 0, done = 0;
  for (size_t look = 0; !decision.stops; ++look) {
    libintrs_votes(o.network, o.noise, image.data(), image.size(), &settings, done, looks[look] - done, counts.data(),
                   counts.size());
    votes += counts[answer.label], done = looks[look];
    check(libintrs_decide(o.rule, look, votes, &decision) == LIBINTRS_OK, "a decision");
  }
  check(votes == answer.votes && done == answer.samples && decision.certified == answer.decided &&
            decision.radius_sq == answer.radius_sq,
        "by parts as in one call");
  check(libintrs_decide(o.rule, looks.size(), 0, &decision) == LIBINTRS_BAD_ARGUMENT, "no such look");
  check(libintrs_decide(o.rule, 0, looks[0] + 1, &decision) == LIBINTRS_BAD_ARGUMENT, "more votes than samples");
  check(libintrs_decide(nullptr, 0, 0, &decision) == LIBINTRS_BAD_ARGUMENT, "no rule to decide");
}

void refuses_others(const Opened& o, const Bytes& other) {
  const Bytes image(libintrs_image_bytes(o.network), 7);
  const libintrs_settings settings = settings_of(1);
  libintrs_rule* rule = nullptr;
  libintrs_answer answer;
  check(libintrs_open_rule(other.data(), other.size(), &rule) == LIBINTRS_OK, "another rule opens");
  check(libintrs_certify(o.network, o.noise, rule, image.data(), image.size(), &settings, &answer) ==
            LIBINTRS_NOT_TOGETHER,
        "a rule for another noise or image is refused");
  libintrs_close_rule(rule);
}

Bytes mutated(const Bytes& bytes, Random& random, bool sign) {
  Bytes changed = bytes;
  const uint64_t kind = random.below(8), header = std::min<uint64_t>(bytes.size(), kind < 5 ? 160 : bytes.size());
  if (kind == 0) changed.resize(random.below(bytes.size()));
  for (uint64_t i = 0; kind > 0 && i <= random.below(3); ++i)
    changed[random.below(header)] = uint8_t(random.below(256));
  if (sign && changed.size() >= 32) {  // so that more than the digest is met
    const intrs::Digest digest = intrs::sha256(changed.data(), changed.size() - 32);
    std::copy(digest.begin(), digest.end(), changed.end() - 32);
  }
  return changed;
}

long run_if_open(const Bytes& n, const Bytes& t, const Bytes& r) {  // 1 if there was an answer
  libintrs_network* network = nullptr;
  libintrs_noise* noise = nullptr;
  libintrs_rule* rule = nullptr;
  long answered = 0;
  const bool opened = libintrs_open(n.data(), n.size(), "", &network) == LIBINTRS_OK &&
                      libintrs_open_noise(t.data(), t.size(), &noise) == LIBINTRS_OK &&
                      libintrs_open_rule(r.data(), r.size(), &rule) == LIBINTRS_OK;
  if (opened && libintrs_image_bytes(network) < 20000 && libintrs_rule_samples(rule) < 1000) {
    const Bytes image(libintrs_image_bytes(network), 7);
    const libintrs_settings settings = settings_of(1);
    libintrs_answer answer;
    answered = libintrs_certify(network, noise, rule, image.data(), image.size(), &settings, &answer) == LIBINTRS_OK;
  }
  libintrs_close(network);
  libintrs_close_noise(noise);
  libintrs_close_rule(rule);
  return answered;
}

}  // namespace

int main(int argc, char** argv) {
  check(argc >= 5, "usage: library_checks MUTATIONS NETWORK NOISE RULE OTHER_RULE...");
  const Bytes network = read(argv[2]), noise = read(argv[3]), rule = read(argv[4]);
  const Opened opened(network, noise, rule);
  refuses_bad_arguments(opened, network);
  threads_do_not_matter(opened);
  decides_by_parts(opened);
  for (int i = 5; i < argc; ++i) refuses_others(opened, read(argv[i]));
  Random random = {20260101};
  const long mutations = std::atol(argv[1]);
  long answered = 0;
  for (long m = 0; m < mutations; ++m) {
    answered += run_if_open(mutated(network, random, false), noise, rule);
    answered += run_if_open(network, mutated(noise, random, false), rule);
    answered += run_if_open(network, noise, mutated(rule, random, true));
  }
  std::printf("wrong arguments are refused; of %ld mutations %ld gave an answer\n", 3 * mutations, answered);
}
