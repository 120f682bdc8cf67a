// The minimal filtering algorithm F(4x4, 3x3) of Lavin and Gray (2016) on lanes of channels, in float32, for training.
// Interpolation points 0, 1, -1, 2, -2 and infinity: y = A^T [(G w G^T) * (B^T d B)] A for a tile of 4 x 4 outputs,
// with 36 products where the definition has 144. The gradient of the weights is the adjoint of the same algorithm.
#pragma once

#include "lanes.h"

namespace intrs::training {

constexpr int kTile = 4, kPatch = 6, kPlaces = kPatch * kPatch;

// B^T: six inputs to six, in place, `step` apart.
template <class T>
inline void transform_input(T* d, int step) {
  const T d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  const T a = d4 - 4.0f * d2, b = d3 - 4.0f * d1, c = d4 - d2, e = d3 - d1;
  d[0] = 4.0f * d0 + (d4 - 5.0f * d2);
  d[step] = a + b;
  d[2 * step] = a - b;
  d[3 * step] = c + 2.0f * e;
  d[4 * step] = c - 2.0f * e;
  d[5 * step] = 4.0f * d1 + (d5 - 5.0f * d3);
}

// A^T: six products to four outputs.
template <class T>
inline void transform_output(const T* m, int step, T* y, int out) {
  const T s = m[step] + m[2 * step], d = m[step] - m[2 * step];
  const T p = m[3 * step] + m[4 * step], q = m[3 * step] - m[4 * step];
  y[0] = m[0] + s + p;
  y[out] = d + 2.0f * q;
  y[2 * out] = s + 4.0f * p;
  y[3 * out] = d + 8.0f * q + m[5 * step];
}

// A, the adjoint of the above: the gradients of four outputs to those of six products.
template <class T>
inline void transform_gradient(const T* g, int step, T* m, int out) {
  const T g0 = g[0], g1 = g[step], g2 = g[2 * step], g3 = g[3 * step];
  const T even = g0 + g2, odd = g1 + g3, even2 = g0 + 4.0f * g2, odd2 = 2.0f * g1 + 8.0f * g3;
  m[0] = g0;
  m[out] = even + odd;
  m[2 * out] = even - odd;
  m[3 * out] = even2 + odd2;
  m[4 * out] = even2 - odd2;
  m[5 * out] = g3;
}

// G: three weights to six.
template <class T>
inline void transform_weight(const T* w, int step, T* u, int out) {
  const T even = w[0] + w[2 * step], even2 = w[0] + 4.0f * w[2 * step];
  u[0] = w[0] / 4.0f;
  u[out] = -(even + w[step]) / 6.0f;
  u[2 * out] = -(even - w[step]) / 6.0f;
  u[3 * out] = (even2 + 2.0f * w[step]) / 24.0f;
  u[4 * out] = (even2 - 2.0f * w[step]) / 24.0f;
  u[5 * out] = w[2 * step];
}

// G^T, its adjoint: the gradients of six transformed weights to those of three.
template <class T>
inline void gather_weight(const T* u, int step, T* w, int out) {
  const T s1 = (u[step] + u[2 * step]) / 6.0f, d1 = (u[step] - u[2 * step]) / 6.0f;
  const T s2 = (u[3 * step] + u[4 * step]) / 24.0f, d2 = (u[3 * step] - u[4 * step]) / 24.0f;
  w[0] = u[0] / 4.0f - s1 + s2;
  w[out] = 2.0f * d2 - d1;
  w[2 * out] = 4.0f * s2 - s1 + u[5 * step];
}

}  // namespace intrs::training
