// 3x3 convolutions by tiles (winograd.h). A block of tiles goes through its three steps while it is in the cache: to
// the 36 places of the transformed patch, a matrix product per place, and back.
#include <cstdint>
#include <memory>
#include <vector>

#include "matrix.h"
#include "parallel.h"
#include "winograd.h"

namespace intrs::training {
namespace {

// Channels * tiles of a block. Two blocks of 36 places then fill a quarter of a second cache, or half of a small one.
constexpr size_t kBlockFloats = 1024;

struct Tiles {
  explicit Tiles(const Size& size)
      : size(size), down((size.height + kTile - 1) / kTile), across((size.width + kTile - 1) / kTile) {}

  size_t count() const { return size.images * down * across; }

  struct Place {
    size_t image, row, column;  // of the first output
  };

  Place place(size_t tile) const {
    const size_t in_image = tile % (down * across);
    return {tile / (down * across), in_image / across * kTile, in_image % across * kTile};
  }

  Size size;
  size_t down, across;
};

size_t tiles_at_once(size_t channels) {
  return std::max<size_t>(3 * kRows, kBlockFloats / channels / kRows * kRows);
}

// Floats from place to place of a block: no multiple of 4 KiB, which would put all 36 into one set of the cache. The
// same for the usual numbers of channels, so that all addresses of a block are a register and a constant.
constexpr size_t kUsualDistance = std::max(kBlockFloats, 3 * kRows * kMostUsual) + 2 * kLanes;

size_t distance(size_t tiles, size_t channels) {
  return std::max(tiles * channels + 2 * kLanes, kUsualDistance);
}

// What with_channels gives, and the distance that goes with it.
template <size_t channels>
constexpr auto known(std::integral_constant<size_t, channels>, size_t) {
  return std::integral_constant<size_t, kUsualDistance>();
}

inline size_t known(size_t, size_t distance) {
  return distance;
}

// An image with a border of zeros, wide enough that every tile has all of its patch.
template <class T>
class Padded {
 public:
  Padded(const Tiles& tiles, size_t channels)
      : tiles_(tiles),
        channels_(channels),
        row_((tiles.across * kTile + 2) * channels),
        data_((tiles.down * kTile + 2) * row_) {}

  size_t row() const { return row_; }

  // The patch of a tile of the tensor x.
  const T* patch(const T* x, size_t tile) {
    const Tiles::Place at = tiles_.place(tile);
    if (at.image != image_) copy(x, at.image);
    return &data_[at.row * row_ + at.column * channels_];
  }

 private:
  void copy(const T* x, size_t image) {
    const size_t width = tiles_.size.width * channels_;
    const T* from = x + image * tiles_.size.height * width;
    for (size_t i = 0; i < tiles_.size.height; ++i, from += width) {
      std::copy_n(from, width, &data_[(i + 1) * row_ + channels_]);
    }
    image_ = image;
  }

