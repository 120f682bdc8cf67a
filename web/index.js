// Certificates in the browser: load a model, certify an image. See index.d.ts and docs/web.md.
import { fraction, parseBundle } from "./bundle.js";
import { Core, IntrsError, compile, hasSimd } from "./core.js";
import { Pool } from "./pool.js";
import { Run, SELECTION, added, topClass } from "./run.js";

export { IntrsError, SELECTION, hasSimd };

const SEED_BYTES = 32, LEVELS = 255, MOST_WORKERS = 64;
const inside = new WeakMap(); // what a network keeps for itself

function check(holds, words) {
  if (!holds) throw new IntrsError(words);
}

// --- settings --------------------------------------------------------------------------------------------------------

function same(a, b, what) {
  const [p, q] = fraction(a, what), [r, s] = fraction(b, what);
  return p * s === r * q;
}

/** A seed of 256 bits, as a decimal text: the one given, or one drawn from the browser. */
export function parseSeed(seed) {
  if (seed === undefined || seed === null) {
    return bytesToSeed(crypto.getRandomValues(new Uint8Array(SEED_BYTES)));
  }
  const text = String(seed);
  const written = typeof seed === "bigint" || typeof seed === "string" || Number.isSafeInteger(seed);
  check(
    written && /^(0[xX][0-9a-fA-F]{1,64}|\d{1,78})$/.test(text) && BigInt(text) < 2n ** 256n,
    `the seed must be an integer from 0 to 2**256 - 1, got ${text.slice(0, 80)}`,
  );
  return BigInt(text).toString();
}

function bytesToSeed(bytes) {
  return bytes.reduceRight((value, byte) => value * 256n + BigInt(byte), 0n).toString();
}

function seedBytes(seed) {
  let left = BigInt(seed);
  return Uint8Array.from({ length: SEED_BYTES }, () => {
    const byte = Number(left & 255n);
    left >>= 8n;
    return byte;
  });
}

function count(value, what, least, most) {
  check(
    Number.isSafeInteger(value) && value >= least && value <= most,
    `${what}: expected an integer from ${least} to ${most}, got ${String(value).slice(0, 40)}`,
  );
  return value;
}

// The number of a sample. Those past 2**53 are no safe integers, so they come as a BigInt.
function sample(value) {
  check(
    (typeof value === "bigint" || Number.isSafeInteger(value)) && value >= 0,
    `first: expected an integer of at least 0 (from 2**53 on, a BigInt), got ${String(value).slice(0, 40)}`,
  );
  return BigInt(value);
}

async function workersOf(options) {
  if (options.workers !== undefined) return count(options.workers, "workers", 0, MOST_WORKERS);
  const here = typeof navigator === "object" && navigator.hardwareConcurrency;
  const cores = here || (typeof process === "object" ? await coresOfNode() : 1); // some browsers hide how many there are
  return Math.min(Math.max(cores, 1), 8);
}

async function coresOfNode() {
  const os = await import("node:os");
  return os.availableParallelism?.() ?? os.cpus().length; // Node before 18.14 has only the latter
}

// --- images ----------------------------------------------------------------------------------------------------------

/** The bytes of an image as the network takes them, from bytes or from what a canvas gives (RGBA). */
export function pixels(net, image) {
  const [height, width, channels] = net.shape, size = height * width * channels;
  const words = `the network takes images of ${height} x ${width} pixels with ${channels} channels`;
  if (image && image.data instanceof Uint8ClampedArray && image.width !== undefined) {
    check(image.width === width && image.height === height, `${words}; this one has ${image.height} x ${image.width}`);
    check(channels === 1 || channels === 3, `${words}; pass their ${size} bytes`);
    return channels === 3
      ? image.data.filter((_, i) => i % 4 !== 3).slice()
      : Uint8Array.from({ length: size }, (_, i) => grey(image.data, 4 * i));
  }
  const bytes = image instanceof Uint8Array || image instanceof Uint8ClampedArray;
  check(bytes, `an image is a Uint8Array of pixels 0..255 or an ImageData, got ${typeof image}`);
  check(image.length === size, `${words}, so ${size} bytes; this one has ${image.length}`);
  return Uint8Array.from(image);
}

