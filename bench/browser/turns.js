// intrs and onnxruntime-web in turns, in Node or in a page: rounds of one turn each, all on this thread or by workers.
// intrs does all that it does for votes (noise, network, argmax); the other engine runs the bare network on one batch.

const SIGMA = "0.25", BATCHES = [1, 4, 16, 64];

async function rate(once, seconds) {
  const began = performance.now();
  let done = 0, passed = 0;
  do {
    done += await once();
    passed = (performance.now() - began) / 1000;
  } while (passed < seconds);
  return done / passed;
}

async function session(ort, bytes, seconds) {
  const made = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"], graphOptimizationLevel: "all" });
  const once = (batch) => {
    const values = Float32Array.from({ length: batch * 3072 }, (_, i) => ((i * 7919) % 256) / 255);
    const input = new ort.Tensor("float32", values, [batch, 3, 32, 32]);
    return async () => {
      await made.run({ [made.inputNames[0]]: input });
      return batch;
    };
  };
  let best = { batch: 0, rate: 0 };
  for (const batch of BATCHES) {
    const turn = once(batch);
    await turn();
    const found = await rate(turn, seconds);
    if (found > best.rate) best = { batch, rate: found };
  }
  return { batch: best.batch, once: once(best.batch) };
}

/** Rates of all engines, round by round, and what each ran with. */
export async function measure({ api, ort, read, rounds, seconds, workers }) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  const net = await api.load(await read("model.intrs")), image = await read("image.bin");
  const ours = (count, n) => async () => {
    await api.votes(net, image, { sigma: SIGMA, seed: 1, index: 0, n, workers: count });
    return n;
  };
  const engines = { "intrs, one worker": { once: ours(1, 1600) } };
  if (workers > 1) engines[`intrs, ${workers} workers`] = { once: ours(workers, 1600 * workers) };
  for (const [name, file] of [["onnxruntime-web int8", "int8.onnx"], ["onnxruntime-web fp32", "float.onnx"]]) {
    engines[name] = await session(ort, await read(file), seconds / 2);
  }
  const names = Object.keys(engines), rates = Object.fromEntries(names.map((name) => [name, []]));
  for (const name of names) await engines[name].once();
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < names.length; turn += 1) {
      const name = names[(round + turn) % names.length];
      rates[name].push(await rate(engines[name].once, seconds));
    }
  }
  const batches = Object.fromEntries(names.map((name) => [name, engines[name].batch ?? null]));
  net.close();
  return { kernels: net.kernels, rates, batches };
}
