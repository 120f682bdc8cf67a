// Convolutions of any window, for the few layers of a network that are not 3x3 with stride 1: the patches of some rows
// of outputs as a matrix, times the weights as another.
#include <algorithm>
#include <vector>

#include "matrix.h"
#include "parallel.h"

namespace intrs::training {
namespace {

constexpr size_t kBlockFloats = 1 << 16;  // of patches, which then stay in the second cache

struct Sizes {
  Sizes(const Size& in, const Window& window, size_t c)
      : in(in),
        window(window),
        c(c),
        height(window.outputs(in.height)),
        width(window.outputs(in.width)),
        row((in.width + 2 * window.padding) * c),
        image((in.height + 2 * window.padding) * row),
        depth(window.kernel * window.kernel * c),
        padded(rounded_up(depth, 2 * kSumRows)),
        rows(std::min(height, std::max<size_t>(1, kBlockFloats / (width * padded)))) {}

  size_t patches(size_t count) const { return rounded_up(count * width, kRows); }

  Size in;
  Window window;
  size_t c, height, width;  // of the outputs
  size_t row, image;        // floats of a padded row and image
  size_t depth, padded;     // of a patch, and rounded up
  size_t rows;              // of outputs at once
};

// Floats of an image with its padding; what is outside stays as it is.
template <class T>
void pad(const Sizes& sizes, const T* image, float* to) {
  const size_t width = sizes.in.width * sizes.c;
  for (size_t i = 0; i < sizes.in.height; ++i, image += width) {
    float* row = to + (i + sizes.window.padding) * sizes.row + sizes.window.padding * sizes.c;
    size_t at = 0;
    for (; at + kLanes <= width; at += kLanes) store(row + at, load(image + at));
    for (; at < width; ++at) row[at] = load_one(image + at);
  }
}

template <class T>
void unpad(const Sizes& sizes, const float* from, T* image) {
  const size_t width = sizes.in.width * sizes.c;
  for (size_t i = 0; i < sizes.in.height; ++i, image += width) {
    const float* row = from + (i + sizes.window.padding) * sizes.row + sizes.window.padding * sizes.c;
    copy_lanes(row, width, image);
  }
}

// Calls use(row of the patch in the padded image, row of the patch in the matrix) for outputs of rows first .. last.
template <class Use>
void for_patches(const Sizes& sizes, size_t first, size_t last, const Use& use) {
  const size_t run = sizes.window.kernel * sizes.c, step = sizes.window.stride;
  size_t patch = 0;
  for (size_t y = first; y < last; ++y) {
    for (size_t x = 0; x < sizes.width; ++x, patch += sizes.padded) {
      for (size_t i = 0; i < sizes.window.kernel; ++i) {
        use((y * step + i) * sizes.row + x * step * sizes.c, patch + i * run, run);
      }
    }
  }
}

// (k, c, kernel, kernel) to (kernel, kernel, c, k), or turned to (k, (kernel, kernel, c)).
std::vector<float> arranged(const Weights& w, const Sizes& sizes, bool turned) {
  std::vector<float> to(sizes.padded * w.k);
  const size_t side = sizes.window.kernel;
  for (size_t k = 0; k < w.k; ++k) {
    for (size_t at = 0; at < sizes.depth; ++at) {
      const size_t c = at % w.c, column = at / w.c % side, row = at / w.c / side;
      to[turned ? k * sizes.padded + at : at * w.k + k] =
          w.data[ptrdiff_t(k) * w.stride_k + ptrdiff_t(c) * w.stride_c + ptrdiff_t(row) * w.stride_row +
                 ptrdiff_t(column) * w.stride_column];
    }
  }
  return to;
}

// Calls work(first row, last row) for the blocks of an image's rows.
template <class Work>
void by_rows(const Sizes& sizes, const Work& work) {
  for (size_t row = 0; row < sizes.height; row += sizes.rows) work(row, std::min(sizes.height, row + sizes.rows));
}

void gather(const Sizes& sizes, const float* image, size_t first, size_t last, float* patches) {
  for_patches(sizes, first, last, [&](size_t from, size_t to, size_t run) {
    for (size_t i = 0; i < run; ++i) patches[to + i] = image[from + i];
  });
}

}  // namespace

template <class T>
void convolve(const T* x, const Weights& w, const Window& window, T* y, const Size& size, unsigned threads) {
  const Sizes sizes(size, window, w.c);
  const std::vector<float> weights = arranged(w, sizes, false);
  in_parts(size.images, parts_of(size.images, threads), [&](unsigned, size_t begin, size_t end) {
    std::vector<float> image(sizes.image), patches(sizes.patches(sizes.rows) * sizes.padded);
    const auto out = floats(sizes.patches(sizes.rows) * w.k);
    for (size_t n = begin; n < end; ++n) {
      pad(sizes, x + n * size.height * size.width * w.c, image.data());
      by_rows(sizes, [&](size_t first, size_t last) {
        gather(sizes, image.data(), first, last, patches.data());
        product(patches.data(), weights.data(), out.get(), sizes.patches(last - first), sizes.padded, w.k);
        copy_lanes(out.get(), (last - first) * sizes.width * w.k, y + (n * sizes.height + first) * sizes.width * w.k);
      });
    }
  });
}

template <class T>
void convolve_input(const T* gradient, const Weights& w, const Window& window, T* dx, const Size& size,
                    unsigned threads) {
  const Sizes sizes(size, window, w.c);
  const std::vector<float> weights = arranged(w, sizes, true);
  in_parts(size.images, parts_of(size.images, threads), [&](unsigned, size_t begin, size_t end) {
    std::vector<float> image(sizes.image), g(sizes.patches(sizes.rows) * w.k);
    const auto patches = floats(sizes.patches(sizes.rows) * sizes.padded);
    for (size_t n = begin; n < end; ++n) {
      std::fill(image.begin(), image.end(), 0.0f);
      by_rows(sizes, [&](size_t first, size_t last) {
        const T* from = gradient + (n * sizes.height + first) * sizes.width * w.k;
        copy_lanes(from, (last - first) * sizes.width * w.k, g.data());
        product(g.data(), weights.data(), patches.get(), sizes.patches(last - first), w.k, sizes.padded);
        for_patches(sizes, first, last, [&](size_t to, size_t at, size_t run) {
          for (size_t i = 0; i < run; ++i) image[to + i] += patches[at + i];
        });
      });
      unpad(sizes, image.data(), dx + n * size.height * size.width * w.c);
    }
  });
}

template <class T>
void convolve_weights(const T* x, const T* gradient, const Window& window, float* dw, size_t k, size_t c,
                      const Size& size, unsigned threads) {
  const Sizes sizes(size, window, c);
  const unsigned parts = parts_of(size.images, threads);
  std::vector<std::vector<float>> sums(parts);
  in_parts(size.images, parts, [&](unsigned part, size_t begin, size_t end) {
    std::vector<float> image(sizes.image), patches(sizes.patches(sizes.rows) * sizes.padded);
    const auto g = floats(sizes.rows * sizes.width * k);
    sums[part].resize(sizes.padded * k);
    for (size_t n = begin; n < end; ++n) {
      pad(sizes, x + n * size.height * size.width * c, image.data());
      by_rows(sizes, [&](size_t first, size_t last) {
        gather(sizes, image.data(), first, last, patches.data());
        const T* from = gradient + (n * sizes.height + first) * sizes.width * k;
        copy_lanes(from, (last - first) * sizes.width * k, g.get());
        add_outer(patches.data(), g.get(), sums[part].data(), (last - first) * sizes.width, sizes.padded, k);
      });
    }
  });
  const size_t square = window.kernel * window.kernel;
  for (size_t at = 0; at < sizes.depth; ++at) {
    for (size_t to = 0; to < k; ++to) {
      float sum = 0;
      for (const std::vector<float>& part : sums) sum += part[at * k + to];
      dw[(to * c + at % c) * square + at / c] = sum;
    }
  }
}

#define INTRS_STORED_AS(T)                                                                             \
  template void convolve<T>(const T*, const Weights&, const Window&, T*, const Size&, unsigned);       \
  template void convolve_input<T>(const T*, const Weights&, const Window&, T*, const Size&, unsigned); \
  template void convolve_weights<T>(const T*, const T*, const Window&, float*, size_t, size_t, const Size&, unsigned);
INTRS_STORED_AS(float)
INTRS_STORED_AS(Bf16)

}  // namespace intrs::training
