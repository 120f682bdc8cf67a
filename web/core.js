// One instance of the core in WebAssembly: bytes in, votes out. Pointers and memory do not leave this file.

/** Raised for every mistake that the caller can fix, with what was wrong and what to do. */
export class IntrsError extends Error {
  constructor(message) {
    super(message);
    this.name = "IntrsError";
  }
}

// A module with one instruction of 128-bit SIMD: it is valid where the fast build can run.
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);
const SEED_BYTES = 32, SETTINGS_BYTES = 56, DIGEST_BYTES = 32, MOST_CLASSES = 2 ** 20;
const BAD_FILE = 8; // errno of WASI: there are no files here

/**
 * What a worker must share with the page that starts it: another number whenever what workers are told changes, or what
 * the WebAssembly offers. An open page of one version may be given the scripts of another.
 */
export const PROTOCOL = 1;

/** Whether this machine runs the build with SIMD. */
export function hasSimd() {
  return typeof WebAssembly === "object" && WebAssembly.validate(SIMD);
}

/** Compile a build of the core: "simd" or "plain", bytes, or a module that is compiled already. */
export async function compile(build) {
  if (typeof WebAssembly !== "object") {
    throw new IntrsError("this browser has no WebAssembly, or it is switched off; use a current browser");
  }
  if (build instanceof WebAssembly.Module) return build;
  try {
    return await WebAssembly.compile(typeof build === "string" ? await wasmBytes(build) : build);
  } catch (error) {
    if (error instanceof IntrsError) throw error;
    throw new IntrsError(`the WebAssembly of intrs cannot be compiled: ${error.message}`);
  }
}

async function wasmBytes(build) {
  const url = new URL(build === "simd" ? "./intrs-simd.wasm" : "./intrs-plain.wasm", import.meta.url);
  if (url.protocol === "file:" && typeof process === "object") {
    return (await import("node:fs/promises")).readFile(url);
  }
  const answer = await fetch(url).catch((error) => ({ ok: false, status: error.message }));
  if (!answer.ok) throw new IntrsError(`cannot fetch ${url.pathname}: ${answer.status}; put it beside index.js`);
  return answer.arrayBuffer();
}

