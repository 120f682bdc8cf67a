// Python's view of the layers in training: check sizes, release the GIL, call. No logic.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <stdexcept>

#include "layers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace intrs::training {
namespace {

template <size_t dimensions, class T = float>
using In = nb::ndarray<const T, nb::numpy, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
template <size_t dimensions, class T = float>
using Out = nb::ndarray<T, nb::numpy, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using Kernel = nb::ndarray<const float, nb::numpy, nb::ndim<4>, nb::device::cpu>;

constexpr size_t kChannels = 16;  // they are a multiple of it

// NumPy has no bfloat16: its bits come as 16-bit integers.
const float* data(const float* values) {
  return values;
}
float* data(float* values) {
  return values;
}
const Bf16* data(const int16_t* values) {
  return reinterpret_cast<const Bf16*>(values);
}
Bf16* data(int16_t* values) {
  return reinterpret_cast<Bf16*>(values);
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

template <class A, class B>
void require_alike(const A& a, const B& b) {
  for (size_t i = 0; i < a.ndim(); ++i) require(a.shape(i) == b.shape(i), "tensors of different shapes");
}

void require_channels(size_t channels) {
  require(channels > 0 && channels % kChannels == 0, "channels must be a multiple of 16");
}

template <class Tensor>
Size size_of(const Tensor& tensor) {
  return {tensor.shape(0), tensor.shape(1), tensor.shape(2)};
}

Weights weights_of(const Kernel& w) {
  require_channels(w.shape(0));
  return {w.data(), w.shape(0), w.shape(1), w.stride(0), w.stride(1), w.stride(2), w.stride(3)};
}

// A convolution with stride 1 that is fast by tiles.
bool by_tiles(const Window& window, size_t c) {
  return window.kernel == 3 && window.stride == 1 && window.padding == 1 && c % kChannels == 0;
}

template <class X, class Y>
Window window_of(const X& x, const Y& y, size_t kernel, size_t other, size_t stride, size_t padding) {
  const Window window = {kernel, stride, padding};
  require(kernel == other && kernel > 0 && stride > 0, "not a square window");
  require(x.shape(1) + 2 * padding >= kernel && x.shape(2) + 2 * padding >= kernel, "a window larger than the image");
  require(
      x.shape(0) == y.shape(0) && window.outputs(x.shape(1)) == y.shape(1) && window.outputs(x.shape(2)) == y.shape(2),
      "outputs of another size");
  return window;
}

template <class X, class Y>
Window window_of(const X& x, const Kernel& w, const Y& y, size_t stride, size_t padding) {
  require(x.shape(3) == w.shape(1) && y.shape(3) == w.shape(0), "weights for another number of channels");
  return window_of(x, y, w.shape(2), w.shape(3), stride, padding);
}

template <class T>
void conv_forward(const In<4, T>& x, const Kernel& w, size_t stride, size_t padding, const Out<4, T>& y,
                  unsigned threads) {
  const Weights weights = weights_of(w);
  const Window window = window_of(x, w, y, stride, padding);
  const nb::gil_scoped_release unlocked;
  if (by_tiles(window, weights.c)) {
    convolve3x3(data(x.data()), weights, data(y.data()), size_of(x), threads);
  } else {
    convolve(data(x.data()), weights, window, data(y.data()), size_of(x), threads);
  }
}

template <class T>
void conv_input(const In<4, T>& gradient, const Kernel& w, size_t stride, size_t padding, const Out<4, T>& dx,
                unsigned threads) {
  const Weights weights = weights_of(w);
  const Window window = window_of(dx, w, gradient, stride, padding);
  require_channels(weights.c);
  const nb::gil_scoped_release unlocked;
  if (by_tiles(window, weights.c)) {
    convolve3x3_input(data(gradient.data()), weights, data(dx.data()), size_of(dx), threads);
  } else {
    convolve_input(data(gradient.data()), weights, window, data(dx.data()), size_of(dx), threads);
  }
}

template <class T>
void conv_weights(const In<4, T>& x, const In<4, T>& gradient, size_t stride, size_t padding, const Out<4>& dw,
                  unsigned threads) {
  const size_t k = dw.shape(0), c = dw.shape(1);
  require_channels(k);
  require(x.shape(3) == c && gradient.shape(3) == k, "weights for another number of channels");
  const Window window = window_of(x, gradient, dw.shape(2), dw.shape(3), stride, padding);
  const nb::gil_scoped_release unlocked;
  if (by_tiles(window, c)) {
    convolve3x3_weights(data(x.data()), data(gradient.data()), dw.data(), k, c, size_of(x), threads);
  } else {
    convolve_weights(data(x.data()), data(gradient.data()), window, dw.data(), k, c, size_of(x), threads);
  }
}

template <class T>
size_t channels_of(const In<4, T>& x, const In<1>& a, const In<1>& b, const In<1>& c, const In<1>& d) {
  const size_t channels = x.shape(3);
  require_channels(channels);
  require(size_of(x).pixels() > 0, "no pixels");
  require(a.shape(0) == channels && b.shape(0) == channels && c.shape(0) == channels && d.shape(0) == channels,
          "as many values as channels are wanted");
  return channels;
}

template <class T>
void norm_forward(const In<4, T>& x, const std::optional<In<4, T>>& plus, const In<1>& scale, const In<1>& shift,
                  double epsilon, bool relu, const Out<4, T>& y, const Out<1>& mean, const Out<1>& variance,
                  unsigned threads) {
  const size_t channels = channels_of(x, scale, shift, In<1>(mean), In<1>(variance));
  require_alike(x, y);
  if (plus) require_alike(x, *plus);
  const Norm norm = {scale.data(), shift.data(), mean.data(), variance.data(), float(epsilon), relu};
  const nb::gil_scoped_release unlocked;
  normalise(data(x.data()), plus ? data(plus->data()) : nullptr, norm, data(y.data()), size_of(x).pixels(), channels,
            threads);
}

template <class T>
void norm_backward(const In<4, T>& gradient, const In<4, T>& x, const In<4, T>& y, const In<1>& scale,
                   const Out<1>& mean, const Out<1>& variance, double epsilon, bool relu, const Out<4, T>& dx,
                   const std::optional<Out<4, T>>& dplus, const Out<1>& dscale, const Out<1>& dshift,
                   unsigned threads) {
  const size_t channels = channels_of(x, scale, In<1>(mean), In<1>(variance), In<1>(dscale));
  require(dshift.shape(0) == channels, "as many values as channels are wanted");
  require_alike(x, gradient);
  require_alike(x, y);
  require_alike(x, dx);
  if (dplus) require_alike(x, *dplus);
  const Norm norm = {scale.data(), nullptr, mean.data(), variance.data(), float(epsilon), relu};
  const NormGradients<std::remove_pointer_t<decltype(data(dx.data()))>> to = {
      data(dx.data()), dplus ? data(dplus->data()) : nullptr, dscale.data(), dshift.data()};
  const nb::gil_scoped_release unlocked;
  normalise_backward(data(gradient.data()), data(x.data()), data(y.data()), norm, to, size_of(x).pixels(), channels,
                     threads);
}

template <class T>
void quantise_forward(const In<1, T>& x, double scale, double low, double high, const Out<1, T>& y, unsigned threads) {
  require_alike(x, y);
  const nb::gil_scoped_release unlocked;
  fake_quantise(data(x.data()), {float(scale), float(low), float(high)}, data(y.data()), x.size(), threads);
}

template <class T>
float quantise_backward(const In<1, T>& gradient, const In<1, T>& x, double scale, double low, double high,
                        const Out<1, T>& dx, unsigned threads) {
  require_alike(x, gradient);
  require_alike(x, dx);
  const nb::gil_scoped_release unlocked;
  return fake_quantise_backward(data(gradient.data()), data(x.data()), {float(scale), float(low), float(high)},
                                data(dx.data()), x.size(), threads);
}

}  // namespace
}  // namespace intrs::training

