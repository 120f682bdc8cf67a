// One picture as an .npz that `intrs certify` takes: a zip archive, stored, of two NumPy arrays. Nobody knows its label.

const text = (string) => new TextEncoder().encode(string);

function joined(parts) {
  const out = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function npy(kind, shape, bytes) {
  const head = `{'descr': '${kind}', 'fortran_order': False, 'shape': (${shape.join(", ")},), }`;
  const padded = head.padEnd(64 * Math.ceil((head.length + 11) / 64) - 11) + "\n";  // the array begins at a multiple of 64
  return joined([new Uint8Array([0x93]), text("NUMPY"), new Uint8Array([1, 0, padded.length & 255, padded.length >> 8]), text(padded), bytes]);
}

function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

const fields = (...pairs) => {
  const view = new DataView(new ArrayBuffer(pairs.reduce((total, [size]) => total + size, 0)));
  let at = 0;
  for (const [size, value] of pairs) {
    if (size === 2) view.setUint16(at, value, true); else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
};

const DATE = [[2, 0], [2, 0x21]];  // midnight, 1 January 1980

function zip(files) {
  const parts = [], directory = [];
  let offset = 0;
  for (const [name, data] of files) {
    const about = [[2, 20], [2, 0], [2, 0], ...DATE, [4, crc32(data)], [4, data.length], [4, data.length], [2, name.length], [2, 0]];
    const local = joined([fields([4, 0x04034b50], ...about), text(name), data]);
    directory.push(joined([fields([4, 0x02014b50], [2, 20], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]), text(name)]));
    parts.push(local);
    offset += local.length;
  }
  const size = directory.reduce((total, part) => total + part.length, 0);
  const end = fields([4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, offset], [2, 0]);
  return joined([...parts, ...directory, end]);
}

const int64 = (value) => new Uint8Array(new BigInt64Array([BigInt(value)]).buffer);

export const npz = (pixels, shape, index) => zip([
  ["images.npy", npy("|u1", [1, ...shape], pixels)],
  ["indices.npy", npy("<i8", [1], int64(index))],
]);