const grey = (data, i) => Math.round((299 * data[i] + 587 * data[i + 1] + 114 * data[i + 2]) / 1000); // ITU-R BT.601

// --- networks --------------------------------------------------------------------------------------------------------

/** Read a file of `intrs export --target web`, check all of it, and prepare the network. */
export async function load(bytes, options = {}) {
  check(bytes instanceof ArrayBuffer || bytes instanceof Uint8Array, `expected bytes of a model, got ${typeof bytes}`);
  const data = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength); // a Buffer slices otherwise
  check(options.simd === undefined || typeof options.simd === "boolean", "simd: expected true or false");
  const build = (options.simd ?? hasSimd()) ? "simd" : "plain";
  const module = await compile(options.wasm ?? build);
  const core = await Core.create(module);
  const bundle = parseBundle(data, (part) => core.sha256(part));
  const network = core.openNetwork(bundle.network, options.kernels ?? "");
  const together = network.identity === bundle.identity && network.classes === bundle.classes;
  check(together && network.shape.join() === bundle.shape.join(), "the description in the file is of another network");
  const dimension = network.shape.reduce((a, b) => a * b);
  const noises = bundle.noises.map((noise) => ({ ...noise, handle: core.openNoise(noise.data) }));
  const rules = bundle.rules.map((rule) => {
    const opened = core.openRule(rule.data, noises[rule.noise].handle, dimension);
    check(opened.looks.at(-1) === rule.n, "the description in the file is of another table of decisions");
    return { ...rule, ...opened };
  });
  const describe = ({ noise, n, alpha, adaptive, radii, bound, n0, giveUp }) =>
    ({ noise: noises[noise].kind, sigma: noises[noise].sigma, n, n0, alpha, adaptive, radii, bound, giveUp });
  const net = Object.freeze({
    name: bundle.name,
    identity: network.identity,
    shape: network.shape,
    classes: network.classes,
    names: bundle.names,
    kernels: network.kernels,
    noises: noises.map(({ kind, sigma }) => ({ kind, sigma })),
    rules: rules.map(describe),
    predictions: bundle.predictions.map(({ noise, n, alpha }) =>
      ({ noise: noises[noise].kind, sigma: noises[noise].sigma, n, alpha })),
    close: () => pool.close(),
  });
  const pool = new Pool({ module, network: bundle.network, kernels: options.kernels ?? "" });
  inside.set(net, { core, network: network.handle, noises, rules, predictions: bundle.predictions, pool });
  return net;
}

function opened(net) {
  const found = inside.get(net);
  check(found, "expected a network that load() returned");
  return found;
}

/** The class of an image without noise: no statement about its robustness. */
export function classify(net, image) {
  const { core, network } = opened(net);
  return core.classify(network, pixels(net, image));
}

/** The noise address of an image that has no index, the one that the Python package takes. */
export function contentIndex(net, image) {
  const { core, network } = opened(net);
  return core.contentIndex(network, pixels(net, image));
}

// The noise that was asked for: the only one of this sigma, or of this kind and sigma.
function noiseOf(net, noises, { sigma, noise }) {
  const found = noises.findIndex((have) =>
    (sigma === undefined || same(have.sigma, sigma, "sigma")) && (noise === undefined || have.kind === noise));
  const have = noises.map(({ kind, sigma: s }) => `${kind} ${s}`).join(", ");
  check(found >= 0, `the model ${net.name} has no tables for sigma ${sigma}${noise ? ` of ${noise} noise` : ""}; it has ${have}`);
  return found;
}

function sameRadii(a, b) {
  return a.length === b.length && b.every((radius) => a.some((other) => same(other, radius, "a radius")));
}

function chosen(net, parts, noise, { alpha, n, radii, adaptive, bound }, what) {
  const fits = (part) =>
    part.noise === noise &&
    (alpha === undefined || same(part.alpha, alpha, "alpha")) &&
    (n === undefined || part.n === n) &&
    (radii === undefined || sameRadii(part.radii, radii)) &&
    (adaptive === undefined || part.adaptive === adaptive) &&
    (bound === undefined || part.bound === bound);
  const words = (part) =>
    `n = ${part.n}, alpha = ${part.alpha}${part.adaptive ? `, radii ${part.radii.join(", ")}` : ""}`;
  const have = parts.filter((part) => part.noise === noise).map(words).join("; ") || "none";
  check(radii === undefined || Array.isArray(radii), "radii: expected a list such as [0.25, 0.5]");
  const found = parts.find(fits);
  check(found, `the model ${net.name} has no ${what} with these settings for this noise; it has: ${have}`);
  return found;
}

