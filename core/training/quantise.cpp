// Rounding of activations to codes in quantization-aware training, and its gradient (LSQ, Esser et al. 2020).
#include <vector>

#include "lanes.h"
#include "parallel.h"

namespace intrs::training {
namespace {

constexpr size_t kPiece = 1 << 9;  // lanes that are summed in float32, then in float64

inline Lanes rounded(Lanes value) {      // of -2^22 .. 2^22
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: floats from there on are whole, so adding it rounds half to even
  const Lanes moved = value + kWhole;
  return moved - kWhole;
}

inline Lanes between(Lanes value, const Grid& grid) {
  const Lanes low = Lanes{} + grid.low, high = Lanes{} + grid.high;
  const Lanes up = value < low ? low : value;
  return up > high ? high : up;
}

unsigned parts_for(size_t count, unsigned threads) {
  return parts_of(count / kLanes / kPiece, threads);
}

// The values behind the last whole lane, with zeros behind them.
template <class T>
Lanes load_rest(const T* from, size_t count) {
  T values[kLanes] = {};
  for (size_t i = 0; i < count; ++i) values[i] = from[i];
  return load(values);
}

template <class T>
void store_rest(T* to, size_t count, Lanes value) {
  T values[kLanes];
  store(values, value);
  for (size_t i = 0; i < count; ++i) to[i] = values[i];
}

// Division, not multiplication by the reciprocal: this is what QuantizeLinear does.
inline Lanes quantised(Lanes x, const Grid& grid) {
  return rounded(between(x / grid.scale, grid)) * grid.scale;
}

struct Gradients {
  Lanes x, scale;
};

// d(y)/d(scale) is the rounding error inside the range and the limit itself outside of it.
inline Gradients gradients(Lanes g, Lanes x, const Grid& grid) {
  const Lanes steps = x / grid.scale, code = between(steps, grid);
  const auto inside = steps == code;
  return {inside ? g : Lanes{}, (rounded(code) - (inside ? steps : Lanes{})) * g};
}

}  // namespace

template <class T>
void fake_quantise(const T* x, const Grid& grid, T* y, size_t count, unsigned threads) {
  in_parts(count / kLanes, parts_for(count, threads), [&](unsigned, size_t first, size_t last) {
    for (size_t i = first * kLanes; i < last * kLanes; i += kLanes) store(y + i, quantised(load(x + i), grid));
  });
  const size_t rest = count % kLanes, at = count - rest;
  store_rest(y + at, rest, quantised(load_rest(x + at, rest), grid));
}

template <class T>
float fake_quantise_backward(const T* gradient, const T* x, const Grid& grid, T* dx, size_t count, unsigned threads) {
  const unsigned parts = parts_for(count, threads);
  std::vector<double> sums(parts);
  in_parts(count / kLanes, parts, [&](unsigned part, size_t first, size_t last) {
    for (size_t begin = first; begin < last; begin += kPiece) {
      Lanes sum = {};
      for (size_t i = begin * kLanes; i < std::min(last, begin + kPiece) * kLanes; i += kLanes) {
        const Gradients found = gradients(load(gradient + i), load(x + i), grid);
        store(dx + i, found.x);
        sum += found.scale;
      }
      for (size_t lane = 0; lane < kLanes; ++lane) sums[part] += double(sum[lane]);
    }
  });
  const size_t rest = count % kLanes, at = count - rest;
  const Gradients found = gradients(load_rest(gradient + at, rest), load_rest(x + at, rest), grid);
  store_rest(dx + at, rest, found.x);
  double sum = 0;
  for (const double part : sums) sum += part;
  for (size_t lane = 0; lane < kLanes; ++lane) sum += double(found.scale[lane]);
  return float(sum);
}

#define INTRS_STORED_AS(T)                                                     \
  template void fake_quantise<T>(const T*, const Grid&, T*, size_t, unsigned); \
  template float fake_quantise_backward<T>(const T*, const T*, const Grid&, T*, size_t, unsigned);
INTRS_STORED_AS(float)
INTRS_STORED_AS(Bf16)

}  // namespace intrs::training
