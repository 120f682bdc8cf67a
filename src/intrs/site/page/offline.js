// Keeps the page in the browser, so that it opens without a network.

import { hasSimd } from "./engine/index.js";

const CONTROLLED = "This page is stored in your browser: it works offline, and asks no server for anything.";

// Resolves when everything is stored, or at once where a browser has no such store (pages that are not served over https).
export async function storeOffline(say) {
  if (!("serviceWorker" in navigator)) return;
  try {
    const script = new URL(`sw.js?build=${hasSimd() ? "simd" : "plain"}`, location.href).href;
    if (navigator.serviceWorker.controller?.scriptURL !== script) await navigator.serviceWorker.register(script);  // asks the server
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) {
      await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }));
    }
    say(CONTROLLED);
  } catch {
    say("Once loaded, this page asks no server for anything. It could not be stored for use offline.");
  }
}