// What decides the noise of an image, and who counts.
async function begin(net, image, options) {
  const keep = opened(net), bytes = pixels(net, image);
  const noise = noiseOf(net, keep.noises, options), seed = parseSeed(options.seed);
  const index =
    options.index === undefined
      ? keep.core.contentIndex(keep.network, bytes)
      : count(options.index, "index", 0, 2 ** 32 - 1);
  const key = seedBytes(seed), table = keep.noises[noise].data;
  const workers = await keep.pool.grow(await workersOf(options));
  const units = (first, size) =>
    keep.pool.count(noise, table, { image: bytes, seed: key, index, first, count: size }, workers === 0);
  return { ...keep, bytes, noise, seed, index, workers, units };
}

// Runs until it is done, or the signal says so.
async function finished(run, signal) {
  const stop = () => run.stop();
  signal?.throwIfAborted();
  signal?.addEventListener("abort", stop);
  try {
    await run.start();
    signal?.throwIfAborted();
  } finally {
    signal?.removeEventListener("abort", stop);
    run.stop();
  }
}

/** Votes of each class over the samples first .. first + n - 1. */
export async function votes(net, image, options = {}) {
  const n = count(options.n ?? 1000, "n", 1, 2 ** 40), first = sample(options.first ?? 0);
  const limit = first < SELECTION ? SELECTION : 2n ** 64n;
  check(first + BigInt(n) <= limit, "there are no such samples");
  const { units, workers, seed, index } = await begin(net, image, options);
  let counts = new Array(net.classes).fill(0);
  const fold = (_, more) => {
    counts = added(counts, more);
    return false;
  };
  await finished(new Run([{ first, count: n }], workers, units, fold), options.signal);
  return { counts, seed, index, samples: n };
}

/** Algorithm 2: the class of the smoothed classifier, wrong with probability at most alpha, or an abstention. */
export async function predict(net, image, options = {}) {
  const { noises, predictions } = opened(net);
  const part = chosen(net, predictions, noiseOf(net, noises, options), options, "prediction");
  const sampled = await votes(net, image, { ...options, n: part.n, first: 0 });
  const label = topClass(sampled.counts), won = sampled.counts[label];
  const second = Math.max(0, ...sampled.counts.filter((_, i) => i !== label));
  const least = new DataView(part.data.buffer).getUint32(4 * (won + second), true);
  return { ...sampled, label, votes: won, decided: won > second && won >= least };
}

// --- certificates ----------------------------------------------------------------------------------------------------

// What a state must share with the run that goes on from it.
const SAME = ["identity", "noise", "sigma", "seed", "index", "n", "n0", "alpha", "bound"];

// What a run that goes on takes from its state where the options do not say it.
const TAKEN = ["seed", "index", "noise", "sigma", "n", "alpha", "adaptive", "bound", "radii"];

function withState(options) {
  const { from } = options;
  if (from === undefined) return options;
  check(from !== null && typeof from === "object", "from: expected a state that certify() gave");
  const settings = TAKEN.map((name) => [name, options[name] === undefined ? from[name] : options[name]]);
  return { ...options, ...Object.fromEntries(settings) };
}

function continued(from, fresh) {
  const classes = fresh.counts.length;
  const isCounts = (value, sum) =>
    Array.isArray(value) && value.length === classes && value.every((v) => Number.isSafeInteger(v) && v >= 0) &&
    value.reduce((a, b) => a + b) === sum;
  const no = "cannot go on from that state:";
  check(from.image !== undefined, `${no} it does not say of which image its votes are; begin anew`);
  check(from.image === fresh.image, `${no} its votes are of another image`);
  for (const name of SAME) {
    check(from[name] === fresh[name], `${no} its ${name} is ${from[name]}, not ${fresh[name]}`);
  }
  const sound =
    isCounts(from.selection, from.selected) && isCounts(from.counts, from.samples) && from.selected <= fresh.n0 &&
    from.samples <= fresh.n && (from.samples === 0 || from.selected === fresh.n0) &&
    Array.isArray(from.radii) && sameRadii(from.radii, fresh.radii);
  check(sound, `${no} its votes contradict each other`);
  const { selection, selected, counts, samples } = from;
  return { ...fresh, selection, selected, counts, samples };
}

