/** Certificates in the browser, with the votes and radii of the Python package intrs, bit for bit. */

/** Raised for every mistake that the caller can fix, with what was wrong and what to do. */
export class IntrsError extends Error {}

/** An exact number as it is written: 0.25, "0.25" or "1/4". */
export type Exact = number | string;

/** A network with its tables, as `load` gives it. */
export interface Network {
  readonly name: string;
  /** SHA-256 of its canonical bytes: what `intrs info` shows. */
  readonly identity: string;
  /** Height, width, channels. */
  readonly shape: readonly [number, number, number];
  readonly classes: number;
  /** What the classes are called, if the file says so. */
  readonly names: readonly string[] | null;
  /** The kernel set that runs it: "wasm" with SIMD, else "scalar". */
  readonly kernels: string;
  readonly noises: readonly { readonly kind: string; readonly sigma: string }[];
  /** The tables of decisions in the file: what `certify` can be asked for. */
  readonly rules: readonly Rule[];
  /** What `predict` can be asked for. */
  readonly predictions: readonly { readonly noise: string; readonly sigma: string; readonly n: number; readonly alpha: string }[];
  /** Ends its workers; calls that have not been answered yet are rejected. */
  close(): void;
}

export interface Rule {
  readonly noise: string;
  readonly sigma: string;
  /** Samples of the estimation; the most of them if it is adaptive. */
  readonly n: number;
  /** Samples that select the class. */
  readonly n0: number;
  readonly alpha: string;
  readonly bound: string;
  readonly adaptive: boolean;
  /** The radii that an adaptive rule decides, in units of the pixel range; of a fixed one, none. */
  readonly radii: readonly string[];
  readonly giveUp: string | null;
}

export interface LoadOptions {
  /** Which build: with SIMD or without. Without this option: whether this machine has SIMD. */
  simd?: boolean;
  /** The WebAssembly, for those who bring it along: bytes, or a compiled module. It is fetched beside index.js otherwise. */
  wasm?: BufferSource | WebAssembly.Module;
  /** A kernel set by name, for tests. */
  kernels?: string;
}

/** Bytes (height, width, channels), or what a canvas gives. */
export type Image = Uint8Array | Uint8ClampedArray | ImageData;

export interface Sampling {
  /** Among those of the file; the first of them without this option. */
  sigma?: Exact;
  /** The law of the noise: "discrete" or "rounded". */
  noise?: string;
  /** 256 bits, decimal or 0x...; drawn from the browser without this option. */
  seed?: string | number | bigint;
  /** The image's place in its data set, which addresses its noise; from its pixels without this option. */
  index?: number;
  /** How many workers count; 0 is this thread. Without this option: as many as the machine has cores, at most 8. */
  workers?: number;
  /** Stops the run: the promise or the loop throws the signal's reason. */
  signal?: AbortSignal;
}

export interface CertifyOptions extends Sampling {
  /** Which of the file's rules; every one that is given must agree, and the first rule that agrees is taken. */
  n?: number;
  alpha?: Exact;
  radii?: readonly Exact[];
  adaptive?: boolean;
  bound?: string;
  /** A state of an earlier run of the same image, to go on from there; it may come from JSON. What is not given beside
   * it (sigma, noise, n, alpha, radii, adaptive, bound, seed, index) is the state's. */
  from?: State;
}

/** What is known so far: the votes over samples 0 .. samples - 1. It is plain data, for JSON. */
export interface State {
  readonly identity: string;
  /** SHA-256 of the image's bytes, as the network takes them: votes of one image say nothing of another. */
  readonly image: string;
  readonly noise: string;
  readonly sigma: string;
  readonly seed: string;
  readonly index: number;
  readonly n: number;
  readonly n0: number;
  readonly alpha: string;
  readonly bound: string;
  readonly radii: readonly string[];
  readonly adaptive: boolean;
  /** How many workers count; 0 if only this thread does. */
  readonly workers: number;
  /** Votes that select the class, and how many of n0 there are. */
  readonly selection: readonly number[];
  readonly selected: number;
  /** Votes of each class in the estimation, and how many samples these are. */
  readonly counts: readonly number[];
  readonly samples: number;
  /** The selected class; null while it is being selected. */
  readonly label: number | null;
  /** Its votes. */
  readonly votes: number;
  /** Certified at the last look, in squared pixel levels: no integer perturbation with |delta|^2 <= radiusSq changes
   * the class. Null if nothing is. It holds with probability 1 - alpha at whichever look one stops. */
  readonly radiusSq: number | null;
  /** The same in units of the pixel range, for people: sqrt(radiusSq) / 255. */
  readonly radius: number | null;
  /** The rule wants no more samples: this is the answer. */
  readonly decided: boolean;
  /** Decided, and nothing is certified. */
  readonly abstained: boolean;
}

/** Read a file of `intrs export MODEL --target web`, check all of it, and prepare the network. */
export function load(bytes: Uint8Array | ArrayBuffer, options?: LoadOptions): Promise<Network>;

/** Algorithm 1, step by step: every state says what is known so far, the last one is decided. */
export function certify(net: Network, image: Image, options?: CertifyOptions): AsyncGenerator<State, void, void>;

export interface Prediction {
  readonly label: number;
  readonly votes: number;
  readonly counts: readonly number[];
  readonly samples: number;
  readonly seed: string;
  readonly index: number;
  /** False is an abstention: the two best classes are too close to call. */
  readonly decided: boolean;
}

/** Algorithm 2: the class of the smoothed classifier, wrong with probability at most alpha, or an abstention. */
export function predict(net: Network, image: Image, options?: Sampling & { n?: number; alpha?: Exact }): Promise<Prediction>;

/** Votes of each class over the samples first .. first + n - 1. */
export function votes(
  net: Network,
  image: Image,
  options?: Sampling & { first?: number | bigint; n?: number },
): Promise<{ counts: number[]; samples: number; seed: string; index: number }>;

/** The class of an image without noise: no statement about its robustness. */
export function classify(net: Network, image: Image): number;

/** The noise address of an image that has no index, the one that the Python package takes. */
export function contentIndex(net: Network, image: Image): number;

/** The bytes of an image as the network takes them. */
export function pixels(net: Network, image: Image): Uint8Array;

/** A seed of 256 bits as a decimal text: the one given, or one drawn from the browser. */
export function parseSeed(seed?: string | number | bigint | null): string;

/** Whether this machine runs the build with SIMD. */
export function hasSimd(): boolean;

/** The first sample of those that select a class. */
export const SELECTION: bigint;
