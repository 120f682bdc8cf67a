// The networks of the page: their bytes are kept, and they are opened while they are in use.

import { IntrsError, hasSimd, load } from "./engine/index.js";
import { Noise } from "./noise.js";

export class ModelError extends Error {}

const EXPORT = "intrs export";
const OTHERS = [".onnx", ".tflite", ".tosa", ".pt", ".pth", ".h5", ".keras", ".safetensors"];
const HEADER_AT = 12;  // magic and length come before it
export const MOST_BYTES = 512 * 2 ** 20;

export const isModelName = (name) => name.toLowerCase().endsWith(".intrs");
export const isForeignModel = (name) => OTHERS.some((suffix) => name.toLowerCase().endsWith(suffix));

// What to do with a model that no browser can certify.
export const conversion = (name) =>
  `${name} is a model as other programs take it. Convert it once, on a PC with intrs, and drop the file that comes out:\n` +
  `${EXPORT} ${argument(name)} --target web -o model.intrs`;

// A text as a shell takes it. Control characters would end the line, or be keys to a terminal, whatever is around them.
export const quoted = (text) => {
  const shown = text.replace(/\p{Cc}/gu, "_");
  return /^[\w@%+=:,./-]+$/.test(shown) && !shown.startsWith("-") ? shown : `'${shown.replaceAll("'", `'\\''`)}'`;
};

// The same as an argument that is no option, whatever it begins with.
export const argument = (text) => quoted(text.startsWith("-") ? `./${text}` : text);

let compiled;

// The WebAssembly, fetched and compiled once for all networks.
async function wasm() {
  if (typeof WebAssembly !== "object") throw new ModelError("This browser has no WebAssembly, or it is switched off. This page needs it to compute: use a current browser, or allow it in the settings.");
  compiled ??= fetched(`engine/intrs-${hasSimd() ? "simd" : "plain"}.wasm`).then((bytes) => WebAssembly.compile(bytes));
  return compiled;
}

export async function answered(path) {
  const answer = await fetch(path).catch(() => null);
  if (!answer?.ok) throw new ModelError(`${path} cannot be loaded. Is the folder complete, and is it served over http? A browser does not open it as a file; this does: intrs web --serve`);
  return answer;
}

export const fetched = async (path) => new Uint8Array(await (await answered(path)).arrayBuffer());

// The noise tables lie in the file behind the network.
function noiseTable(bytes, wanted) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(HEADER_AT - 4, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(HEADER_AT, HEADER_AT + length)));
  let at = HEADER_AT + length + header.network;
  for (const noise of header.noises) {
    if (noise.sigma === wanted.sigma && noise.kind === wanted.noise) return bytes.subarray(at, at + noise.bytes);
    at += noise.bytes;
  }
  throw new ModelError("the file has no table of its noise");
}

const value = (text) => text.split("/").reduce((a, b) => Number(a) / Number(b));

// One network under one noise.
export class Model {
  constructor(bytes, { name, title, spec, own = false }) {
    Object.assign(this, { bytes, name, title, spec, own });
  }

  // Once, however many ask for it at the same time.
  open() {
    return (this.opening ??= this.#open().catch((error) => {
      this.opening = undefined;
      throw error;
    }));
  }

  async #open() {
    this.net = await load(this.bytes, { wasm: await wasm() }).catch((error) => {
      throw error instanceof IntrsError ? new ModelError(`${this.name}: ${error.message}`) : error;
    });
    this.rule = this.net.rules.find((rule) => rule.adaptive) ?? this.net.rules[0];
    if (!this.rule) throw new ModelError(`${this.name} has no tables for certificates; write it again with: ${EXPORT} MODEL --target web -o model.intrs`);
    this.noise ??= new Noise(noiseTable(this.bytes, this.rule));
    this.shape = this.net.shape;  // known from now on, also when it is closed
    return this;
  }

  // One that is just opening stays open, until the next choice closes it.
  close() {
    if (!this.net) return;
    this.net.close();
    this.net = this.opening = undefined;
  }

  get dimension() { return this.shape.reduce((a, b) => a * b); }
  get most() { return this.rule.n; }
  get sigma() { return value(this.rule.sigma); }

  // The end of the scale: a little more than the largest radius that is decided.
  get largest() { return this.rule.adaptive ? Math.max(0, ...this.rule.radii.map(value)) + 0.25 : 4 * this.sigma; }
}
