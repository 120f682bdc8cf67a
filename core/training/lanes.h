// Eight values of float32 at a time, or sixteen with AVX-512, out of tensors that are stored as float32 or as bfloat16,
// its upper half.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "layers.h"

namespace intrs::training {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));

// The same in memory, where nothing is aligned but each value.
typedef float StoredLanes __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef uint16_t StoredHalves __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));

inline Lanes load(const float* from) {
  return *reinterpret_cast<const StoredLanes*>(from);
}

inline Lanes load(const Bf16* from) {
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return Lanes(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
#elif defined(__AVX2__)
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return Lanes(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
#else
  return Lanes(__builtin_convertvector(*reinterpret_cast<const StoredHalves*>(from), Words) << 16);
#endif
}

inline float load_one(const float* from) {
  return *from;
}

inline float load_one(const Bf16* from) {
  return (Lanes(Words{} + (uint32_t(from->bits) << 16)))[0];
}

inline void store(float* to, Lanes value) {
  *reinterpret_cast<StoredLanes*>(to) = value;
}

inline void store(Bf16* to, Lanes value) {  // rounded half to even
  const Words bits = Words(value);
  const Words rounded = (bits + (0x7FFFu + (bits >> 16 & 1u))) >> 16;
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(__m512i(rounded)));
#elif defined(__AVX2__)
  const __m256i twice = _mm256_packus_epi32(__m256i(rounded), __m256i(rounded));  // within each half of the register
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(_mm256_permute4x64_epi64(twice, 8)));
#else
  *reinterpret_cast<StoredHalves*>(to) = __builtin_convertvector(rounded, StoredHalves);
#endif
}

// Copies values, of which there are a multiple of kLanes.
template <class From, class To>
inline void copy_lanes(const From* from, size_t count, To* to) {
  for (size_t at = 0; at < count; at += kLanes) store(to + at, load(from + at));
}

}  // namespace intrs::training
