// Python's view of the core: convert, release the GIL, call. No logic.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <thread>
#include <tuple>

#include "error.h"
#include "exit.h"
#include "little_endian.h"
#include "votes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace intrs {
namespace {

template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<int32_t, nb::numpy>;

Ints owned(std::vector<int32_t> values, std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<int32_t>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<int32_t>*>(p); });
  return Ints(kept->data(), shape, owner);
}

// A whole number of Python's in 0 .. most, of any type that is one. nanobind would answer others with a C++ signature.
template <class T = uint64_t>
T whole(const nb::object& value, const char* what, T most = std::numeric_limits<T>::max()) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  const unsigned long long number = index.is_valid() ? PyLong_AsUnsignedLongLong(index.ptr()) : 0;
  const bool failed = PyErr_Occurred() != nullptr;
  if (failed || number > most) {
    PyErr_Clear();
    throw Error(std::string(what) + " must be a whole number from 0 to " + std::to_string(most));
  }
  return T(number);
}

[[noreturn]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// As nb::gil_scoped_release, but for the exit of Python; see exit.h.
class Unlocked {
 public:
  Unlocked() {
    if (!work_.allowed() && is_exiting_thread()) throw Error("Python is about to exit");
    thread_ = PyEval_SaveThread();
    if (!work_.allowed()) sleep_for_ever();
  }

  ~Unlocked() {
    if (exit_begun()) {
      work_.end();
      sleep_for_ever();
    }
    PyEval_RestoreThread(thread_);
  }

  Unlocked(const Unlocked&) = delete;

 private:
  Work work_;  // ends with the GIL taken again
  PyThreadState* thread_;
};

// Runs Python's signal handlers and the caller's progress callback; keeps what either raised for after the threads.
struct Watch {
  nb::object callback = nb::none();
  std::exception_ptr raised = {};

  bool operator()(uint64_t done) {
    const InCallback waited_for_by_exit;
    if (raised || exit_begun()) return false;
    const nb::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!callback.is_none()) callback(done);
    } catch (...) {
      raised = std::current_exception();
    }
    return !raised;
  }

  void end() const {
    if (raised) std::rethrow_exception(raised);
  }
};

// The same for work of one thread that shows no progress. It may be asked often, and looks ten times a second.
class Interruption {
 public:
  bool goes_on() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return !exit_begun();
    last_ = now;
    return watch_(0);
  }

  void end() const { watch_.end(); }

 private:
  Watch watch_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Called by Python's atexit.
void stop_all() {
  const auto threads = nb::cast<int>(nb::module_::import_("threading").attr("active_count")());
  if (threads > 1) nb::set_leak_warnings(false);  // what daemon threads use is never given back
  const nb::gil_scoped_release unlocked;
  begin_exit();
}

Key key_of(const nb::bytes& seed) {
  Key key;
  require(seed.size() == sizeof key, "a seed has 32 bytes");
  std::memcpy(key.data(), seed.c_str(), sizeof key);
  return key;
}

nb::bytes block_bytes(const nb::bytes& key, uint32_t counter, const nb::bytes& nonce) {
  std::array<uint32_t, 3> words;
  require(nonce.size() == sizeof words, "a nonce has 12 bytes");
  std::memcpy(words.data(), nonce.c_str(), sizeof words);
  const Block block = chacha20_block(key_of(key), counter, words);
  return nb::bytes(block.data(), sizeof block);
}

NoiseTable make_table(int32_t first, const Array<uint64_t>& thresholds) {
  return {first, {thresholds.data(), thresholds.data() + thresholds.size()}};
}

Samples samples_of(const nb::bytes& seed, const nb::object& image_index, const nb::object& first,
                   const nb::object& count) {
  return {key_of(seed), whole<uint32_t>(image_index, "the image index"), whole(first, "the first sample"),
          whole(count, "the number of samples")};
}

Ints draw(const NoiseTable& table, const nb::bytes& seed, const nb::object& image_index, const nb::object& first,
          const nb::object& number, const Array<uint8_t>& image) {
  const Samples samples = samples_of(seed, image_index, first, number);
  samples.check();
  const size_t dimension = image.size(), count = samples.count;
  require(dimension <= kMaxCoordinates && (count == 0 || dimension <= SIZE_MAX / sizeof(int32_t) / count),
          "too many samples at once");
  const NoiseKernels& kernels = select_kernels("").noise;
  std::vector<int32_t> values(count * dimension);
  Interruption interruption;
  {
    const Unlocked unlocked;
    for (size_t i = 0; i < count && interruption.goes_on(); ++i) {
      table.draw(samples.stream(i), kernels, image.data(), uint32_t(dimension), &values[i * dimension]);
    }
  }
  interruption.end();
  return owned(std::move(values), {count, dimension});
}

// A network with what its kernel sets have made of it, made once.
class Loaded {
 public:
  explicit Loaded(const nb::bytes& bytes)
      : network(Network::parse(reinterpret_cast<const uint8_t*>(bytes.c_str()), bytes.size())) {}

  Loaded(const Loaded&) = delete;

  const Program& program(const std::string& kernels) {  // the caller holds the GIL
    const KernelSet& set = select_kernels(kernels);
    std::unique_ptr<Program>& program = programs_[set.name];
    if (!program) program = std::make_unique<Program>(network, set);
    return *program;
  }

  const Network network;

 private:
  std::map<std::string, std::unique_ptr<Program>> programs_;
};

void check_size(size_t got, int64_t wanted) {
  require(int64_t(got) == wanted, "the image does not have the network's input shape");
}

