// The command that gives the same certificate on another machine, and what it must say.

import { element, number } from "./dom.js";
import { argument, quoted } from "./models.js";
import { radiusText } from "./words.js";

export const hex = (seed) => `0x${BigInt(seed).toString(16)}`;

const option = (name, value) => `${name} ${quoted(String(value))}`;

// The file of a picture as a network takes it: networks of different sizes need one each.
export const pictureFile = (shape, shapes) => (new Set(shapes.map(String)).size > 1 ? `picture-${shape.join("x")}.npz` : "picture.npz");

// The picture comes from a file that the page saves, or else from its data. Settings that are the command's own defaults
// are left out. All that a file says is quoted: the command is pasted into a shell.
export function command(model, picture, seed, defaults, file = null) {
  const { rule } = model, data = file ?? `${argument(picture.data)} ${option("--first", picture.position)} --max 1`;
  const names = { n: "--n", n0: "--n0", alpha: "--alpha", noise: "--noise", bound: "--bound", ...(rule.adaptive ? { giveUp: "--give-up" } : {}) };
  const others = Object.keys(names).filter((name) => String(rule[name]) !== String(defaults[name])).map((name) => option(names[name], rule[name]));
  const adaptive = rule.adaptive ? ["--adaptive", option("--radii", rule.radii.join(","))] : [];
  return ["intrs certify", argument(model.spec), data, option("--sigma", rule.sigma), ...adaptive, ...others, `--seed ${hex(seed)}`, "-o page.tsv"].join(" ");
}

const row = (name, text, key) => element("tr", {}, element("th", { scope: "row" }, name), element("td", { "data-key": key }, text));

export function proof({ model, picture, seed, names, state }, file, defaults, copy) {
  const text = command(model, picture, seed, defaults, file), button = element("button", { type: "button", class: "copy" }, "Copy the command");
  button.addEventListener("click", () => copy(text, "Command"));
  const found = state?.decided ? [
    row("class (predict)", state.radiusSq === null ? "-1, an abstention" : `${state.label}, ${names[state.label]}`, "predict"),
    row("votes (votes)", `${number(state.votes)} of ${number(state.samples)}`, "votes"),
    row("squared radius (radius_sq)", state.radiusSq === null ? "none" : `${state.radiusSq}, so radius ${radiusText(state.radiusSq)}`, "radius_sq"),
    row("votes of all classes (counts)", state.counts.join(","), "counts"),
  ] : [row("Still counting", "What page.tsv must hold will stand here.", "open")];
  return element("div", { class: "proof" }, element("pre", { class: "command" }, element("code", {}, text)),
    element("table", {}, element("tbody", {}, ...found)), button);
}
