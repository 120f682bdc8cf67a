// The pictures to choose from, as one group of radio buttons that the arrow keys walk through.

import { element } from "./dom.js";
import { paint } from "./picture.js";

export class Gallery {
  constructor(node, choose) {
    Object.assign(this, { node, choose, buttons: [], pictures: [] });
    node.addEventListener("keydown", (event) => this.#walk(event));
  }

  add(picture, first = false) {
    const canvas = element("canvas", { class: "pixels", "aria-hidden": "true" });
    paint(canvas, picture.pixels, picture.shape);
    const button = element("button", { type: "button", role: "radio", "aria-checked": "false", "aria-label": picture.title, title: picture.title, tabindex: "-1" }, canvas);
    button.addEventListener("click", () => this.choose(picture));
    this.node[first ? "prepend" : "append"](button);
    this.buttons[first ? "unshift" : "push"](button);
    this.pictures[first ? "unshift" : "push"](picture);
  }

  replaceOwn(picture) {
    if (this.pictures[0]?.own) {
      this.buttons.shift().remove();
      this.pictures.shift();
    }
    this.add(picture, true);
  }

  mark(picture) {
    this.pictures.forEach((each, i) => {
      this.buttons[i].setAttribute("aria-checked", String(each === picture));
      this.buttons[i].tabIndex = each === picture ? 0 : -1;
    });
  }

  #walk(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], at = this.buttons.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = (at + step + this.buttons.length) % this.buttons.length;
    this.choose(this.pictures[next]);
    this.buttons[next].focus();
  }
}
