// Keeps the page in the browser, so that it opens without a network.

import { hasSimd } from "./engine/index.js";

const CONTROLLED = "This page is stored in your browser: it works offline, and asks no server for anything.";
const UNWANTED = "This page is not stored in your browser, because its server asks for that. It works while the server runs.";

// Whether a server lets browsers keep what it answered with; `intrs web --serve` does not, as it serves another page next time.
export const mayStore = (answer) => !/\bno-store\b/i.test(answer.headers.get("Cache-Control") ?? "");

// Resolves when everything is stored, or at once where a browser has no such store (pages that are not served over https).
export async function storeOffline(allowed, say) {
  if (!allowed) return say(UNWANTED);
  if (!("serviceWorker" in navigator)) return;
  try {
    const script = new URL(`sw.js?build=${hasSimd() ? "simd" : "plain"}`, location.href).href;
    const past = navigator.serviceWorker.controller?.scriptURL !== script && (await registered(script));
    if (!navigator.serviceWorker.controller) {
      if (past) return;
      await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }));
    }
    say(CONTROLLED);
  } catch {
    say("Once loaded, this page asks no server for anything. It could not be stored for use offline.");
  }
}

// Asks the server for the script. Resolves when a worker is there; the first one is none if it cannot store everything.
// True if there was one before: a page without it was loaded past it, by shift and reload, and gets none.
async function registered(script) {
  const { installing, active } = await navigator.serviceWorker.register(script);
  const failed = new Promise((_, reject) => installing?.addEventListener("statechange", () => {
    if (installing.state === "redundant") reject(new Error("the page cannot be stored"));
  }));
  await Promise.race([navigator.serviceWorker.ready, failed]);
  return active !== null;
}

// A newer version that takes over an open page is loaded at once if nobody has touched the page; else the page says so.
export function watchForNewer(say) {
  let stored = Boolean(navigator.serviceWorker?.controller);
  navigator.serviceWorker?.addEventListener("controllerchange", () => {
    if (!stored) stored = true;  // the first version to be stored is no newer one
    else if (navigator.userActivation?.hasBeenActive === false) location.reload();
    else say();
  });
}