  const Tiles& tiles_;
  size_t channels_, row_, image_ = SIZE_MAX;
  std::vector<T> data_;
};

// Tiles begin .. end of an input to [place][tile][channel], `apart` floats from place to place.
template <class T, class Channels, class Apart>
void patches_of(Padded<T>& images, size_t begin, size_t end, const T* x, Channels channels, float* to, Apart apart) {
  for (size_t tile = begin; tile < end; ++tile, to += channels) {
    const T* from = images.patch(x, tile);
    for (size_t c = 0; c < channels; c += kLanes) {
      Lanes d[kPlaces];
#pragma GCC unroll 6
      for (int j = 0; j < kPatch; ++j) {
        for (int i = 0; i < kPatch; ++i) d[kPatch * i + j] = load(from + i * images.row() + j * channels + c);
        transform_input(d + j, kPatch);
      }
#pragma GCC unroll 6
      for (int i = 0; i < kPatch; ++i) {
        transform_input(d + kPatch * i, 1);
        for (int j = 0; j < kPatch; ++j) store(to + size_t(kPatch * i + j) * apart + c, d[kPatch * i + j]);
      }
    }
  }
}

template <class T>
void patches_in(Padded<T>& images, size_t begin, size_t end, const T* x, size_t channels, float* to, size_t apart) {
  with_channels(channels, [&](auto c) { patches_of(images, begin, end, x, c, to, known(c, apart)); });
}

// Where the pixels of a tile are in a tensor; what lies outside of the image is `outside`.
template <class T>
void find(const Tiles& tiles, size_t tile, T* tensor, size_t channels, T* outside, T** found) {
  const Tiles::Place at = tiles.place(tile);
  const size_t height = tiles.size.height, width = tiles.size.width;
  T* first = tensor + ((at.image * height + at.row) * width + at.column) * channels;
  const bool whole = at.row + kTile <= height && at.column + kTile <= width;
  for (size_t i = 0; i < kTile; ++i) {
    for (size_t j = 0; j < kTile; ++j) {
      const bool inside = whole || (at.row + i < height && at.column + j < width);
      found[i * kTile + j] = inside ? first + (i * width + j) * channels : outside;
    }
  }
}

// The same as patches_in for the gradients of outputs.
template <class T, class Channels, class Apart>
void gradients_of(const Tiles& tiles, size_t begin, size_t end, const T* g, Channels channels, const T* zeros,
                  float* to, Apart apart) {
  for (size_t tile = begin; tile < end; ++tile, to += channels) {
    const T* from[kTile * kTile];
    find(tiles, tile, g, channels, zeros, from);
    for (size_t k = 0; k < channels; k += kLanes) {
      Lanes d[kTile * kTile], half[kPatch * kTile], m[kPlaces];
      for (int i = 0; i < kTile * kTile; ++i) d[i] = load(from[i] + k);
      for (int i = 0; i < kTile; ++i) transform_gradient(d + i, kTile, half + i, kTile);
#pragma GCC unroll 6
      for (int i = 0; i < kPatch; ++i) {
        transform_gradient(half + kTile * i, 1, m + kPatch * i, 1);
        for (int j = 0; j < kPatch; ++j) store(to + size_t(kPatch * i + j) * apart + k, m[kPatch * i + j]);
      }
    }
  }
}

template <class T>
void gradients_in(const Tiles& tiles, size_t begin, size_t end, const T* g, size_t channels, const T* zeros, float* to,
                  size_t apart) {
  with_channels(channels, [&](auto k) { gradients_of(tiles, begin, end, g, k, zeros, to, known(k, apart)); });
}

// [place][tile][channel] to the outputs of tiles begin .. end.
template <class T, class Channels, class Apart>
void outputs_of(const Tiles& tiles, size_t begin, size_t end, const float* from, Apart apart, Channels channels,
                T* dump, T* y) {
  for (size_t tile = begin; tile < end; ++tile, from += channels) {
    T* to[kTile * kTile];
    find(tiles, tile, y, channels, dump, to);
    for (size_t k = 0; k < channels; k += kLanes) {
      Lanes m[kPlaces], half[kTile * kPatch], out[kTile * kTile];
#pragma GCC unroll 6
      for (int j = 0; j < kPatch; ++j) {
        for (int i = 0; i < kPatch; ++i) m[kPatch * i + j] = load(from + size_t(kPatch * i + j) * apart + k);
        transform_output(m + j, kPatch, half + j, kPatch);
      }
      for (int i = 0; i < kTile; ++i) {
        transform_output(half + kPatch * i, 1, out + kTile * i, 1);
        for (int j = 0; j < kTile; ++j) store(to[kTile * i + j] + k, out[kTile * i + j]);
      }
    }
  }
}

template <class T>
void outputs_from(const Tiles& tiles, size_t begin, size_t end, const float* from, size_t apart, size_t channels,
                  T* dump, T* y) {
  with_channels(channels, [&](auto k) { outputs_of(tiles, begin, end, from, known(k, apart), k, dump, y); });
}

// [place][c][k] of the weights, or [place][k][c] of those that are turned by 180 degrees, for the gradient of x.
std::unique_ptr<float[]> transformed(const Weights& w, bool turned, unsigned threads) {
  const size_t rows = turned ? w.k : w.c, columns = turned ? w.c : w.k;
  const ptrdiff_t row_step = turned ? w.stride_k : w.stride_c, column_step = turned ? w.stride_c : w.stride_k;
  auto u = floats(kPlaces * rows * columns);
  in_parts(rows, parts_of(rows, threads), [&](unsigned, size_t first, size_t last) {
    for (size_t at = first * columns; at < last * columns; at += kLanes) {
      const float* from = w.data + ptrdiff_t(at / columns) * row_step + ptrdiff_t(at % columns) * column_step;
      Lanes kernel[9], half[kPatch * 3], full[kPlaces];
      for (int i = 0; i < 9; ++i) {
        const int tap = turned ? 8 - i : i;
        const float* tapped = from + tap / 3 * w.stride_row + tap % 3 * w.stride_column;
        for (int lane = 0; lane < kLanes; ++lane) kernel[i][lane] = tapped[lane * column_step];
      }
      for (int i = 0; i < 3; ++i) transform_weight(kernel + i, 3, half + i, 3);
      for (int i = 0; i < kPatch; ++i) transform_weight(half + 3 * i, 1, full + kPatch * i, 1);
      for (int i = 0; i < kPlaces; ++i) store(u.get() + size_t(i) * rows * columns + at, full[i]);
    }
  });
  return u;
}

template <class T>
void by_tiles(const T* x, const float* u, T* y, const Size& size, size_t c, size_t k, unsigned threads) {
  const Tiles tiles(size);
  const size_t at_once = tiles_at_once(std::max(c, k)), blocks = (tiles.count() + at_once - 1) / at_once;
  in_parts(blocks, parts_of(blocks, threads), [&](unsigned, size_t first, size_t last) {
    const size_t apart_in = distance(at_once, c), apart_out = distance(at_once, k);
    const auto v = floats(kPlaces * apart_in), m = floats(kPlaces * apart_out);
    std::vector<T> dump(k);
    std::fill_n(v.get(), kPlaces * apart_in, 0.0f);
    Padded<T> images(tiles, c);
    for (size_t block = first; block < last; ++block) {
      const size_t begin = block * at_once, end = std::min(tiles.count(), begin + at_once);
      patches_in(images, begin, end, x, c, v.get(), apart_in);
      for (size_t i = 0; i < kPlaces; ++i) {
        product(v.get() + i * apart_in, u + i * c * k, m.get() + i * apart_out, rounded_up(end - begin, kRows), c, k);
      }
      outputs_from(tiles, begin, end, m.get(), apart_out, k, dump.data(), y);
    }
  });
}

}  // namespace

template <class T>
void convolve3x3(const T* x, const Weights& w, T* y, const Size& size, unsigned threads) {
  by_tiles(x, transformed(w, false, threads).get(), y, size, w.c, w.k, threads);
}

template <class T>
void convolve3x3_input(const T* gradient, const Weights& w, T* dx, const Size& size, unsigned threads) {
  by_tiles(gradient, transformed(w, true, threads).get(), dx, size, w.k, w.c, threads);
}

template <class T>
void convolve3x3_weights(const T* x, const T* gradient, float* dw, size_t k, size_t c, const Size& size,
                         unsigned threads) {
  const Tiles tiles(size);
  const size_t at_once = tiles_at_once(std::max(c, k)), blocks = (tiles.count() + at_once - 1) / at_once;
  const unsigned parts = parts_of(blocks, threads);
  const std::vector<T> zeros(k);
  std::vector<std::vector<float>> sums(parts);
  in_parts(blocks, parts, [&](unsigned part, size_t first, size_t last) {
    const size_t apart_v = distance(at_once, c), apart_g = distance(at_once, k);
    const auto v = floats(kPlaces * apart_v), g = floats(kPlaces * apart_g);
    std::vector<float>& u = sums[part];
    u.resize(kPlaces * c * k);
    Padded<T> images(tiles, c);
    for (size_t block = first; block < last; ++block) {
      const size_t begin = block * at_once, end = std::min(tiles.count(), begin + at_once);
      patches_in(images, begin, end, x, c, v.get(), apart_v);
      gradients_in(tiles, begin, end, gradient, k, zeros.data(), g.get(), apart_g);
      for (size_t i = 0; i < kPlaces; ++i) {
        add_outer(v.get() + i * apart_v, g.get() + i * apart_g, &u[i * c * k], end - begin, c, k);
      }
    }
  });
  for (size_t i = 0; i < sums[0].size(); ++i) {
    for (unsigned part = 1; part < parts; ++part) sums[0][i] += sums[part][i];
  }
  for (size_t at = 0; at < c * k; at += kLanes) {
    Lanes full[kPlaces], half[3 * kPatch], kernel[9];
    for (size_t i = 0; i < kPlaces; ++i) full[i] = load(&sums[0][i * c * k + at]);
    for (int i = 0; i < kPatch; ++i) gather_weight(full + i, kPatch, half + i, kPatch);
    for (int i = 0; i < 3; ++i) gather_weight(half + kPatch * i, 1, kernel + 3 * i, 1);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      float* to = dw + ((at % k + lane) * c + at / k) * 9;
      for (size_t i = 0; i < 9; ++i) to[i] = kernel[i][lane];
    }
  }
}

#define INTRS_STORED_AS(T)                                                                 \
  template void convolve3x3<T>(const T*, const Weights&, T*, const Size&, unsigned);       \
  template void convolve3x3_input<T>(const T*, const Weights&, T*, const Size&, unsigned); \
  template void convolve3x3_weights<T>(const T*, const T*, float*, size_t, size_t, const Size&, unsigned);
INTRS_STORED_AS(float)
INTRS_STORED_AS(Bf16)

}  // namespace intrs::training
