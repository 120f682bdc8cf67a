// Those who count: workers, or this thread where there are none.
import { Core, IntrsError, PROTOCOL } from "./core.js";

async function startWorker() {
  const url = new URL("./worker.js", import.meta.url);
  if (typeof Worker === "function") {
    const worker = new Worker(url, { type: "module" });
    const listen = (take, fail) => {
      worker.addEventListener("message", (event) => take(event.data));
      worker.addEventListener("error", (event) => fail(new IntrsError(event.message || "a worker cannot be started")));
    };
    return { post: (message) => worker.postMessage(message), listen, hold() {}, end: () => worker.terminate() };
  }
  const { Worker: Thread } = await import("node:worker_threads");
  const worker = new Thread(url);
  const listen = (take, fail) => worker.on("message", take).on("error", fail);
  const hold = (busy) => (busy ? worker.ref() : worker.unref()); // an idle one does not keep the process alive
  return { post: (message) => worker.postMessage(message), listen, hold, end: () => void worker.terminate() };
}

// Answers come in the order of the questions.
class Remote {
  static async start(source) {
    const remote = new Remote(await startWorker());
    try {
      await remote.#ask({ protocol: PROTOCOL, module: source.module, network: source.network, kernels: source.kernels });
    } catch (error) {
      remote.end();
      throw error;
    }
    return remote;
  }

  #worker;
  #waiting = [];
  #known = new Set();

  constructor(worker) {
    this.#worker = worker;
    worker.listen(
      ({ counts, error }) => {
        const asked = this.#waiting.shift();
        if (!asked) return; // the answer was under way when the network was closed
        worker.hold(this.#waiting.length > 0);
        error === undefined ? asked.done(counts) : asked.failed(new IntrsError(error));
      },
      (error) => {
        for (const { failed } of this.#waiting.splice(0)) failed(error);
      },
    );
  }

  #ask(message) {
    return new Promise((done, failed) => {
      this.#waiting.push({ done, failed });
      this.#worker.hold(true);
      this.#worker.post(message);
    });
  }

  count(noise, table, task) {
    const first = !this.#known.has(noise);
    this.#known.add(noise);
    return this.#ask({ noise, table: first ? table : undefined, task });
  }

  end() {
    this.#worker.end();
    for (const { failed } of this.#waiting.splice(0)) failed(new IntrsError("the network was closed"));
  }
}

class Local {
  static async start(source) {
    const local = new Local();
    local.#core = await Core.create(source.module);
    local.#network = local.#core.openNetwork(source.network, source.kernels);
    return local;
  }

  #core;
  #network;
  #noises = [];

  async count(noise, table, task) {
    await new Promise((done) => setTimeout(done)); // what else the page has to do
    this.#noises[noise] ??= this.#core.openNoise(table);
    return this.#core.votes(this.#network.handle, this.#noises[noise], { ...task, classes: this.#network.classes });
  }

  end() {}
}

/** Counts tasks by as many workers as are asked for; several runs may share it. */
export class Pool {
  #source;
  #members = [];
  #idle = [];
  #queue = [];
  #local;
  #grown = Promise.resolve();
  #closed = false;

  constructor(source) {
    this.#source = source;
  }

  /** Make sure that there are so many workers; returns how many there are, 0 if only this thread counts. */
  grow(workers) {
    // One call after the other, so that calls at the same time share the workers that the first one starts.
    const grown = this.#grown.then(() => this.#grow(workers));
    this.#grown = grown.catch(() => {});
    return grown;
  }

  async #grow(workers) {
    this.#checkOpen();
    if (workers > 0) await this.#startWorkers(workers - this.#members.length);
    if (workers === 0 || !this.#members.length) this.#local ??= await Local.start(this.#source);
    this.#checkOpen();
    return Math.min(workers, this.#members.length);
  }

  async #startWorkers(missing) {
    const starts = Array.from({ length: Math.max(missing, 0) }, () => Remote.start(this.#source));
    for (const { status, value } of await Promise.allSettled(starts)) {
      if (status !== "fulfilled") continue;
      if (this.#closed) value.end(); // close() could not: it was no member yet
      else this.#members.push(value), this.#idle.push(value);
    }
    this.#checkOpen();
  }

  #checkOpen() {
    if (this.#closed) throw new IntrsError("the network was closed; load it again");
  }

  /** Votes of each class over the samples of a task, by a worker, or by this thread. */
  async count(noise, table, task, here) {
    if (this.#closed) throw new IntrsError("the network was closed");
    if (here) return this.#local.count(noise, table, task);
    return new Promise((done, failed) => {
      this.#queue.push({ noise, table, task, done, failed });
      this.#next();
    });
  }

  #next() {
    while (this.#idle.length && this.#queue.length) {
      const member = this.#idle.pop(), { noise, table, task, done, failed } = this.#queue.shift();
      const free = () => {
        this.#idle.push(member);
        this.#next();
      };
      member.count(noise, table, task).finally(free).then(done, failed);
    }
  }

  close() {
    this.#closed = true;
    for (const member of this.#members) member.end();
    for (const { failed } of this.#queue.splice(0)) failed(new IntrsError("the network was closed"));
    this.#members = [], this.#idle = [];
  }
}
