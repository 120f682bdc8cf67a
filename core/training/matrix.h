// Products of small matrices that are in the cache; the number of columns k is a multiple of kLanes.
#pragma once

#include <memory>
#include <type_traits>

#include "lanes.h"

namespace intrs::training {

constexpr size_t kMostUsual = 64;  // channels

#if defined(__AVX512F__)        // 32 registers
constexpr size_t kRows = 12;    // of a product in registers, by two lanes of columns
constexpr size_t kSumRows = 8;  // the same for sums over rows, where channels are the rows of the result
#else                           // 16 registers
constexpr size_t kRows = 6;
constexpr size_t kSumRows = 4;
#endif

// Calls work(channels) with a number that the compiler knows, if it is a usual one: then addresses need no arithmetic.
template <class Work>
inline void with_channels(size_t channels, const Work& work) {
  switch (channels) {
    case 16: return work(std::integral_constant<size_t, 16>());
    case 32: return work(std::integral_constant<size_t, 32>());
    case kMostUsual: return work(std::integral_constant<size_t, kMostUsual>());
    default: return work(channels);
  }
}

// Calls work(first column, width) for columns of a result: two lanes at a time, then one if it is left over.
template <class Work>
inline void by_columns(size_t k, const Work& work) {
  size_t column = 0;
  for (; column + 2 * kLanes <= k; column += 2 * kLanes) work(column, std::integral_constant<size_t, 2>());
  if (column < k) work(column, std::integral_constant<size_t, 1>());
}

template <size_t rows, size_t width>
struct Tile {
  Lanes sum[rows][width];
};

// Sums of `depth` outer products, in registers: rows from a (a value each), columns from b.
template <size_t rows, size_t width, class Distance>
inline Tile<rows, width> multiply(const float* a, Distance a_row, size_t a_step, const float* b, size_t b_step,
                                  size_t depth) {
  Tile<rows, width> tile = {};
  for (size_t i = 0; i < depth; ++i, a += a_step, b += b_step) {
    Lanes columns[width];
    for (size_t j = 0; j < width; ++j) columns[j] = load(b + j * kLanes);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t j = 0; j < width; ++j) tile.sum[row][j] += a[row * a_row] * columns[j];
    }
  }
  return tile;
}

// m(rows, k) = v(rows, c) u(c, k); rows are a multiple of kRows.
template <class Depth>
inline void product_of(const float* v, const float* u, float* m, size_t rows, Depth c, size_t k) {
  by_columns(k, [&](size_t column, auto width) {
    for (size_t row = 0; row < rows; row += kRows) {
      const auto tile = multiply<kRows, width>(v + row * c, c, 1, u + column, k, c);
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < width; ++j) store(m + (row + i) * k + column + j * kLanes, tile.sum[i][j]);
      }
    }
  });
}

inline void product(const float* v, const float* u, float* m, size_t rows, size_t c, size_t k) {
  with_channels(c, [&](auto depth) { product_of(v, u, m, rows, depth, k); });
}

// u(c, k) += v(rows, c)^T g(rows, k); c is a multiple of 2 * kSumRows.
inline void add_outer(const float* v, const float* g, float* u, size_t rows, size_t c, size_t k) {
  by_columns(k, [&](size_t column, auto width) {
    constexpr size_t kAtOnce = 2 * kSumRows / width;
    for (size_t row = 0; row < c; row += kAtOnce) {
      const auto tile = multiply<kAtOnce, width>(v + row, 1, c, g + column, k, rows);
      for (size_t i = 0; i < kAtOnce; ++i) {
        for (size_t j = 0; j < width; ++j) {
          float* to = u + (row + i) * k + column + j * kLanes;
          store(to, load(to) + tile.sum[i][j]);
        }
      }
    }
  });
}

inline size_t rounded_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Memory that is not cleared.
inline std::unique_ptr<float[]> floats(size_t count) {
  return std::unique_ptr<float[]>(new float[count]);
}

}  // namespace intrs::training
