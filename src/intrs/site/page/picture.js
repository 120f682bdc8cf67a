// Pictures: pixels as the network takes them, drawn for the eye, and fitted from files.

const LARGEST = 2048;  // pixels on a side that a file is decoded to
const MOST_BYTES = 64 * 2 ** 20;

export class PictureError extends Error {}

function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

// Draw values (height, width, channels), clipped for the screen, on a canvas of that size.
export function paint(canvas, values, [height, width, channels]) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d"), picture = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) picture.data[4 * i + c] = values[channels * i + (channels === 1 ? 0 : c)];
    picture.data[4 * i + 3] = 255;
  }
  context.putImageData(picture, 0, 0);
}

async function decoded(file) {
  if (file.size > MOST_BYTES) throw new PictureError(`${file.name} is larger than 64 MB; choose a smaller picture`);
  try {
    return await createImageBitmap(file);
  } catch {
    throw new PictureError(`${file.name} is not a picture that this browser can read; use a PNG, JPEG or WebP file`);
  }
}

// The middle square (or rectangle of the network's proportions) of a picture, averaged down to the network's size.
export async function fitted(file, [height, width, channels]) {
  const bitmap = await decoded(file), from = { width: bitmap.width, height: bitmap.height };
  const scale = Math.min(1, LARGEST / Math.max(from.width, from.height));
  const canvas = canvasOf(Math.max(1, Math.round(scale * from.width)), Math.max(1, Math.round(scale * from.height)));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";  // under transparent parts
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const unit = Math.min(canvas.width / width, canvas.height / height);
  const left = (canvas.width - unit * width) / 2, top = (canvas.height - unit * height) / 2;
  const pixels = new Uint8Array(height * width * channels);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const mean = average(data, canvas.width, left + unit * x, top + unit * y, unit);
      const grey = Math.round(0.299 * mean[0] + 0.587 * mean[1] + 0.114 * mean[2]);
      for (let c = 0; c < channels; c++) pixels[channels * (width * y + x) + c] = channels === 1 ? grey : Math.round(mean[c] ?? 0);
    }
  }
  return { pixels, from, untouched: from.width === width && from.height === height };
}

// What was done to a file to make it fit.
export function fitNote({ name }, { from, untouched }, [height, width]) {
  return untouched ? `${name} has ${width} × ${height} pixels, and is taken as it is.`
    : `${name} has ${from.width} × ${from.height} pixels. Its middle was averaged down to ${width} × ${height}, what the network takes: the certificate is about the small picture, not about your file.`;
}

// The mean colour of a square, in which pixels count by the area of them that lies in it.
function average(data, stride, left, top, size) {
  const sum = [0, 0, 0];
  for (let y = Math.floor(top); y < top + size - 1e-9; y++) {
    const tall = Math.min(y + 1, top + size) - Math.max(y, top);
    for (let x = Math.floor(left); x < left + size - 1e-9; x++) {
      const area = tall * (Math.min(x + 1, left + size) - Math.max(x, left));
      for (let c = 0; c < 3; c++) sum[c] += area * data[4 * (stride * y + x) + c];
    }
  }
  return sum.map((value) => value / (size * size));
}
