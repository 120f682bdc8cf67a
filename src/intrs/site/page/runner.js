// One certificate at a time for a panel: begin, pause, go on from where it stopped.

import { namesFor, needsFile, truthFor } from "./classes.js";
import { certify } from "./engine/index.js";

export class Runner {
  constructor(panel, told) {
    Object.assign(this, { panel, told, controller: null, state: null });
  }

  begin(model, picture, pixels, seed, largest) {
    this.stop();
    const names = namesFor(model.net, picture), truth = truthFor(model.net, picture);
    Object.assign(this, { model, picture, pixels, seed, names, truth, fromFile: needsFile(model, picture), state: null, spent: 0 });
    this.panel.begin(this, largest);
    return this.goOn();
  }

  get running() { return this.controller !== null; }

  get begun() { return this.model !== undefined; }

  get open() { return this.begun && !this.state?.decided; }

  stop() {
    this.controller?.abort();
    this.controller = null;
  }

  // Until it is decided or stopped.
  async goOn() {
    if (this.running || !this.open) return;
    const controller = (this.controller = new AbortController()), before = this.spent;
    const options = { seed: this.seed, index: this.picture.index, signal: controller.signal, sigma: this.model.rule.sigma, noise: this.model.rule.noise };
    if (this.state) options.from = this.state;
    let began = null, at = 0;
    try {
      for await (const state of certify(this.model.net, this.pixels, options)) {
        if (this.controller !== controller) return;
        if (began === null && state.samples) [began, at] = [performance.now(), state.samples];  // what starting costs is no sampling
        this.state = state;
        this.spent = before + (began === null ? 0 : performance.now() - began);
        this.panel.show(state, began !== null && performance.now() - began > 100 ? (1000 * (state.samples - at)) / (performance.now() - began) : 0);
        this.told(this);
        await new Promise(requestAnimationFrame);  // the eye takes no more
      }
    } catch (error) {
      if (!controller.signal.aborted) throw error;
    } finally {
      if (this.controller === controller) this.controller = null;
      this.told(this);  // also of a run that failed, before its first state or later
    }
  }
}
