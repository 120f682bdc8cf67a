// One network and what it says of the picture: the ball, the flickering sample, the votes, the growing radius.

import { Ball } from "./ball.js";
import { Changes } from "./changes.js";
import { element, number, setText } from "./dom.js";
import { History } from "./history.js";
import { paint } from "./picture.js";
import { headline, meaning, percent, radiusText, verdict } from "./words.js";

const FLICKER_MS = 90;
const MOST_BARS = 10;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Panel {
  constructor() {
    this.canvas = element("canvas", { class: "pixels", "aria-hidden": "true" });
    this.noisy = element("canvas", { class: "pixels noisy", role: "img", "aria-label": "What the network sees: the picture with noise." });
    this.ball = new Ball(this.canvas);
    this.history = new History();
    this.changes = new Changes();
    this.over = element("p", { class: "over" });
    this.title = element("h2", { class: "headline" });
    this.radius = element("p", { class: "radius" });
    this.meaning = element("p", { class: "meaning" });
    this.sample = element("figcaption");
    this.votes = element("ol", { class: "votes", "aria-label": "Votes" });
    this.pace = element("p", { class: "pace" });
    this.node = element("article", { class: "panel" },
      element("div", { class: "look" }, this.ball.node),
      element("div", { class: "tell" }, this.over, this.title, this.radius, this.meaning),
      element("div", { class: "count" },
        element("figure", {}, this.noisy, this.sample), element("div", { class: "tally" }, this.votes)),
      element("figure", { class: "growth" }, this.history.node, element("figcaption", {}, "certified radius by number of noisy samples"), this.pace),
      this.changes.node);
  }

  // A new run begins: everything that was said of the last one goes.
  begin({ model, picture, pixels, names, truth, seed }, largest) {
    Object.assign(this, { model, picture: pixels, names, truth, called: picture.truth, index: picture.index, seed: BigInt(seed), state: null, drawn: -1 });
    paint(this.canvas, pixels, model.shape);
    paint(this.noisy, pixels, model.shape);
    this.ball.scale(largest);
    this.history.reset(largest, model.most);
    this.bars = null;
    this.votes.replaceChildren();
    this.show(null, 0);
  }

  // What is known now, and how many samples were counted per second.
  show(state, perSecond) {
    const { names } = this, { dimension, rule } = this.model;
    this.state = state;
    setText(this.over, this.model.title);
    setText(this.title, headline(state, names));
    const certified = state !== null && state.radiusSq !== null;
    setText(this.radius, certified ? radiusText(state.radiusSq) : "–");
    this.radius.dataset.label = "certified radius";
    this.node.dataset.answer = certified ? "certified" : state?.decided ? "abstained" : "open";
    setText(this.meaning, meaning(state, names, dimension, rule) + verdict(state, this.truth, this.called));
    this.ball.show(state, certified ? names[state.label] : "");
    if (state?.samples) this.history.add(state);
    this.changes.show(state, this.picture, this.model.shape, certified ? names[state.label] : "");
    this.#tally(state);
    setText(this.pace, this.#pace(state, perSecond));
    if (state && (state.decided || still.matches)) this.flicker(true);
  }

  #pace(state, perSecond) {
    if (!state) return "Counting begins …";
    const speed = perSecond ? ` · ${number(Math.round(perSecond))} per second` : "";
    return state.decided ? `Decided after ${number(state.samples)} samples${speed}` : `${number(state.samples)} samples${speed}`;
  }

  #tally(state) {
    const { names } = this, counts = state?.counts ?? names.map(() => 0), total = Math.max(1, state?.samples ?? 0);
    const shown = names.length <= MOST_BARS ? [...counts.keys()] : leaders(counts);
    if (!this.bars || names.length > MOST_BARS) this.#makeBars(shown);
    for (const [i, c] of shown.entries()) {
      const { row, bar, value } = this.bars[i];
      bar.setAttribute("value", counts[c] / total);
      row.classList.toggle("top", state !== null && c === state.label);
      setText(value, number(counts[c]));
      row.title = percent(counts[c], total);
    }
  }

  #makeBars(shown) {
    this.bars = shown.map((c) => {
      const bar = element("progress", { max: 1, value: 0, "aria-hidden": "true" }), value = element("span", { class: "value" }, "0");
      return { row: element("li", { "data-class": c }, element("span", { class: "name" }, this.names[c]), bar, value), bar, value };
    });
    this.votes.replaceChildren(...this.bars.map(({ row }) => row));
  }

  // Show the latest sample that was counted, with its own noise.
  flicker(now = false) {
    if (!this.state?.samples || (still.matches && !now) || this.state.samples - 1 === this.drawn) return;
    this.drawn = this.state.samples - 1;
    paint(this.noisy, this.model.noise.draw(this.picture, this.seed, this.index, this.drawn), this.model.shape);
    setText(this.sample, `noisy copy ${number(this.drawn + 1)}`);
  }

  static startFlickering(panels) {
    setInterval(() => panels().forEach((panel) => panel.flicker()), FLICKER_MS);
  }
}

const leaders = (counts) => [...counts.keys()].sort((a, b) => counts[b] - counts[a] || a - b).slice(0, MOST_BARS);