namespace intrs::training {
namespace {

// Arrays are not converted: a copy would be filled in.
template <class T>
void define(nb::module_& m) {
  m.def("convolve", &conv_forward<T>, "x"_a.noconvert(), "weights"_a.noconvert(), "stride"_a, "padding"_a,
        "y"_a.noconvert(), "threads"_a);
  m.def("convolve_input", &conv_input<T>, "gradient"_a.noconvert(), "weights"_a.noconvert(), "stride"_a, "padding"_a,
        "dx"_a.noconvert(), "threads"_a);
  m.def("convolve_weights", &conv_weights<T>, "x"_a.noconvert(), "gradient"_a.noconvert(), "stride"_a, "padding"_a,
        "dw"_a.noconvert(), "threads"_a);
  m.def("normalise", &norm_forward<T>, "x"_a.noconvert(), "plus"_a.none().noconvert(), "scale"_a.noconvert(),
        "shift"_a.noconvert(), "epsilon"_a, "relu"_a, "y"_a.noconvert(), "mean"_a.noconvert(), "variance"_a.noconvert(),
        "threads"_a);
  m.def("normalise_backward", &norm_backward<T>, "gradient"_a.noconvert(), "x"_a.noconvert(), "y"_a.noconvert(),
        "scale"_a.noconvert(), "mean"_a.noconvert(), "variance"_a.noconvert(), "epsilon"_a, "relu"_a,
        "dx"_a.noconvert(), "dplus"_a.none().noconvert(), "dscale"_a.noconvert(), "dshift"_a.noconvert(), "threads"_a);
  m.def("fake_quantise", &quantise_forward<T>, "x"_a.noconvert(), "scale"_a, "low"_a, "high"_a, "y"_a.noconvert(),
        "threads"_a);
  m.def("fake_quantise_backward", &quantise_backward<T>, "gradient"_a.noconvert(), "x"_a.noconvert(), "scale"_a,
        "low"_a, "high"_a, "dx"_a.noconvert(), "threads"_a);
}

}  // namespace
}  // namespace intrs::training

NB_MODULE(INTRS_MODULE, m) {
  using namespace intrs::training;
  m.doc() = "Layers of a float network in training. Import it only where the processor has what it is compiled for.";
  define<float>(m);
  define<int16_t>(m);
}
