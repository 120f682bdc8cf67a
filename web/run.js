// One run over the samples of an image: units are handed out in order and folded in order, so that what is known is
// always the votes over samples 0 .. samples - 1, as if one thread had counted them.

export const SELECTION = 2n ** 63n; // the first sample of those that select a class
const UNIT_MS = 40, LEAST = 16, MOST = 4096;
const LANES = 4; // samples that a core with SIMD counts together, so that fewer of them would take as long

export function added(a, b) {
  return a.map((value, i) => value + b[i]);
}

/** The class with most votes, the lowest at a tie. */
export function topClass(counts) {
  return counts.indexOf(Math.max(...counts));
}

/**
 * Counts ranges of samples one after the other: each is { first (BigInt), count }. `count` gives a promise of the votes
 * of a unit; `folded(range index, votes, samples of the range that are done)` is called in order and returns true to
 * stop. Without workers, units may be smaller: whoever counts has a page to answer to.
 */
export class Run {
  #ranges;
  #count;
  #folded;
  #atOnce;
  #least;
  #range = 0;
  #handed = 0; // samples of the range that were handed out
  #inFlight = 0;
  #waiting = []; // units in order, with their votes once they are known
  #size;
  #stopped = false;
  #settle;

  constructor(ranges, workers, count, folded) {
    this.#ranges = ranges, this.#atOnce = Math.max(workers, 1), this.#count = count, this.#folded = folded;
    this.#least = this.#size = workers > 0 ? LEAST : LANES;
  }

  /** Resolves when all is folded or the run was stopped; rejects if a unit fails. */
  start() {
    return new Promise((done, failed) => {
      this.#settle = { done, failed };
      this.#hand();
    });
  }

  stop() {
    this.#stopped = true;
    this.#settle?.done();
  }

  #hand() {
    while (!this.#stopped && this.#inFlight < this.#atOnce && this.#range < this.#ranges.length) {
      const { first, count } = this.#ranges[this.#range];
      const size = this.#next(count - this.#handed), range = this.#range;
      const unit = { range, done: this.#handed + size, votes: null };
      const begin = first + BigInt(this.#handed), began = performance.now();
      this.#handed += size;
      if (this.#handed === count) this.#range += 1, this.#handed = 0;
      this.#inFlight += 1;
      this.#waiting.push(unit);
      this.#count(begin, size).then(
        (votes) => {
          unit.votes = votes;
          this.#inFlight -= 1;
          this.#adapt(size, performance.now() - began);
          this.#hand();
          this.#fold();
        },
        (error) => {
          this.#stopped = true;
          this.#settle.failed(error);
        },
      );
    }
  }

  // The size of the next unit. The last ones of all are smaller, so that all workers end at about the same time.
  #next(left) {
    const last = this.#range + 1 === this.#ranges.length;
    const share = last ? Math.ceil(left / (2 * this.#atOnce) / LANES) * LANES : left;
    return Math.min(left, this.#size, Math.max(share, this.#least));
  }

  // Units of about UNIT_MS, so that a run can be stopped soon and messages cost nothing.
  #adapt(size, ms) {
    const wanted = (size * UNIT_MS) / Math.max(ms, 0.1);
    const next = Math.min(Math.max(wanted, this.#size / 2, this.#least), this.#size * 2, MOST);
    this.#size = Math.round(next / LANES) * LANES;
  }

  #fold() {
    while (!this.#stopped && this.#waiting.length && this.#waiting[0].votes) {
      const { range, votes, done } = this.#waiting.shift();
      if (this.#folded(range, votes, done)) return this.stop();
    }
    if (!this.#waiting.length && this.#range === this.#ranges.length) this.stop();
  }
}
