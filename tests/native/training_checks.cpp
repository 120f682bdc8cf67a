// The float layers of training against plain loops, on random shapes and numbers of threads. For sanitizers; precision
// is for tests/test_training_layers.py. Needs the instructions that the layers are compiled for.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "layers.h"
#include "parallel.h"

using namespace intrs::training;

namespace {

float value(float x) {
  return x;
}

float value(Bf16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

void put(float& to, float x) {
  to = x;
}

void put(Bf16& to, float x) {  // cut off: these are inputs
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  to.bits = uint16_t(bits >> 16);
}

std::mt19937 generator(1);

size_t any(size_t low, size_t high) {
  return std::uniform_int_distribution<size_t>(low, high)(generator);
}

template <class T>
std::vector<T> random(size_t count) {
  std::normal_distribution<float> normal;
  std::vector<T> found(count);
  for (T& x : found) put(x, normal(generator));
  return found;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s differs\n", what);
  std::exit(1);
}

template <class T>
void require_close(const std::vector<T>& found, const std::vector<double>& wanted, const char* what) {
  double most = 1;
  for (const double x : wanted) most = std::max(most, std::fabs(x));
  for (size_t i = 0; i < wanted.size(); ++i) {
    require(std::fabs(double(value(found[i])) - wanted[i]) < 1e-2 * most, what);
  }
}

// Calls use(place in x, place in w, place in y) for every product of a convolution.
template <class Use>
void products(const Size& size, const Window& window, size_t c, size_t k, const Use& use) {
  const size_t height = window.outputs(size.height), width = window.outputs(size.width), side = window.kernel;
  for (size_t at = 0; at < size.images * height * width * side * side; ++at) {
    const size_t j = at % side, i = at / side % side, pixel = at / side / side;
    const size_t column = pixel % width, row = pixel / width % height, n = pixel / width / height;
    const size_t y = row * window.stride + i - window.padding, x = column * window.stride + j - window.padding;
    if (y >= size.height || x >= size.width) continue;  // below zero, too: sizes have no sign
    for (size_t in = 0; in < c; ++in) {
      for (size_t out = 0; out < k; ++out) {
        use(((n * size.height + y) * size.width + x) * c + in, ((out * c + in) * side + i) * side + j, pixel * k + out);
      }
    }
  }
}

template <class T>
void check_convolution() {
  const bool tiles = any(0, 1);
  const size_t side = tiles ? 3 : any(0, 2) * 2 + 1, c = 16 * any(1, 2), k = 16 * any(1, 2);
  const Window window = {side, tiles ? 1 : any(1, 3), tiles ? 1 : any(0, side / 2)};
  const Size size = {any(1, 5), any(side, 10), any(side, 10)};
  const auto threads = unsigned(any(1, 4));
  const auto x = random<T>(size.pixels() * c);
  const auto w = random<float>(k * c * side * side);
  const auto g = random<T>(size.images * window.outputs(size.height) * window.outputs(size.width) * k);
  const auto side_step = ptrdiff_t(side);
  const Weights weights = {w.data(), k, c, ptrdiff_t(c) * side_step * side_step, side_step * side_step, side_step, 1};
  std::vector<T> y(g.size()), dx(x.size());
  std::vector<float> dw(w.size());
  if (tiles) {
    convolve3x3(x.data(), weights, y.data(), size, threads);
    convolve3x3_input(g.data(), weights, dx.data(), size, threads);
    convolve3x3_weights(x.data(), g.data(), dw.data(), k, c, size, threads);
  } else {
    convolve(x.data(), weights, window, y.data(), size, threads);
    convolve_input(g.data(), weights, window, dx.data(), size, threads);
    convolve_weights(x.data(), g.data(), window, dw.data(), k, c, size, threads);
  }
  std::vector<double> wanted_y(y.size()), wanted_dx(dx.size()), wanted_dw(dw.size());
  products(size, window, c, k, [&](size_t in, size_t weight, size_t out) {
    wanted_y[out] += double(value(x[in])) * double(w[weight]);
    wanted_dx[in] += double(value(g[out])) * double(w[weight]);
    wanted_dw[weight] += double(value(x[in])) * double(value(g[out]));
  });
  require_close(y, wanted_y, "a convolution");
  require_close(dx, wanted_dx, "the gradient of an input");
  require_close(dw, wanted_dw, "the gradient of weights");
}

template <class T>
void check_normalisation() {
  const size_t pixels = any(2, 3000), channels = 16 * any(1, 3);
  const auto threads = unsigned(any(1, 4));
  const bool with_plus = any(0, 1);
  const auto x = random<T>(pixels * channels), plus = random<T>(pixels * channels), g = random<T>(pixels * channels);
  const auto scale = random<float>(channels), shift = random<float>(channels);
  std::vector<float> mean(channels), variance(channels), dscale(channels), dshift(channels);
  std::vector<T> y(x.size()), dx(x.size()), dplus(x.size());
  const Norm norm = {scale.data(), shift.data(), mean.data(), variance.data(), 1e-5f, any(0, 1) == 1};
  normalise(x.data(), with_plus ? plus.data() : nullptr, norm, y.data(), pixels, channels, threads);
  const NormGradients<T> to = {dx.data(), with_plus ? dplus.data() : nullptr, dscale.data(), dshift.data()};
  normalise_backward(g.data(), x.data(), y.data(), norm, to, pixels, channels, threads);
  std::vector<double> wanted(y.size()), sums(channels);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = i % channels;
    const double deviation = std::sqrt(double(variance[c]) + 1e-5);
    wanted[i] = (double(value(x[i])) - double(mean[c])) / deviation * double(scale[c]) + double(shift[c]) +
                (with_plus ? double(value(plus[i])) : 0);
    if (norm.relu) wanted[i] = std::max(0.0, wanted[i]);
    if (!norm.relu || value(y[i]) > 0) sums[c] += double(value(g[i]));
  }
  require_close(y, wanted, "a normalised value");
  require_close(dshift, sums, "the gradient of a shift");
}

template <class T>
void check_rounding() {
  const size_t count = any(1, 40000);
  const auto x = random<T>(count), g = random<T>(count);
  std::vector<T> y(count), dx(count);
  const Grid grid = {0.03125f, -float(any(0, 128)), float(any(100, 255))};
  const auto threads = unsigned(any(1, 4));
  fake_quantise(x.data(), grid, y.data(), count, threads);
  fake_quantise_backward(g.data(), x.data(), grid, dx.data(), count, threads);
  for (size_t i = 0; i < count; ++i) {
    const float code = std::nearbyint(std::min(std::max(value(x[i]) / grid.scale, grid.low), grid.high));
    require(value(y[i]) == code * grid.scale, "a rounded value");
    require(value(dx[i]) == 0 || value(dx[i]) == value(g[i]), "the gradient of a rounded value");
  }
}

// What a part throws comes out of the call, after all other parts.
void check_exceptions() {
  for (unsigned parts = 1; parts <= 6; ++parts) {
    const size_t thrower = any(0, parts - 1);
    std::atomic<unsigned> others{0};
    bool caught = false;
    try {
      on_threads(parts, [&](unsigned part) {
        if (part == thrower) throw std::bad_alloc();
        ++others;
      });
    } catch (const std::bad_alloc&) {
      caught = true;
    }
    require(caught, "what a part throws");
    require(parts == 1 || others == parts - 1, "the number of parts that ended");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 20;
  for (int i = 0; i < rounds; ++i) {
    check_convolution<float>();
    check_convolution<Bf16>();
    check_normalisation<float>();
    check_normalisation<Bf16>();
    check_rounding<float>();
    check_rounding<Bf16>();
    check_exceptions();
  }
  std::printf("%d rounds\n", rounds);
}
