// What tests/test_web.py asks of @intrs/web, in Node and in a browser alike: a list of jobs, answered one by one.

async function model(api, read, job) {
  const bytes = await read(job.model);
  return { net: await api.load(bytes, job.load ?? {}), image: job.image ? await read(job.image) : null };
}

// All states of a run, checked on the way: samples only grow, and every sample has one vote.
async function states(api, net, image, options, enough = () => false) {
  const seen = [];
  for await (const state of api.certify(net, image, options)) {
    const before = seen.at(-1)?.samples ?? 0, sum = state.counts.reduce((a, b) => a + b);
    if (state.samples < before || sum !== state.samples) throw new Error("votes that contradict each other");
    seen.push(state);
    if (enough(state)) break;
  }
  return seen;
}

// Workers of Node behind a browser's interface, counted. They do not end at once, as real ones may not.
async function watched(work) {
  const { Worker: Thread } = await import("node:worker_threads");
  const threads = [], seen = { started: 0, ended: 0, start() {}, answer() {} };
  globalThis.Worker = class {
    constructor(url) {
      threads.push((this.thread = new Thread(url)));
      seen.started += 1;
      seen.start();
    }
    addEventListener(kind, take) {
      this.thread.on(kind, (data) => {
        take(kind === "message" ? { data } : data);
        seen.answer();
      });
    }
    postMessage(message) {
      this.thread.postMessage(message);
    }
    terminate() {
      seen.ended += 1;
    }
  };
  try {
    return await work(seen);
  } finally {
    delete globalThis.Worker;
    for (const thread of threads) await thread.terminate();
  }
}

// What WebAssembly.instantiate gives while this says so first.
function announced(begun) {
  const real = WebAssembly.instantiate;
  WebAssembly.instantiate = (...given) => {
    WebAssembly.instantiate = real;
    begun();
    return real.call(WebAssembly, ...given);
  };
}

const outcome = (promise) => promise.then(() => "counted", (reason) => reason.message);

