// The ball: the picture in the middle, and around it every change that cannot alter the answer.

import { svg } from "./dom.js";
import { radiusText } from "./words.js";

const SIZE = 340, MIDDLE = SIZE / 2, INNER = 54, OUTER = 158;

// Rings at round radii, at most five of them.
function ringsUpTo(largest) {
  const step = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25].find((size) => largest / size <= 5) ?? largest / 4;
  return Array.from({ length: Math.floor(largest / step + 1e-9) }, (_, k) => step * (k + 1));
}

export class Ball {
  constructor(canvas) {
    this.rings = svg("g", { class: "rings" });
    this.disc = svg("circle", { class: "disc", cx: MIDDLE, cy: MIDDLE, r: 0 });
    this.labels = svg("g");
    const holder = svg("foreignObject", { x: MIDDLE - 38, y: MIDDLE - 38, width: 76, height: 76 });
    holder.append(canvas);
    this.node = svg("svg", { class: "ball", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img" },
      this.rings, this.disc, svg("circle", { class: "core", cx: MIDDLE, cy: MIDDLE, r: INNER }), holder, this.labels);
    this.scale(1);
  }

  at(radius) {
    return INNER + ((OUTER - INNER) * Math.min(radius, this.largest)) / this.largest;
  }

  // The outermost ring is the largest radius that can be certified under this noise.
  scale(largest) {
    if (largest === this.largest) return;
    this.largest = largest;
    const rings = ringsUpTo(largest), text = (radius) => String(Number(radius.toFixed(2)));
    this.rings.replaceChildren(...rings.map((radius) => svg("circle", { cx: MIDDLE, cy: MIDDLE, r: this.at(radius) })));
    this.labels.replaceChildren(...rings.map((radius) => svg("text", { x: MIDDLE, y: MIDDLE - this.at(radius) + 4, "text-anchor": "middle" }, text(radius))));
  }

  show(state, name) {
    const certified = state !== null && state.radiusSq !== null;
    this.disc.setAttribute("r", certified ? this.at(Math.sqrt(state.radiusSq) / 255) : 0);
    this.node.classList.toggle("none", !certified);
    this.node.setAttribute("aria-label", certified
      ? `A ball of radius ${radiusText(state.radiusSq)} about the picture: every change in it leaves the answer ${name}.`
      : "The picture; no radius is certified yet.");
  }
}
