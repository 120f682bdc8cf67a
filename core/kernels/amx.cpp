// AMX: products of whole matrices of bytes, and AVX-512 for all else.
//
// The layout of lanes.h is that of the instruction: h vectors of sixteen samples, one behind the other, are a matrix of
// 4h channels by sixteen samples, in the order in which TDPBSUD wants it. Sixteen output channels by 4h weights are the
// other one. A row of a window, whose pixels lie side by side, is one or a few such matrices.
#include "x86_512.h"

namespace intrs {
namespace {

constexpr int32_t kSide = 16;  // rows of a tile, and lanes of a row
constexpr int32_t kRows = 4;   // of the output that are done at once, while the rows that they read are near
constexpr int64_t kRow = 64;   // bytes from a row in memory to the next: vectors of codes, sums or weights

enum Tile { kWeights = 4, kCodes = 6 };  // 0 to 3 are sums, and 7 is codes, too

// Sanitizers do not see what assembly reads, so they are shown the ends of every row.
INTRS_INLINE void show_rows([[maybe_unused]] const void* from, [[maybe_unused]] int32_t rows) {
#if defined(__SANITIZE_ADDRESS__)
  const auto* bytes = static_cast<const volatile uint8_t*>(from);
  for (int32_t row = 0; row < rows; ++row) (void)bytes[row * kRow], (void)bytes[row * kRow + kRow - 1];
#endif
}

// As the intrinsics, whose tile must be a literal.
template <int kTile>
INTRS_INLINE void load_tile(const void* from, int32_t rows = kSide) {
  show_rows(from, rows);
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(kRow), "i"(kTile) : "memory");
}
template <int kTile>
INTRS_INLINE void store_tile(void* to) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(kRow), "i"(kTile) : "memory");
}
template <int kSum, int kSigned, int kUnsigned>
INTRS_INLINE void multiply_tiles() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kSigned), "i"(kUnsigned));
}

// Sizes of the tiles while it lives. Whoever used tiles on this thread before finds their sizes again: oneDNN, for one,
// sets them only when they change.
class Sizes {
 public:
  explicit Sizes(int32_t vectors) {
    __asm__ volatile("sttilecfg %0" : "=m"(before_));
    Bytes wanted = {};
    wanted[0] = 1;  // palette
    for (int tile = 0; tile < 8; ++tile) {
      wanted[16 + 2 * tile] = uint8_t(tile == kWeights ? kQuad * vectors : kRow);  // bytes of a row
      wanted[48 + tile] = uint8_t(tile >= kCodes ? vectors : kSide);               // rows
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(wanted));
  }
  ~Sizes() { __asm__ volatile("ldtilecfg %0" : : "m"(before_)); }  // without a palette, this releases them
  Sizes(const Sizes&) = delete;
  Sizes& operator=(const Sizes&) = delete;

 private:
  using Bytes = uint8_t[64];
  Bytes before_ = {};
};

int32_t blocks(int32_t channels) {  // of sixteen
  return (channels + kSide - 1) / kSide;
}

using Base = Lanes<Dot<Avx512Vector>>;
using Pack = LanesPack<Dot<Avx512Vector>>;

// Where vectors lie, in bytes from the first tap. A type of this file, as for all vectors that grow here: functions of
// std::vector<int64_t> would be the linker's to choose, and are compiled for AMX.
struct Place {
  int64_t offset;
};

// A row of a matrix of weights: an output channel. Whole lines of the cache, which load twice as fast.
struct alignas(64) Row {
  int8_t weights[64];
};

// Where the sums of an output channel begin, for all lanes.
struct alignas(64) Start {
  int32_t lanes[kSide];
};

// A Conv as products of matrices, or, where that does not suit, as the other set has it.
struct PackedMatrices : Packed {
  std::unique_ptr<Packed> other;
  Pack::PackedConv output;    // what becomes of sums; its quads have no strips
  int32_t vectors = 0;        // of codes in a matrix
  std::vector<Place> places;  // of the matrices of codes
  std::vector<Row> weights;   // [sixteen output channels][matrix][channel], 4 * vectors of each row
  std::vector<Start> starts;  // of all output channels

  const Row* weights_of(int32_t block) const { return &weights[size_t(block) * places.size() * kSide]; }
};

// The vectors of a window that lie side by side, as runs of equal length.
struct Runs {
  int32_t length;  // vectors
  std::vector<Place> places;
  Runs(const Window& w, const In& in) {
    const bool together = w.dilation_x == 1 || w.width == 1;
    const int32_t pixel = int32_t(in.pixel / Pack::kBytes);
    length = together ? pixel * w.width : pixel;
    for (int32_t y = 0; y < w.height; ++y) {
      for (int32_t x = 0; x < (together ? 1 : w.width); ++x) {
        places.push_back({int64_t{y} * w.dilation_y * in.row + int64_t{x} * w.dilation_x * in.pixel});
      }
    }
  }
};

