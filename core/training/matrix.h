// Products of small matrices that are in the cache; the number of columns k is a multiple of 2 * kLanes.
#pragma once

#include <memory>

#include "lanes.h"

namespace intrs::training {

constexpr size_t kRows = 6;     // of a product in registers, by 2 * kLanes columns
constexpr size_t kSumRows = 4;  // the same for sums over rows, where channels are the rows of the result

template <size_t rows>
struct Tile {
  Lanes sum[rows][2];
};

// Sums of `depth` outer products, in registers: rows from a (a value each), columns from b.
template <size_t rows>
inline Tile<rows> multiply(const float* a, size_t a_row, size_t a_step, const float* b, size_t b_step, size_t depth) {
  Tile<rows> tile = {};
  for (size_t i = 0; i < depth; ++i, a += a_step, b += b_step) {
    const Lanes left = load(b), right = load(b + kLanes);
    for (size_t row = 0; row < rows; ++row) {
      tile.sum[row][0] += a[row * a_row] * left;
      tile.sum[row][1] += a[row * a_row] * right;
    }
  }
  return tile;
}

// m(rows, k) = v(rows, c) u(c, k); rows are a multiple of kRows.
inline void product(const float* v, const float* u, float* m, size_t rows, size_t c, size_t k) {
  for (size_t column = 0; column < k; column += 2 * kLanes) {
    for (size_t row = 0; row < rows; row += kRows) {
      const Tile<kRows> tile = multiply<kRows>(v + row * c, c, 1, u + column, k, c);
      for (size_t i = 0; i < kRows; ++i) {
        store(m + (row + i) * k + column, tile.sum[i][0]);
        store(m + (row + i) * k + column + kLanes, tile.sum[i][1]);
      }
    }
  }
}

// u(c, k) += v(rows, c)^T g(rows, k); c is a multiple of kSumRows.
inline void add_outer(const float* v, const float* g, float* u, size_t rows, size_t c, size_t k) {
  for (size_t column = 0; column < k; column += 2 * kLanes) {
    for (size_t row = 0; row < c; row += kSumRows) {
      const Tile<kSumRows> tile = multiply<kSumRows>(v + row, 1, c, g + column, k, rows);
      for (size_t i = 0; i < kSumRows; ++i) {
        float* to = u + (row + i) * k + column;
        store(to, load(to) + tile.sum[i][0]);
        store(to + kLanes, load(to + kLanes) + tile.sum[i][1]);
      }
    }
  }
}

inline size_t rounded_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Memory that is not cleared.
inline std::unique_ptr<float[]> floats(size_t count) {
  return std::unique_ptr<float[]>(new float[count]);
}

}  // namespace intrs::training