const KINDS = {
  async about(api, read, job) {
    const { net } = await model(api, read, job);
    return net;
  },
  async votes(api, read, job) {
    const { net, image } = await model(api, read, job);
    const options = { ...job.options, first: BigInt(job.options.first ?? 0) };
    const found = await api.votes(net, image, options);
    net.close();
    return found.counts;
  },
  async certify(api, read, job) {
    const { net, image } = await model(api, read, job);
    const seen = await states(api, net, image, job.options);
    net.close();
    return { ...seen.at(-1), states: seen.length };
  },
  async predict(api, read, job) {
    const { net, image } = await model(api, read, job);
    const found = await api.predict(net, image, job.options);
    net.close();
    return { ...found, plain: api.classify(net, image) };
  },
  // Left after some samples, and continued from what JSON kept of the last state, by other workers.
  async continued(api, read, job) {
    const { net, image } = await model(api, read, job);
    const left = (await states(api, net, image, job.options, (state) => state.samples >= job.after)).at(-1);
    net.close();
    const again = await model(api, read, job);
    const from = JSON.parse(JSON.stringify(left));
    const seen = await states(api, again.net, image, { ...job.then, from });
    const over = await states(api, again.net, image, { from: seen.at(-1) });
    again.net.close();
    return { left: left.samples, begins: seen[0].samples, last: seen.at(-1), over };
  },
  // Aborted by a signal; the same network goes on afterwards.
  async aborted(api, read, job) {
    const { net, image } = await model(api, read, job);
    const stop = new AbortController();
    let states = 0, error = "";
    try {
      for await (const _ of api.certify(net, image, { ...job.options, signal: stop.signal })) {
        states += 1;
        if (states === 2) stop.abort(new Error("enough"));
      }
    } catch (reason) {
      error = reason.message;
    }
    const late = await api.votes(net, image, { signal: stop.signal, n: 4 }).catch((reason) => reason.message);
    const votes = await api.votes(net, image, { seed: 1, index: 0, n: 20, workers: 2 });
    net.close();
    return { states, error, late, votes: votes.counts };
  },
  // Closed while its workers count, in Node: they answer too late.
  closed(api, read, job) {
    return watched(async (seen) => {
      const { net, image } = await model(api, read, job);
      await api.votes(net, image, { ...job.options, n: 1 }); // the workers are there
      const counting = outcome(api.votes(net, image, job.options));
      await new Promise((done) => setTimeout(done, 20));
      const answered = new Promise((done) => (seen.answer = () => done("answered")));
      net.close();
      return [await counting, await answered];
    });
  },
  // Closed as soon as its first worker is made, in Node, while another call waits for the workers too.
  closedEarly(api, read, job) {
    return watched(async (seen) => {
      const { net, image } = await model(api, read, job);
      const begun = new Promise((done) => (seen.start = done));
      const counting = [1, 2].map(() => outcome(api.votes(net, image, job.options)));
      await begun;
      net.close();
      const found = await Promise.all(counting), later = await outcome(api.votes(net, image, job.options));
      return { found, later, started: seen.started, ended: seen.ended };
    });
  },
  // The same where this thread counts: closed while its core is being made, and between two units.
  async closedHere(api, read, job) {
    const found = [];
    for (const units of [false, true]) {
      const { net, image } = await model(api, read, job);
      if (units) await api.votes(net, image, { ...job.options, n: 1 }); // its core is there
      const begun = new Promise((done) => (units ? setTimeout(done, 20) : announced(done)));
      const counting = outcome(api.votes(net, image, job.options));
      await begun;
      net.close();
      found.push(await counting);
    }
    return found;
  },
  // Several calls at the same time, in Node: how many workers there are, and their votes.
  shared(api, read, job) {
    return watched(async (seen) => {
      const { net, image } = await model(api, read, job);
      const found = await Promise.all(job.calls.map((options) => api.votes(net, image, options)));
      net.close();
      return { votes: found.map(({ counts }) => counts), started: seen.started, ended: seen.ended };
    });
  },
  // What votes() says of a first sample that is none: those that JSON has, and these.
  async firsts(api, read, job) {
    const { net, image } = await model(api, read, job);
    const words = [];
    for (const first of [...job.firsts, NaN, 2 ** 53, -1n, 2n ** 64n]) {
      const error = await api.votes(net, image, { ...job.options, first }).catch((reason) => reason);
      words.push(error instanceof api.IntrsError ? error.message : String(error));
    }
    net.close();
    return words;
  },
  // The message of the mistake; anything but a mistake of the caller is a defect.
  async refused(api, read, job) {
    try {
      const { net, image } = await model(api, read, job);
      if (job.image) await states(api, net, image, job.options ?? {});
      net.close();
      return "";
    } catch (error) {
      if (error instanceof api.IntrsError) return error.message;
      throw error;
    }
  },
  // A state of one image that is given for another one, and one that does not say of which image it is.
  async otherImage(api, read, job) {
    const { net, image } = await model(api, read, job);
    const left = (await states(api, net, image, job.options, (state) => state.samples >= job.after)).at(-1);
    const words = (image, from) => states(api, net, image, { from }).then(() => "", (error) => error.message);
    const found = [await words(image.map((value) => 255 - value), left), await words(image, { ...left, image: undefined })];
    net.close();
    return found;
  },
  async refusedFrom(api, read, job) {
    const { net, image } = await model(api, read, job);
    const left = (await states(api, net, image, job.options, (state) => state.samples >= job.after)).at(-1);
    const answers = [];
    for (const change of job.changes) {
      try {
        await states(api, net, image, { from: { ...left, ...change } });
        answers.push("");
      } catch (error) {
        if (!(error instanceof api.IntrsError)) throw error;
        answers.push(error.message);
      }
    }
    net.close();
    return answers;
  },
};

export async function answers(api, read, jobs) {
  const found = [];
  for (const job of jobs) found.push(await KINDS[job.kind](api, read, job));
  return found;
}
