// The certified radius against the number of samples, on a logarithmic axis.

import { number, svg } from "./dom.js";
import { radiusText } from "./words.js";

const WIDTH = 640, HEIGHT = 120, LEFT = 34, RIGHT = 8, TOP = 10, BOTTOM = 22, FEWEST = 50;

export class History {
  constructor() {
    this.node = svg("svg", { class: "history", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    this.reset(1, 100000);
  }

  reset(largest, most) {
    this.largest = largest;
    this.most = Math.max(most, 2 * FEWEST);
    this.points = [];
    this.draw();
  }

  add(state) {
    if (state.radiusSq === null) return;
    const last = this.points.at(-1), point = [state.samples, state.radiusSq];
    if (last && this.points.at(-2)?.[1] === last[1] && last[1] === state.radiusSq) this.points.pop();
    this.points.push(point);
    this.draw();
  }

  x(samples) {
    return LEFT + ((WIDTH - LEFT - RIGHT) * Math.log(Math.max(samples, FEWEST) / FEWEST)) / Math.log(this.most / FEWEST);
  }

  y(radius) {
    return HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * Math.min(radius, this.largest)) / this.largest;
  }

  draw() {
    const ticks = [100, 1000, 10000, 100000, 1000000].filter((n) => n <= this.most);
    const bottom = HEIGHT - BOTTOM, levels = [0, this.largest / 2, this.largest];
    const lines = [
      ...levels.map((r) => svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: this.y(r), y2: this.y(r) })),
      ...levels.map((r) => svg("text", { x: LEFT - 6, y: this.y(r) + 4, "text-anchor": "end" }, String(Number(r.toFixed(2))))),
      ...ticks.map((n) => svg("text", { x: Math.min(this.x(n), WIDTH - 24), y: HEIGHT - 6, "text-anchor": "middle" }, number(n))),
    ];
    const path = this.points.map(([n, sq], i) => {
      const x = this.x(n).toFixed(1), y = this.y(Math.sqrt(sq) / 255).toFixed(1);
      return i ? `H${x}V${y}` : `M${x},${bottom}V${y}`;
    }).join("");
    const last = this.points.at(-1);
    const shapes = last ? [svg("path", { class: "area", d: `${path}V${bottom}Z` }), svg("path", { class: "line", d: path }),
      svg("circle", { class: "dot", cx: this.x(last[0]), cy: this.y(Math.sqrt(last[1]) / 255), r: 4 })] : [];
    this.node.replaceChildren(...lines, ...shapes);
    this.node.setAttribute("aria-label", last ? `Certified radius ${radiusText(last[1])} after ${number(last[0])} samples.` : "No radius is certified yet.");
  }
}