// Four weights of an output channel, for a vector of the run that begins at a tap; channels beyond the last have zeros.
void copy_four(const Conv& op, int32_t out_channel, int32_t pixel_vectors, int32_t taps, int32_t first_tap,
               int32_t vector, int8_t* to) {
  const int32_t tap = first_tap + vector / pixel_vectors, channel = vector % pixel_vectors * kQuad;
  const int32_t count = std::min(kQuad, op.channels_per_group - channel);
  const size_t at = (size_t(out_channel) * size_t(taps) + size_t(tap)) * size_t(op.channels_per_group);
  std::memcpy(to, &op.weights[at + size_t(channel)], size_t(count));
}

void pack_weights(const Conv& op, const In& in, int32_t channels, PackedMatrices& packed) {
  const Runs runs(op.window, in);
  const int32_t taps = op.window.height * op.window.width, pixel = int32_t(in.pixel / Pack::kBytes);
  const int32_t parts = (runs.length + kSide - 1) / kSide, taps_in_run = runs.length / pixel;
  packed.vectors = (runs.length + parts - 1) / parts;
  const size_t all = runs.places.size() * size_t(parts);
  packed.weights.assign(size_t(blocks(channels)) * all * kSide, Row{});
  for (size_t run = 0; run < runs.places.size(); ++run) {
    for (int32_t part = 0, done = 0; part < parts; ++part) {
      // The last part reaches back over what is done already, with weights of zero, rather than beyond the run.
      const int32_t first = std::min(part * packed.vectors, runs.length - packed.vectors);
      packed.places.push_back({runs.places[run].offset + int64_t{first} * Pack::kBytes});
      const size_t index = run * size_t(parts) + size_t(part);
      for (int32_t c = 0; c < channels; ++c) {
        Row& row = packed.weights[(size_t(c / kSide) * all + index) * kSide + size_t(c % kSide)];
        for (int32_t v = done - first; v < packed.vectors; ++v) {
          copy_four(op, c, pixel, taps, int32_t(run) * taps_in_run, first + v, &row.weights[kQuad * v]);
        }
      }
      done = first + packed.vectors;
    }
  }
}

void pack_starts(const Conv& op, int32_t channels, PackedMatrices& packed) {
  packed.starts.assign(size_t(blocks(channels)) * kSide, Start{});
  for (int32_t c = 0; c < channels; ++c) {
    std::fill_n(packed.starts[size_t(c)].lanes, kSide, start_value(op, c, channels, Avx512Vector::kFlip));
  }
}

// Whether there are enough channels to fill matrices, and the usual scales.
bool suits(const Conv& op, const In& in, const Out& out) {
  Pack::PackedConv output;
  Pack::pack_output(op, output);
  return Pack::suits(op, in, out) && output.usual && op.groups == 1 && 2 * out.shape.channels >= kSide;
}

// Sixteen output channels of two pixels are a pair. A tile is stored when its products are there, and what follows
// waits for that, so a pair has two of the four tiles of sums: while one is multiplied, the one before it is stored,
// and the sums of the one before that become codes.
struct Amx : Base {
  using Base::run;
  using Vec = Avx512Vector::Vec;

  static std::unique_ptr<Packed> pack(const Conv& op, const In& in, const Out& out) {
    auto packed = std::make_unique<PackedMatrices>();
    if (!suits(op, in, out)) {
      packed->other = Pack::pack(op, in, out);
      if (!packed->other) return nullptr;
      packed->scratch = packed->other->scratch, packed->bytes = packed->other->bytes;
      packed->rows = packed->other->rows;
      return packed;
    }
    const int32_t channels = out.shape.channels, zero_point = Pack::pack_output(op, packed->output);
    for (int32_t quad = 0; quad < quads(channels); ++quad) {
      packed->output.quads.push_back(Pack::pack_quad(op, quad, channels, zero_point, {}));
    }
    pack_weights(op, in, channels, *packed);
    pack_starts(op, channels, *packed);
    packed->bytes = int64_t(packed->weights.size() * sizeof(Row));
    packed->rows = kRows;
    return packed;
  }

  struct Pair {
    const uint8_t* from[2];
    uint8_t* to[2];
  };
  struct alignas(64) Sums {
    int32_t at[4][kSide][kSide];  // [tile][channel][lane]
  };