/** An instance with the networks, noise tables and rules that were opened in it. After an error it is not used again. */
export class Core {
  static async create(module) {
    const core = new Core();
    const instance = await WebAssembly.instantiate(module, core.#imports());
    core.#exports = instance.exports;
    core.#exports._initialize();
    return core;
  }

  #exports;
  #broken = "";

  #imports() {
    const none = () => BAD_FILE;
    const wasi = {
      environ_sizes_get: (count, size) => {
        new DataView(this.#buffer).setUint32(count, 0, true);
        new DataView(this.#buffer).setUint32(size, 0, true);
        return 0;
      },
      environ_get: () => 0,
      fd_close: none,
      fd_seek: none,
      fd_write: none,
      proc_exit: () => {
        throw new IntrsError("there is not enough memory");
      },
    };
    const fail = (words) => {
      throw new IntrsError(this.#text(words));
    };
    return { wasi_snapshot_preview1: wasi, intrs: { fail } };
  }

  get #buffer() {
    return this.#exports.memory.buffer;
  }

  // No destructor runs when an error passes through WebAssembly, so nothing can be said of the memory afterwards.
  #call(name, ...values) {
    if (this.#broken) throw new IntrsError(this.#broken);
    try {
      return this.#exports[name](...values);
    } catch (error) {
      this.#broken = error instanceof IntrsError ? error.message : "there is not enough memory";
      throw new IntrsError(this.#broken);
    }
  }

  #text(at) {
    const bytes = new Uint8Array(this.#buffer, at);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  // Calls use(pointer of each), with these bytes or with so many of zero in memory meanwhile.
  #within(blocks, use) {
    const pointers = [];
    try {
      for (const block of blocks) {
        const size = typeof block === "number" ? block : block.length;
        const at = this.#call("allocate", Math.max(size, 1));
        if (!at) throw new IntrsError("there is not enough memory");
        pointers.push(at);
        const memory = new Uint8Array(this.#buffer, at, size);
        typeof block === "number" ? memory.fill(0) : memory.set(block);
      }
      return use(...pointers);
    } finally {
      if (!this.#broken) for (const at of pointers) this.#call("release", at);
    }
  }

  #words(at, count) {
    return Array.from(new Uint32Array(this.#buffer.slice(at, at + 4 * count)));
  }

  #numbers(at, count) {
    return Array.from(new BigUint64Array(this.#buffer.slice(at, at + 8 * count)), Number);
  }

  #digest(name, handle) {
    return this.#within([DIGEST_BYTES], (at) => {
      this.#call(name, handle, at);
      return hex(new Uint8Array(this.#buffer, at, DIGEST_BYTES));
    });
  }

  #open(name, bytes, ...more) {
    return this.#within([bytes, 4], (from, to) => {
      this.#call(name, from, bytes.length, ...more, to);
      return this.#words(to, 1)[0];
    });
  }

  /** The SHA-256 of bytes, as hexadecimal digits. */
  sha256(bytes) {
    return this.#within([bytes, DIGEST_BYTES], (from, to) => {
      this.#call("sha256", from, bytes.length, to);
      return hex(new Uint8Array(this.#buffer, to, DIGEST_BYTES));
    });
  }

  /** Parse and validate the canonical bytes of a network. */
  openNetwork(bytes, kernels = "") {
    return this.#within([new TextEncoder().encode(`${kernels}\0`)], (name) => {
      const handle = this.#open("libintrs_open", bytes, name);
      const shape = this.#within([12], (at) => {
        this.#call("libintrs_shape", handle, at);
        return this.#words(at, 3);
      });
      return {
        handle,
        shape,
        classes: this.#call("libintrs_classes", handle),
        identity: this.#digest("libintrs_identity", handle),
        kernels: this.#text(this.#call("libintrs_kernels", handle)),
      };
    });
  }

  /** Parse and validate a noise table. */
  openNoise(bytes) {
    return this.#open("libintrs_open_noise", bytes);
  }

  /** Parse and validate a table of decisions, and that it is for this noise and for images of so many values. */
  openRule(bytes, noise, dimension) {
    const handle = this.#open("libintrs_open_rule", bytes);
    this.#call("libintrs_check_together", noise, handle, dimension);
    const count = this.#within([8], (at) => this.#call("libintrs_rule_looks", handle, at, 0));
    const looks = this.#within([8 * count], (at) => {
      this.#call("libintrs_rule_looks", handle, at, count);
      return this.#numbers(at, count);
    });
    return { handle, looks };
  }

  /** What a look says of so many votes. */
  decide(rule, look, votes) {
    return this.#within([16], (at) => {
      this.#call("libintrs_decide", rule, look, BigInt(votes), at);
      const [stops, certified] = this.#words(at, 2);
      return { stops: stops !== 0, radiusSq: certified ? this.#numbers(at + 8, 1)[0] : null };
    });
  }

  /** The class of an image without noise. */
  classify(network, image) {
    return this.#within([image, 4], (from, to) => {
      this.#call("libintrs_classify", network, from, image.length, to);
      return this.#words(to, 1)[0];
    });
  }

  /** The noise address of an image that has no index. */
  contentIndex(network, image) {
    return this.#within([image, 4], (from, to) => {
      this.#call("libintrs_content_index", network, from, image.length, to);
      return this.#words(to, 1)[0];
    });
  }

  /** Votes of each class over the samples first .. first + count - 1 (first is a BigInt). */
  votes(network, noise, { image, seed, index, first, count, classes }) {
    if (!(classes > 0 && classes <= MOST_CLASSES)) throw new IntrsError("a number of classes that makes no sense");
    const settings = new Uint8Array(SETTINGS_BYTES);
    settings.set(seed.subarray(0, SEED_BYTES));
    new DataView(settings.buffer).setUint32(32, index, true);
    new DataView(settings.buffer).setUint32(36, 1, true); // threads
    return this.#within([image, settings, 8 * classes], (pixels, options, counts) => {
      const range = [BigInt.asIntN(64, first), BigInt(count)];
      this.#call("libintrs_votes", network, noise, pixels, image.length, options, ...range, counts, classes);
      return this.#numbers(counts, classes);
    });
  }
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