// The ranges that are left, each ending at a look; the selection comes first.
function rangesOf(state, looks) {
  const ranges = [];
  if (state.selected < state.n0) {
    ranges.push({ first: SELECTION + BigInt(state.selected), count: state.n0 - state.selected, look: -1 });
  }
  let done = state.samples;
  looks.forEach((until, look) => {
    if (until > done) ranges.push({ first: BigInt(done), count: until - done, look });
    done = Math.max(done, until);
  });
  return ranges;
}

class Certification {
  constructor(net, keep, rule, options) {
    const { kind, sigma } = keep.noises[rule.noise];
    const none = new Array(net.classes).fill(0);
    this.keep = keep, this.rule = rule;
    this.state = {
      identity: net.identity, image: keep.core.sha256(keep.bytes), noise: kind, sigma, seed: keep.seed,
      index: keep.index, n: rule.n, n0: rule.n0, alpha: rule.alpha, bound: rule.bound, radii: rule.radii,
      adaptive: rule.adaptive, workers: keep.workers,
      selection: none, selected: 0, counts: none, samples: 0, label: null, votes: 0,
      radiusSq: null, radius: null, decided: false, abstained: false,
    };
    if (options.from !== undefined) this.#resume(options.from);
    this.ranges = rangesOf(this.state, rule.looks);
  }

  // Looks are taken again, so that a state that was changed cannot stop at another one.
  #resume(from) {
    this.state = continued(from, this.state);
    if (this.state.selected === this.state.n0) this.#label();
    const look = this.rule.looks.lastIndexOf(this.state.samples);
    if (look >= 0) this.#look(look);
  }

  #label() {
    const label = topClass(this.state.selection);
    this.state = { ...this.state, label, votes: this.state.counts[label] };
  }

  #look(look) {
    const { stops, radiusSq } = this.keep.core.decide(this.rule.handle, look, this.state.votes);
    const radius = radiusSq === null ? null : Math.sqrt(radiusSq) / LEVELS;
    this.state = { ...this.state, radiusSq, radius, decided: stops, abstained: stops && radiusSq === null };
  }

  fold(range, votes, done) {
    const { look, count: size } = this.ranges[range], state = this.state;
    if (look < 0) {
      const selected = state.selected + votes.reduce((a, b) => a + b);
      this.state = { ...state, selection: added(state.selection, votes), selected };
      if (selected === state.n0) this.#label();
      return false;
    }
    const counts = added(state.counts, votes), samples = state.samples + votes.reduce((a, b) => a + b);
    this.state = { ...state, counts, samples, votes: counts[state.label] };
    if (done === size) this.#look(look);
    return this.state.decided;
  }
}

/** Algorithm 1, step by step: every state says what is known so far, the last one is decided. */
export async function* certify(net, image, options = {}) {
  const { noises, rules } = opened(net);
  const settings = withState(options);
  const rule = chosen(net, rules, noiseOf(net, noises, settings), settings, "table of decisions");
  settings.signal?.throwIfAborted();
  const keep = await begin(net, image, settings), job = new Certification(net, keep, rule, settings);
  if (job.state.decided) return yield job.state;
  let wake = () => {};
  const run = new Run(job.ranges, keep.workers, keep.units, (...unit) => {
    const stops = job.fold(...unit);
    wake();
    return stops;
  });
  let over = false, failure;
  const all = finished(run, settings.signal).then(() => (over = true), (error) => (over = true, failure = error));
  try {
    for (let shown; !job.state.decided || shown !== job.state; ) {
      if (failure) throw failure;
      if (shown === job.state && !over) await Promise.race([new Promise((done) => (wake = done)), all]);
      if (failure) throw failure;
      if (shown !== job.state) yield (shown = job.state);
    }
  } finally {
    run.stop();
  }
}
