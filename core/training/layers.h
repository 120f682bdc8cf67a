// Layers of a network in training, forward and backward: convolutions, batch normalisation, rounding to codes.
// Tensors are (n, height, width, channels) in memory, which PyTorch calls channels_last, of T: float or Bf16, which
// takes half the memory; sums, weights and statistics are float32. Results depend on the number of threads in the last
// bits, as those of PyTorch do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intrs::training {

struct Bf16 {
  uint16_t bits;
};

struct Size {
  size_t images, height, width;
  size_t pixels() const { return images * height * width; }
};

// Weights are (k, c, kernel, kernel) with any strides, counted in floats; k is a multiple of 16.
struct Weights {
  const float* data;
  size_t k, c;
  ptrdiff_t stride_k, stride_c, stride_row, stride_column;
};

struct Window {
  size_t kernel, stride, padding;
  size_t outputs(size_t inputs) const { return (inputs + 2 * padding - kernel) / stride + 1; }
};

// y = x * w, the gradient of x out of that of y, and the gradient of the weights, (k, c, kernel, kernel). For the
// gradient of x, c is a multiple of 16.
template <class T>
void convolve(const T* x, const Weights& w, const Window& window, T* y, const Size& size, unsigned threads);
template <class T>
void convolve_input(const T* gradient, const Weights& w, const Window& window, T* dx, const Size& size,
                    unsigned threads);
template <class T>
void convolve_weights(const T* x, const T* gradient, const Window& window, float* dw, size_t k, size_t c,
                      const Size& size, unsigned threads);

// The same by a quarter of the products, for 3x3 kernels with stride 1 and padding 1; c is a multiple of 16, too.
template <class T>
void convolve3x3(const T* x, const Weights& w, T* y, const Size& size, unsigned threads);
template <class T>
void convolve3x3_input(const T* gradient, const Weights& w, T* dx, const Size& size, unsigned threads);
template <class T>
void convolve3x3_weights(const T* x, const T* gradient, float* dw, size_t k, size_t c, const Size& size,
                         unsigned threads);

// y = max(0, (x - mean) / std * scale + shift + plus), by the mean and variance of the batch; without `plus` and
// `relu` the batch normalisation alone.
struct Norm {
  const float *scale, *shift;
  float *mean, *variance;  // of the batch; the variance is the biased one
  float epsilon;
  bool relu;
};

template <class T>
void normalise(const T* x, const T* plus, const Norm& norm, T* y, size_t pixels, size_t channels, unsigned threads);

template <class T>
struct NormGradients {
  T *x, *plus;  // `plus` may be null
  float *scale, *shift;
};

template <class T>
void normalise_backward(const T* gradient, const T* x, const T* y, const Norm& norm, const NormGradients<T>& to,
                        size_t pixels, size_t channels, unsigned threads);

// y = scale * round(x / scale), the code kept in low .. high.
struct Grid {
  float scale, low, high;  // codes without their zero point
};

template <class T>
void fake_quantise(const T* x, const Grid& grid, T* y, size_t count, unsigned threads);
// The gradient of x, and returned the sum that is the gradient of the scale.
template <class T>
float fake_quantise_backward(const T* gradient, const T* x, const Grid& grid, T* dx, size_t count, unsigned threads);

}  // namespace intrs::training
