#include "bits.h"

#include "error.h"

namespace intrs {
namespace {

constexpr uint32_t rotate(uint32_t value, int by) {
  return value << by | value >> (32 - by);
}

void quarter_round(Block& s, int a, int b, int c, int d) {  // RFC 8439, 2.1
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 7);
}

void double_round(Block& s) {  // columns, then diagonals
  for (int i = 0; i < 4; ++i) quarter_round(s, i, 4 + i, 8 + i, 12 + i);
  for (int i = 0; i < 4; ++i) quarter_round(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
}

}  // namespace

Block chacha20_block(const Key& key, uint32_t counter, const std::array<uint32_t, 3>& nonce) {
  const Block start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0],  key[1],   key[2],   key[3],
                       key[4],     key[5],     key[6],     key[7],     counter, nonce[0], nonce[1], nonce[2]};
  Block state = start;
  for (int round = 0; round < 10; ++round) double_round(state);
  for (int i = 0; i < 16; ++i) state[i] += start[i];
  return state;
}

void Samples::check() const {
  if (count == 0) return;
  require(count - 1 <= UINT64_MAX - first, "the sample range goes past the last address");
  require((first < kSelection) == (first + (count - 1) < kSelection),
          "the sample range runs from estimation into selection");
}

}  // namespace intrs
