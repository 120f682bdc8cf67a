#include "intrs_sha256.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u};

static uint32_t turned(uint32_t value, int by) {
  return value >> by | value << (32 - by);
}

static void add_block(uint32_t state[8], const uint8_t bytes[64]) {
  uint32_t w[16], s[8];
  int i;
  for (i = 0; i < 16; ++i) {
    w[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 | (uint32_t)bytes[4 * i + 2] << 8 |
           (uint32_t)bytes[4 * i + 3];
  }
  memcpy(s, state, sizeof s);
  for (i = 0; i < 64; ++i) {
    const uint32_t a = s[0], e = s[4];
    uint32_t first, second;
    if (i >= 16) {
      const uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
      w[i & 15] +=
          w[(i + 9) & 15] + (turned(x, 7) ^ turned(x, 18) ^ x >> 3) + (turned(y, 17) ^ turned(y, 19) ^ y >> 10);
    }
    first =
        s[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + constants[i] + w[i & 15];
    second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s[7] = s[6];
    s[6] = s[5];
    s[5] = e;
    s[4] = s[3] + first;
    s[3] = s[2];
    s[2] = s[1];
    s[1] = a;
    s[0] = first + second;
  }
  for (i = 0; i < 8; ++i) state[i] += s[i];
}

void intrs_sha256_begin(intrs_sha256_state* sha) {
  static const uint32_t first[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                    0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  memcpy(sha->state, first, sizeof first);
  sha->count = 0;
}

void intrs_sha256_add(intrs_sha256_state* sha, const uint8_t* bytes, size_t count) {
  while (count != 0) {
    const size_t held = (size_t)(sha->count % 64), room = 64 - held, part = count < room ? count : room;
    if (part == 64) {
      add_block(sha->state, bytes);
    } else {
      memcpy(sha->block + held, bytes, part);
      if (part == room) add_block(sha->state, sha->block);
    }
    sha->count += part;
    bytes += part;
    count -= part;
  }
}

void intrs_sha256_end(intrs_sha256_state* sha, uint8_t digest[32]) {
  static const uint8_t padding[64] = {0x80};
  const uint64_t count = sha->count;
  uint8_t length[8];
  int i;
  for (i = 0; i < 8; ++i) length[i] = (uint8_t)(count * 8 >> (56 - 8 * i));
  intrs_sha256_add(sha, padding, (size_t)(1 + (119 - count % 64) % 64));
  intrs_sha256_add(sha, length, 8);
  for (i = 0; i < 32; ++i) digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

void intrs_sha256(const uint8_t* bytes, size_t count, uint8_t digest[32]) {
  intrs_sha256_state sha;
  intrs_sha256_begin(&sha);
  intrs_sha256_add(&sha, bytes, count);
  intrs_sha256_end(&sha, digest);
}
