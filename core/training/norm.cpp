// Batch normalisation with what follows it in a residual network, so that a tensor goes through memory fewer times.
#include <cmath>
#include <vector>

#include "lanes.h"
#include "parallel.h"

namespace intrs::training {
namespace {

constexpr size_t kChunkFloats = 1 << 14;  // summed in float32 while they are in the first caches, then in float64

// What is known of each channel of some pixels: number, mean, and sum of squared distances from the mean.
struct Moments {
  double count = 0;
  std::vector<double> mean, squares;

  explicit Moments(size_t channels) : mean(channels), squares(channels) {}

  // Chan, Golub and LeVeque 1979.
  void add(double n, const float* means, const float* sums) {
    const double all = count + n;
    for (size_t c = 0; c < mean.size(); ++c) {
      const double apart = double(means[c]) - mean[c];
      squares[c] += double(sums[c]) + apart * apart * count * n / all;
      mean[c] += apart * n / all;
    }
    count = all;
  }

  void add(const Moments& other) {
    if (other.count == 0) return;
    const double all = count + other.count;
    for (size_t c = 0; c < mean.size(); ++c) {
      const double apart = other.mean[c] - mean[c];
      squares[c] += other.squares[c] + apart * apart * count * other.count / all;
      mean[c] += apart * other.count / all;
    }
    count = all;
  }
};

// Sums of value(place) over the pixels of a chunk, for the lanes of channels from c on.
template <class Value>
inline Lanes sum_over(size_t pixels, size_t channels, const Value& value) {
  Lanes sums[4] = {};
  size_t p = 0;
  for (; p + 4 <= pixels; p += 4) {
    for (size_t i = 0; i < 4; ++i) sums[i] += value((p + i) * channels);
  }
  for (; p < pixels; ++p) sums[0] += value(p * channels);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

size_t chunk_pixels(size_t channels) {
  return std::max<size_t>(1, kChunkFloats / channels);
}

// Calls work(first pixel, number of pixels) for the chunks first .. last of a tensor.
template <class Work>
void by_chunks(size_t pixels, size_t channels, size_t first, size_t last, const Work& work) {
  const size_t each = chunk_pixels(channels);
  for (size_t chunk = first; chunk < last; ++chunk) work(chunk * each, std::min(each, pixels - chunk * each));
}

size_t chunks_of(size_t pixels, size_t channels) {
  return (pixels + chunk_pixels(channels) - 1) / chunk_pixels(channels);
}

template <class T>
Moments moments(const T* x, size_t pixels, size_t channels, unsigned threads) {
  const size_t chunks = chunks_of(pixels, channels);
  const unsigned parts = parts_of(chunks, threads);
  std::vector<Moments> found(parts, Moments(channels));
  in_parts(chunks, parts, [&](unsigned part, size_t first, size_t last) {
    std::vector<float> means(channels), squares(channels);
    by_chunks(pixels, channels, first, last, [&](size_t begin, size_t count) {
      for (size_t c = 0; c < channels; c += kLanes) {
        const T* from = x + begin * channels + c;
        const Lanes mean = sum_over(count, channels, [&](size_t at) { return load(from + at); }) / float(count);
        store(&means[c], mean);
        store(&squares[c], sum_over(count, channels, [&](size_t at) {
          const Lanes apart = load(from + at) - mean;
          return apart * apart;
        }));
      }
      found[part].add(double(count), means.data(), squares.data());
    });
  });
  for (unsigned part = 1; part < parts; ++part) found[0].add(found[part]);
  return found[0];
}

inline Lanes positive(Lanes value) {  // NaN stays: what diverged must not look sound
  return value < 0.0f ? Lanes{} : value;
}

// Calls write(place, lane's channel) for all lanes of the chunks.
template <class Write>
void for_all(size_t pixels, size_t channels, unsigned threads, const Write& write) {
  in_parts(pixels, parts_of(pixels, threads), [&](unsigned, size_t first, size_t last) {
    for (size_t p = first; p < last; ++p) {
      for (size_t c = 0; c < channels; c += kLanes) write(p * channels + c, c);
    }
  });
}

}  // namespace

template <class T>
void normalise(const T* x, const T* plus, const Norm& norm, T* y, size_t pixels, size_t channels, unsigned threads) {
  const Moments found = moments(x, pixels, channels, threads);
  std::vector<float> factors(channels), summands(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double variance = found.squares[c] / found.count;
    const double factor = double(norm.scale[c]) / std::sqrt(variance + double(norm.epsilon));
    norm.mean[c] = float(found.mean[c]);
    norm.variance[c] = float(variance);
    factors[c] = float(factor);
    summands[c] = float(double(norm.shift[c]) - found.mean[c] * factor);
  }
  const auto scaled = [&](size_t at, size_t c) { return load(x + at) * load(&factors[c]) + load(&summands[c]); };
  if (plus && norm.relu) {
    for_all(pixels, channels, threads,
            [&](size_t at, size_t c) { store(y + at, positive(scaled(at, c) + load(plus + at))); });
  } else if (plus) {
    for_all(pixels, channels, threads, [&](size_t at, size_t c) { store(y + at, scaled(at, c) + load(plus + at)); });
  } else if (norm.relu) {
    for_all(pixels, channels, threads, [&](size_t at, size_t c) { store(y + at, positive(scaled(at, c))); });
  } else {
    for_all(pixels, channels, threads, [&](size_t at, size_t c) { store(y + at, scaled(at, c)); });
  }
}

namespace {

struct Sums {
  std::vector<double> gradient, product;  // of the gradient, and of it times the distance from the mean
  explicit Sums(size_t channels) : gradient(channels), product(channels) {}
};

// `gradient(place)` is that of the normalised values; it is asked for once per place.
template <class T, class Gradient>
Sums sums_of(const Gradient& gradient, const T* x, const Norm& norm, size_t pixels, size_t channels, unsigned threads) {
  const size_t chunks = chunks_of(pixels, channels);
  const unsigned parts = parts_of(chunks, threads);
  std::vector<Sums> found(parts, Sums(channels));
  in_parts(chunks, parts, [&](unsigned part, size_t first, size_t last) {
    by_chunks(pixels, channels, first, last, [&](size_t begin, size_t count) {
      for (size_t c = 0; c < channels; c += kLanes) {
        const size_t from = begin * channels + c;
        const Lanes mean = load(norm.mean + c);
        Lanes products[4] = {}, sums[4] = {};
        for (size_t p = 0; p < count; ++p) {
          const Lanes g = gradient(from + p * channels);
          sums[p % 4] += g;
          products[p % 4] += g * (load(x + from + p * channels) - mean);
        }
        const Lanes sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        const Lanes product = (products[0] + products[1]) + (products[2] + products[3]);
        for (size_t i = 0; i < kLanes; ++i) {
          found[part].gradient[c + i] += double(sum[i]);
          found[part].product[c + i] += double(product[i]);
        }
      }
    });
  });
  for (unsigned part = 1; part < parts; ++part) {
    for (size_t c = 0; c < channels; ++c) {
      found[0].gradient[c] += found[part].gradient[c];
      found[0].product[c] += found[part].product[c];
    }
  }
  return found[0];
}

// With g the gradient of y = a (x - m) + shift, a = scale / std: dx = a (g - mean g - (x - m) mean(g (x - m)) / std^2),
// as factor * g + slope * x + summand.
template <class T, class Gradient>
void input_gradient(const Gradient& gradient, const T* x, const Norm& norm, const Sums& sums,
                    const NormGradients<T>& to, size_t pixels, size_t channels, unsigned threads) {
  std::vector<float> factors(channels), slopes(channels), summands(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double inverse = 1 / std::sqrt(double(norm.variance[c]) + double(norm.epsilon));
    const double factor = double(norm.scale[c]) * inverse, n = double(pixels);
    const double slope = -factor * inverse * inverse * sums.product[c] / n;
    to.scale[c] = float(sums.product[c] * inverse);
    to.shift[c] = float(sums.gradient[c]);
    factors[c] = float(factor);
    slopes[c] = float(slope);
    summands[c] = float(-factor * sums.gradient[c] / n - slope * double(norm.mean[c]));
  }
  for_all(pixels, channels, threads, [&](size_t at, size_t c) {
    store(to.x + at, load(&factors[c]) * gradient(at) + (load(&slopes[c]) * load(x + at) + load(&summands[c])));
  });
}

}  // namespace

template <class T>
void normalise_backward(const T* gradient, const T* x, const T* y, const Norm& norm, const NormGradients<T>& to,
                        size_t pixels, size_t channels, unsigned threads) {
  const auto through = [&](const auto& first, const auto& second) {
    const Sums sums = sums_of(first, x, norm, pixels, channels, threads);
    input_gradient(second, x, norm, sums, to, pixels, channels, threads);
  };
  const auto given = [&](size_t at) { return load(gradient + at); };
  const auto passed = [&](size_t at) { return load(y + at) <= 0.0f ? Lanes{} : load(gradient + at); };
  const auto kept = [&](size_t at) {  // the gradient of `plus` is this one, too
    const Lanes g = norm.relu ? passed(at) : given(at);
    store(to.plus + at, g);
    return g;
  };
  if (to.plus) {
    through(kept, [&](size_t at) { return load(to.plus + at); });
  } else if (norm.relu) {
    through(passed, passed);
  } else {
    through(given, given);
  }
}

#define INTRS_STORED_AS(T)                                                                                        \
  template void normalise<T>(const T*, const T*, const Norm&, T*, size_t, size_t, unsigned);                      \
  template void normalise_backward<T>(const T*, const T*, const T*, const Norm&, const NormGradients<T>&, size_t, \
                                      size_t, unsigned);
INTRS_STORED_AS(float)
INTRS_STORED_AS(Bf16)

}  // namespace intrs::training
