// A worker: an instance of the core of its own, which counts what it is asked to. Runs in browsers and in Node.
import { Core, IntrsError, PROTOCOL } from "./core.js";

let core, network;
const noises = [];

async function answer(message) {
  if (message.module) {
    if (message.protocol !== PROTOCOL) throw new IntrsError("the worker is of another version than the page");
    core = await Core.create(message.module);
    network = core.openNetwork(message.network, message.kernels);
    return { kernels: network.kernels };
  }
  const { noise, table, task } = message;
  noises[noise] ??= core.openNoise(table);
  return { counts: core.votes(network.handle, noises[noise], { ...task, classes: network.classes }) };
}

function serve(port, listen) {
  let last = Promise.resolve();
  listen((message) => {
    last = last.then(() => answer(message)).then(
      (found) => port.postMessage({ id: message.id, ...found }),
      (error) => port.postMessage({ id: message.id, error: String(error.message) }),
    );
  });
}

if (typeof self === "object" && typeof self.postMessage === "function") {
  serve(self, (take) => self.addEventListener("message", (event) => take(event.data)));
} else {
  import("node:worker_threads").then(({ parentPort }) => serve(parentPort, (take) => parentPort.on("message", take)));
}