  template <int kTile>
  static INTRS_INLINE void multiply(const PackedMatrices& packed, int32_t block, const Pair& pair) {
    const Start* starts = &packed.starts[size_t(block) * kSide];
    load_tile<kTile>(starts), load_tile<kTile + 1>(starts);
    const Row* weights = packed.weights_of(block);
    for (const Place& place : packed.places) {
      load_tile<kWeights>(weights);
      load_tile<kCodes>(pair.from[0] + place.offset, packed.vectors);
      multiply_tiles<kTile, kWeights, kCodes>();
      load_tile<kCodes + 1>(pair.from[1] + place.offset, packed.vectors);
      multiply_tiles<kTile + 1, kWeights, kCodes + 1>();
      weights += kSide;
    }
  }

  template <Rounds kRounds>
  static INTRS_INLINE void finish(const Pack::PackedConv& output, int32_t block, const int32_t (*sums)[kSide][kSide],
                                  const Pair& pair) {
    const int32_t first = block * (kSide / kQuad);
    const int32_t last = std::min(first + kSide / kQuad, int32_t(output.quads.size()));
    for (int32_t quad = first; quad < last; ++quad) {
      const auto& scale = output.quads[size_t(quad)].scale;
      for (int32_t p = 0; p < 2; ++p) {
        const auto* s = reinterpret_cast<const Vec*>(sums[p][(quad - first) * kQuad]);
        const Vec codes = Avx512Vector::codes<kRounds>(s[0], s[1], s[2], s[3], scale);
        store_codes(output, codes, pair.to[p] + quad * Pack::kBytes);
      }
    }
  }

  // Sixteen output channels of all pixels.
  template <Rounds kRounds>
  struct Pipeline {
    const Window& window;
    const PackedMatrices& packed;
    const In& in;
    const Out& out;
    const int32_t block, in_row;
    const int64_t count;
    Pair pairs[2] = {};
    Sums sums;

    Pipeline(const Window& w, const PackedMatrices& p, const In& from, const Out& to, int32_t b)
        : window(w),
          packed(p),
          in(from),
          out(to),
          block(b),
          in_row((to.shape.width + 1) / 2),
          count(int64_t{to.shape.height} * in_row) {}

    // In rows of odd length, the last pixel is a pair by itself: it is done twice.
    Pair pair(int64_t index) const {
      const auto y = int32_t(index / in_row), x = int32_t(index % in_row) * 2;
      const int32_t columns[2] = {x, std::min(x + 1, out.shape.width - 1)};
      Pair found;
      for (int p = 0; p < 2; ++p) {
        found.from[p] =
            in.at(int64_t{y} * window.stride_y - window.top, int64_t{columns[p]} * window.stride_x - window.left);
        found.to[p] = out.at(y, columns[p]);
      }
      return found;
    }

    // The products of pair `index`, the codes of the one before the last, whose tiles are the same, and the sums of the
    // last one.
    template <int kTile>
    INTRS_INLINE void step(int64_t index) {
      constexpr int kOther = 2 - kTile;
      const Pair done = pairs[kTile / 2];
      if (index < count) {
        pairs[kTile / 2] = pair(index);
        multiply<kTile>(packed, block, pairs[kTile / 2]);
      }
      if (index >= 2 && index - 2 < count) finish<kRounds>(packed.output, block, &sums.at[kTile], done);
      if (index >= 1 && index - 1 < count) {
        store_tile<kOther>(sums.at[kOther]), store_tile<kOther + 1>(sums.at[kOther + 1]);
      }
    }

    __attribute__((noinline)) void run() {
      for (int64_t index = 0; index < count + 2; index += 2) step<0>(index), step<2>(index + 1);
    }
  };

  static void run(const Conv& op, const Inputs& inputs, Out out) {
    if (!inputs.packed) return Base::run(op, inputs, out);
    const auto& packed = static_cast<const PackedMatrices&>(*inputs.packed);
    if (packed.other) {
      Inputs others = inputs;
      others.packed = packed.other.get();
      return Base::run(op, others, out);
    }
    const Sizes sizes(packed.vectors);
    by_rounds(packed.output.rounds, [&](auto rounds) {
      for (int32_t block = 0; block < blocks(out.shape.channels); ++block) {
        Pipeline<rounds()>(op.window, packed, inputs[0], out, block).run();
      }
    });
  }
};

}  // namespace

KernelSet amx_set() {
  KernelSet set = Base::set("amx");
  set.pack = Amx::pack;
  set.layers = KernelTable<Operation>::of<Amx>();
  return set;
}

}  // namespace intrs
