// The command that gives the same certificate on another machine, and what it must say.

import { element, number } from "./dom.js";
import { quoted } from "./models.js";
import { radiusText } from "./words.js";

const hex = (seed) => `0x${BigInt(seed).toString(16)}`;

export function command(model, picture, seed) {
  const { rule } = model, data = picture.own ? "picture.npz" : `${picture.data} --first ${picture.position} --max 1`;
  const rules = rule.adaptive ? `--adaptive --radii ${rule.radii.join(",")}` : "";
  const settings = [`--sigma ${rule.sigma}`, rules, `--n ${rule.n} --n0 ${rule.n0} --alpha ${rule.alpha}`,
    rule.noise === "discrete" ? "" : `--noise ${rule.noise}`, rule.bound === "sound" ? "" : `--bound ${rule.bound}`,
    rule.adaptive && rule.giveUp && rule.giveUp !== "7/10" ? `--give-up ${rule.giveUp}` : ""];
  return ["intrs certify", quoted(model.spec), data, ...settings.filter(Boolean), `--seed ${hex(seed)}`, "-o page.tsv"].join(" ");
}

const row = (name, text, key) => element("tr", {}, element("th", { scope: "row" }, name), element("td", { "data-key": key }, text));

export function proof(model, picture, seed, state, copy) {
  const text = command(model, picture, seed), button = element("button", { type: "button", class: "copy" }, "Copy the command");
  button.addEventListener("click", () => copy(text, "Command"));
  const found = state?.decided ? [
    row("class (predict)", state.radiusSq === null ? "-1, an abstention" : `${state.label}, ${model.names[state.label]}`, "predict"),
    row("votes (votes)", `${number(state.votes)} of ${number(state.samples)}`, "votes"),
    row("squared radius (radius_sq)", state.radiusSq === null ? "none" : `${state.radiusSq}, so radius ${radiusText(state.radiusSq)}`, "radius_sq"),
    row("votes of all classes (counts)", state.counts.join(","), "counts"),
  ] : [row("Still counting", "What page.tsv must hold will stand here.", "open")];
  return element("div", { class: "proof" }, element("pre", { class: "command" }, element("code", {}, text)),
    element("table", {}, element("tbody", {}, ...found)), button);
}
