// The noise of one sample, for the eye: the same bits as in core/bits.h and core/noise.h, one sample at a time.
// Votes are never counted with it; the tests hold it to the core.

const BLOCK = 16;  // coordinates per ChaCha20 block
const REFINING = 0x80000000;
const HEADER = 72;  // bytes before the thresholds of a noise table

const rotate = (value, by) => (value << by) | (value >>> (32 - by));

function quarter(s, a, b, c, d) {  // RFC 8439, 2.1
  s[a] += s[b]; s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d]; s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b]; s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d]; s[b] = rotate(s[b] ^ s[c], 7);
}

function block(start, counter) {
  start[12] = counter;
  const s = start.slice();
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 4; i++) quarter(s, i, 4 + i, 8 + i, 12 + i);
    for (let i = 0; i < 4; i++) quarter(s, i, 4 + ((i + 1) % 4), 8 + ((i + 2) % 4), 12 + ((i + 3) % 4));
  }
  for (let i = 0; i < 16; i++) s[i] += start[i];
  return s;
}

// The table's thresholds, as upper and lower halves of 64 bits.
function thresholds(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = (bytes.byteLength - HEADER) / 8;
  const high = new Uint32Array(count), low = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    low[i] = view.getUint32(HEADER + 8 * i, true);
    high[i] = view.getUint32(HEADER + 8 * i + 4, true);
  }
  return { high, low, first: -count / 2 };
}

// How many thresholds lie below a number, by its upper half; and those that share it need the lower half.
function below(high, value) {
  let from = 0, to = high.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (high[middle] < value) from = middle + 1; else to = middle;
  }
  return from;
}

export class Noise {
  constructor(table) {
    this.table = thresholds(table);
  }

  // The picture with the noise of one sample: integers, some below 0 or above 255.
  draw(pixels, seed, image, sample) {
    const { high, low, first } = this.table;
    const start = new Uint32Array(16);
    start.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
    for (let i = 0; i < 8; i++) start[4 + i] = Number((seed >> BigInt(32 * i)) & 0xffffffffn);
    start.set([sample % 2 ** 32, Math.floor(sample / 2 ** 32), image], 13);
    const out = new Int32Array(pixels.length);
    for (let at = 0; at < pixels.length; at += BLOCK) {
      const words = block(start, at / BLOCK);
      let refining = null;
      for (let i = 0; i < BLOCK && at + i < pixels.length; i++) {
        let count = below(high, words[i]);
        while (count < high.length && high[count] === words[i]) {
          refining ??= block(start, REFINING + at / BLOCK);
          if (low[count] > refining[i]) break;
          count++;
        }
        out[at + i] = pixels[at + i] + first + count;
      }
    }
    return out;
  }
}
