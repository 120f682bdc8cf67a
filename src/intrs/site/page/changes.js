// A few changes that lie within the radius, at their real size, to be looked at.

import { element, setText } from "./dom.js";
import { paint } from "./picture.js";
import { root } from "./words.js";

// Which values each of them moves, by the place of a pixel.
const middle = (place, size, wide) => Math.abs(2 * place + 1 - size) < wide;
const KINDS = [
  { what: "everything", touches: () => true },
  { what: "a square of 8 × 8", touches: (y, x, height, width) => middle(y, height, 8) && middle(x, width, 8) },
  { what: "one line", touches: (y, x, height) => y === Math.floor(height / 2) },
  { what: "one pixel", touches: (y, x, height, width) => y === Math.floor(height / 2) && x === Math.floor(width / 2) },
];

// Each value moves by the same number of levels, away from the nearer end of the range, so that the sum of squares is
// at most radiusSq.
export function changed(pixels, [height, width, channels], radiusSq, touches) {
  const places = [...pixels.keys()].filter((i) => {
    const pixel = Math.floor(i / channels);
    return touches(Math.floor(pixel / width), pixel % width, height, width);
  });
  const by = Math.min(255, root(Math.floor(radiusSq / places.length))), values = Uint8Array.from(pixels);
  for (const i of places) values[i] = pixels[i] < 128 ? Math.min(255, pixels[i] + by) : Math.max(0, pixels[i] - by);
  return { values, by };
}

export class Changes {
  constructor() {
    this.items = KINDS.map(({ what, touches }) => {
      const canvas = element("canvas", { class: "pixels", "aria-hidden": "true" }), words = element("span");
      return { what, touches, canvas, words, node: element("li", {}, canvas, words) };
    });
    this.title = element("p");
    this.node = element("div", { class: "changes" }, this.title, element("ul", {}, ...this.items.map(({ node }) => node)));
    this.shown = null;
  }

  show(state, pixels, shape, name) {
    const radiusSq = state?.radiusSq ?? 0;
    this.node.classList.toggle("none", radiusSq === 0);
    if (radiusSq === this.shown?.radiusSq && pixels === this.shown.pixels) return;
    this.shown = { radiusSq, pixels };
    setText(this.title, radiusSq ? `Some pictures inside the ball. For each of them the answer is ${name} too, as for everything else in there:` : "Pictures inside the ball:");
    for (const { what, touches, canvas, words } of this.items) {
      const { values, by } = changed(pixels, shape, radiusSq, touches);
      paint(canvas, values, shape);
      setText(words, by ? `${what} by ${by}` : `${what}: no room`);
    }
  }
}