Ints scores(Loaded& loaded, const Array<int32_t>& images, const std::string& kernels) {
  const Network& network = loaded.network;
  const auto dimension = size_t(network.dimension()), classes = size_t(network.classes());
  const size_t count = images.size() / dimension;
  check_size(images.size(), int64_t(count * dimension));
  require(count <= SIZE_MAX / sizeof(int32_t) / classes, "too many images at once");
  Runner runner(loaded.program(kernels));
  std::vector<int32_t> values(count * classes);
  Interruption interruption;
  {
    const Unlocked unlocked;
    for (size_t begin = 0; begin < count && interruption.goes_on(); begin += size_t(runner.lanes())) {
      const size_t block = std::min(count - begin, size_t(runner.lanes()));
      for (size_t i = 0; i < block; ++i) runner.load(int32_t(i), images.data() + (begin + i) * dimension);
      runner.run();
      for (size_t i = 0; i < block * classes; ++i) {
        values[begin * classes + i] = runner.score(int32_t(i / classes), int32_t(i % classes));
      }
    }
  }
  interruption.end();
  return owned(std::move(values), {count, classes});
}

std::vector<Ints> trace(Loaded& loaded, const Array<int32_t>& image, const std::string& kernels) {
  const Network& network = loaded.network;
  check_size(image.size(), network.dimension());
  const Program program(network, select_kernels(kernels), true);
  std::vector<std::vector<int32_t>> values(network.shapes.size());
  {
    const Unlocked unlocked;
    Runner runner(program);
    runner.load(0, image.data());
    runner.run();
    for (size_t t = 0; t < values.size(); ++t) runner.read(t, 0, values[t]);
  }
  std::vector<Ints> tensors;
  for (std::vector<int32_t>& tensor : values) {
    const size_t size = tensor.size();
    tensors.push_back(owned(std::move(tensor), {size}));
  }
  return tensors;
}

std::vector<uint64_t> votes(Loaded& loaded, const NoiseTable& noise, const Array<uint8_t>& image, const nb::bytes& seed,
                            const nb::object& image_index, const nb::object& first, const nb::object& count,
                            const nb::object& threads, const std::string& kernels, nb::object progress) {
  check_size(image.size(), loaded.network.dimension());
  const Samples samples = samples_of(seed, image_index, first, count);
  const auto most = whole<unsigned>(threads, "the number of threads", kMostThreads);
  const Ballot ballot = {loaded.program(kernels), noise, image.data(), samples};
  Watch watch = {std::move(progress)};
  std::vector<uint64_t> counts;
  {
    const Unlocked unlocked;
    counts = count_votes(ballot, most, std::ref(watch));
  }
  watch.end();
  return counts;
}

// Per layer: height, width, channels of its output, least and greatest accumulator (0, 0 where there is none).
using LayerInfo = std::tuple<int32_t, int32_t, int32_t, int64_t, int64_t>;

std::vector<LayerInfo> layer_info(const Loaded& loaded) {
  const Network& network = loaded.network;
  std::vector<LayerInfo> rows;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    Range bound;
    if (const Conv* conv = conv_of(network.layers[i].operation)) {
      for (const Range& range : conv->accumulator) {
        bound = {std::min(bound.low, range.low), std::max(bound.high, range.high)};
      }
    }
    const Shape& s = network.shapes[i + 1];
    rows.emplace_back(s.height, s.width, s.channels, bound.low, bound.high);
  }
  return rows;
}

int64_t block_bytes_needed(Loaded& loaded, const std::string& kernels) {
  return loaded.program(kernels).bytes;
}

std::string selected(const std::string& name) {
  return select_kernels(name).name;
}

}  // namespace
}  // namespace intrs

NB_MODULE(_core, m) {
  using namespace intrs;
  m.doc() = "The native core of intrs: random bits, noise, integer networks, votes.";
  nb::exception<Error>(m, "Error", PyExc_ValueError);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&stop_all));
  m.attr("SELECTION") = kSelection;
  m.attr("MAX_DIMENSION") = kMaxCoordinates;
  m.def("chacha20_block", &block_bytes, "key"_a, "counter"_a, "nonce"_a);
  m.def("kernel_names", &kernel_names);
  m.def("has_fma", &has_fma);
  m.def("has_avx512", &has_avx512);
  m.def("has_amx_bf16", &has_amx_bf16);
  m.def("has_bf16", &has_bf16);
  m.def("selected_kernels", &selected, "name"_a = "");

  nb::class_<NoiseTable>(m, "NoiseTable")
      .def(nb::new_(&make_table), "first"_a, "thresholds"_a.noconvert())
      .def("draw", &draw, "seed"_a, "image_index"_a.none(), "first"_a.none(), "count"_a.none(), "image"_a.noconvert());

  nb::class_<Loaded>(m, "Network")
      .def(nb::init<const nb::bytes&>(), "data"_a)
      .def("scores", &scores, "images"_a.noconvert(), "kernels"_a = "")
      .def("trace", &trace, "image"_a.noconvert(), "kernels"_a = "")
      .def("layers", &layer_info)
      .def("multiply_adds", [](const Loaded& loaded) { return loaded.network.multiply_adds(); })
      .def("work", [](const Loaded& loaded) { return loaded.network.work; })
      .def("block_bytes", &block_bytes_needed, "kernels"_a = "");

  m.def("votes", &votes, "network"_a, "noise"_a, "image"_a.noconvert(), "seed"_a, "image_index"_a.none(),
        "first"_a.none(), "count"_a.none(), "threads"_a.none(), "kernels"_a, "progress"_a.none());
}
