// The contract of a kernel set, and the one place that selects one.
//
// Monte-Carlo runs one network on many samples, so samples fill the lanes: a set works on blocks of `lanes` samples
// at once. Channels lie in groups of `group`; element (row, column, channel, lane) of a tensor lies at
//   row * tensor.row + column * tensor.pixel + (channel / group * lanes + lane) * group + channel % group
// and channels beyond the last one hold anything. Every set equals `scalar`, the normative one, bit for bit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../network.h"
#include "../noise.h"

namespace intrs {

struct Layout {
  int32_t group;  // channels that lie together
  int32_t lanes;  // samples in a block
  uint8_t flip;   // XORed onto a stored code: 0x80 for sets that multiply unsigned bytes
  bool bordered;  // the padding of a Conv lies in memory, around its input
};

// Pixels around a tensor that hold the zero point of the Convs that read it.
struct Border {
  int32_t top = 0, bottom = 0, left = 0, right = 0;
  int32_t code = 0;
  bool any() const { return top || bottom || left || right; }
};

// Where a tensor lies: codes points at row 0, column 0, lane 0. A wide Conv writes int32 scores there instead.
template <class Byte>
struct View {
  Byte* codes;
  Shape shape;
  int64_t pixel, row;  // bytes
  Border border;

  Byte* at(int64_t y, int64_t x) const { return codes + y * row + x * pixel; }
};

using In = View<const uint8_t>;
using Out = View<uint8_t>;

// Weights in the order in which a set's Conv wants them.
struct Packed {
  virtual ~Packed() = default;
  int64_t scratch = 0;  // bytes of memory that the Conv needs besides its input and output
  int64_t bytes = 0;    // of the weights
  int32_t rows = 1;     // output rows that are done at once
};

// What a layer reads: its input tensors, and for a Conv what `pack` made of its weights and memory to work in.
struct Inputs {
  const In* tensors;
  size_t count;
  const Packed* packed = nullptr;
  uint8_t* scratch = nullptr;

  const In& operator[](size_t i) const { return tensors[i]; }
};

// Runs one kind of layer: on whole tensors, or on the rows of the output that `out` shows, with every input beginning
// at the first row that belongs to them. An input of which one pixel stands for all places has a pixel and a row of 0
// bytes.
template <class Kind>
struct Kernel {
  void (*run)(const Kind&, const Inputs&, Out);
};

// One kernel for each kind in Operation. A set that has none for some kind does not compile.
template <class AnyKind>
struct KernelTable;

template <class... Kinds>
struct KernelTable<std::variant<Kinds...>> : Kernel<Kinds>... {
  template <class Kind>
  void operator()(const Kind& layer, const Inputs& in, const Out& out) const {
    Kernel<Kind>::run(layer, in, out);
  }

  // Functions Set::run, one for each kind, or for what the kind is derived from.
  template <class Set>
  static KernelTable of() {
    return {Kernel<Kinds>{[](const Kinds& layer, const Inputs& in, Out out) { Set::run(layer, in, out); }}...};
  }
};

struct KernelSet {
  const char* name;
  Layout layout;
  bool test_only;  // listed and used only when asked for by name

  NoiseKernels noise;
  void (*quantise)(const Quantiser&, const int32_t* pixels, int32_t lane, Out);  // one sample
  std::unique_ptr<Packed> (*pack)(const Conv&, const In&, const Out&);           // only their shapes and strides count
  KernelTable<Operation> layers;
};

// The set of this name; for an empty name that of INTRS_KERNELS, and without that the fastest that this machine has.
// Throws Error for a name that is unknown, a set that this machine cannot run, or one that fails its self-check.
const KernelSet& select_kernels(const std::string& name);
std::vector<std::string> kernel_names();  // those that this machine has, fastest first
bool has_fma();                           // on 256 bits, which the float layers of training are compiled for
bool has_avx512();                        // which the same layers are compiled for once more
bool has_amx_bf16();                      // whether it has units for products of whole matrices, and says their size
bool has_bf16();                          // whether it multiplies bfloat16, as far as is known

}  // namespace intrs
