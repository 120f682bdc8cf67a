// Every sentence about a certificate, from its integers.

import { number } from "./dom.js";
import { fraction } from "./engine/bundle.js";

const RANGE = 255;

// The integer square root of a number below 2^53.
export function root(value) {
  let found = Math.floor(Math.sqrt(value));
  while (found * found > value) found--;
  while ((found + 1) * (found + 1) <= value) found++;
  return found;
}

// A squared radius as a fraction of the pixel range, rounded down to three places.
export const radiusText = (radiusSq) => (Math.floor(root(radiusSq * 10 ** 6) / RANGE) / 1000).toFixed(3);

export const percent = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;

// The largest of some risks, as a share in percent: exact, or rounded up to three digits.
export function risk(...alphas) {
  const [above, below] = alphas.map((alpha) => fraction(alpha, "alpha")).reduce((a, b) => (b[0] * a[1] > a[0] * b[1] ? b : a));
  for (let places = 0, part = 100n * above; ; places++, part *= 10n) {
    const up = (part + below - 1n) / below, digits = String(up).padStart(places + 1, "0"), point = digits.length - places;
    if (up * below === part || up >= 100n) return `${digits.slice(0, point)}${places ? "." : ""}${digits.slice(point)} %`;
  }
}

// How much room there is within the radius, in pixel levels.
export function room(radiusSq, dimension) {
  const each = root(Math.floor(radiusSq / dimension)), one = Math.min(RANGE, root(radiusSq));
  const all = each > 0
    ? `all ${number(dimension)} values of the picture by ${each} of 255 levels at once`
    : `any ${number(Math.min(radiusSq, dimension))} of the picture’s ${number(dimension)} values by one level of 255 at once`;
  return one === RANGE ? `That is room to change ${all}, or any single value to whatever one likes.`
    : `That is room to change ${all}, or any single value by ${one}.`;
}

export function headline(state, names) {
  if (!state || state.label === null) return "Looking …";
  const name = names[state.label];
  if (state.radiusSq !== null) return `The answer is ${name}.`;
  return state.decided ? "No answer: the votes are too close." : `Perhaps ${name} …`;
}

const choosing = (n0) => (n0 === 1 ? "The first noisy copy chooses" : `The first ${number(n0)} noisy copies choose`);

export function meaning(state, names, dimension, { n0, alpha }) {
  if (!state || state.label === null) return `${choosing(n0)} a class. Fresh ones then test it.`;
  const name = names[state.label];
  if (state.radiusSq !== null) {
    return state.radiusSq === 0 ? `The smoothed network’s answer is certain, though not yet within any distance.`
      : `No change within this radius can alter the answer. ${room(state.radiusSq, dimension)}`;
  }
  if (!state.decided) return `The votes do not settle yet whether “${name}” has the majority.`;
  const rest = Math.max(...state.counts.filter((_, c) => c !== state.label)), rival = names[state.counts.findIndex((v, c) => v === rest && c !== state.label)];
  return `“${name}” has ${number(state.counts[state.label])} of ${number(state.samples)} votes, “${rival}” has ${number(rest)}. ` +
    `To name a class on such votes would be wrong more often than ${risk(alpha)} of the time, so the smoothed network abstains.`;
}

// A certificate is about the answer's stability: say so where the answer is wrong.
export const verdict = (state, truth, called) =>
  state !== null && state.radiusSq !== null && truth !== null && state.label !== truth
    ? ` The data set says ${called}: a certificate does not make an answer right.` : "";

// For those who listen: only what changes the story.
export function announced(state, names) {
  if (state.radiusSq === null) return state.decided ? headline(state, names) : "";
  return `${headline(state, names)} Certified radius ${radiusText(state.radiusSq)}${state.decided ? `, after ${number(state.samples)} samples.` : ", and growing."}`;
}
