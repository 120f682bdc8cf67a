// The file that `intrs export --target web` writes; docs/web.md describes it.
import { IntrsError } from "./core.js";

const MAGIC = "intrswb1", DIGEST_BYTES = 32, MOST_HEADER = 2 ** 22;
const DAMAGED = "not a model for the web, or damaged; write it again with: intrs export MODEL --target web -o model.intrs";

function check(holds, words = DAMAGED) {
  if (!holds) throw new IntrsError(words);
}

// A number as it is written in a file or in settings: 0.25, 1e-3, 1/4.
const NUMBER = /^(\d{1,100})(?:\.(\d{1,100}))?(?:[eE]-(\d{1,2}))?(?:\/([1-9]\d{0,99}))?$/;

/** A number as it was written ("0.25", "1/4", 0.25), as an exact fraction: numerator and denominator. */
export function fraction(value, what) {
  const found = NUMBER.exec(String(value).trim());
  check(found, `${what}: expected a number such as 0.25, got ${String(value).slice(0, 40)}`);
  const [, whole, part = "", exponent = "0", below = "1"] = found;
  return [BigInt(whole + part), BigInt(below) * 10n ** BigInt(part.length + Number(exponent))];
}

const KINDS = ["discrete", "rounded"], BOUNDS = ["sound", "paper"];

const isObject = (value) => value !== null && typeof value === "object";
const isText = (value) => typeof value === "string" && value.length <= 200;
const isCount = (value) => Number.isSafeInteger(value) && value > 0;
const isTexts = (value) => Array.isArray(value) && value.every(isText);
const isNumber = (value) => isText(value) && NUMBER.test(value);
const areObjects = (value) => Array.isArray(value) && value.every(isObject);

function checkHeader(header) {
  check(isObject(header));
  const { name, identity, shape, classes, names, network, noises, rules, predictions } = header;
  check(isText(name) && isText(identity) && isCount(classes) && isCount(network));
  check(Array.isArray(shape) && shape.length === 3 && shape.every(isCount));
  check(names === null || (isTexts(names) && names.length === classes));
  check(areObjects(noises) && noises.length > 0 && areObjects(rules) && areObjects(predictions));
  for (const noise of noises) check(KINDS.includes(noise.kind) && isNumber(noise.sigma) && isCount(noise.bytes));
  for (const part of [...rules, ...predictions]) {
    check(Number.isSafeInteger(part.noise) && noises[part.noise] !== undefined);
    check(isNumber(part.alpha) && isCount(part.n) && isCount(part.bytes));
  }
  for (const rule of rules) {
    check(isCount(rule.n0) && BOUNDS.includes(rule.bound) && typeof rule.adaptive === "boolean");
    check(Array.isArray(rule.radii) && rule.radii.every(isNumber));
    check(rule.adaptive ? isNumber(rule.giveUp) : rule.giveUp === null);
  }
}

/** The parts of a bundle, as they lie in its bytes. sha256 takes bytes and gives hexadecimal digits. */
export function parseBundle(data, sha256) {
  const size = data.length - DIGEST_BYTES;
  check(size >= 12 && new TextDecoder("latin1").decode(data.subarray(0, 8)) === MAGIC);
  const digest = Array.from(data.subarray(size), (byte) => byte.toString(16).padStart(2, "0")).join("");
  check(sha256(data.subarray(0, size)) === digest);
  const length = new DataView(data.buffer, data.byteOffset).getUint32(8, true);
  check(length <= MOST_HEADER && 12 + length <= size);
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data.subarray(12, 12 + length)));
  } catch {
    check(false);
  }
  checkHeader(header);
  let at = 12 + length;
  const next = (bytes) => {
    check(bytes <= size - at);
    at += bytes;
    return data.slice(at - bytes, at);
  };
  const network = next(header.network);
  const withData = (part) => ({ ...part, data: next(part.bytes) });
  const noises = header.noises.map(withData), rules = header.rules.map(withData);
  const predictions = header.predictions.map(withData);
  check(at === size);
  for (const part of predictions) check(part.bytes === 4 * (part.n + 1));
  return { ...header, network, noises, rules, predictions };
}
