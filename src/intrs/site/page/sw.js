// Stores the files of the page when it is first opened, and answers from the store ever after: no network is needed.

const VERSION = "$version";  // of all files together: another folder has another store
const STORE = `intrs ${self.registration.scope} ${VERSION}`;
const BUILD = new URL(self.location.href).searchParams.get("build") === "plain" ? "plain" : "simd";
const wanted = (file) => !file.endsWith(".wasm") || file.endsWith(`-${BUILD}.wasm`);

async function store() {
  const { files } = await (await fetch("site.json")).json();
  await (await caches.open(STORE)).addAll(["./", ...files.filter(wanted)]);
  await self.skipWaiting();
}

async function take() {
  for (const name of await caches.keys()) {
    if (name.startsWith(`intrs ${self.registration.scope} `) && name !== STORE) await caches.delete(name);
  }
  await self.clients.claim();
}

async function answer(request) {
  const kept = await caches.match(request, { cacheName: STORE, ignoreSearch: true });
  return kept ?? fetch(request);
}

self.addEventListener("install", (event) => event.waitUntil(store()));
self.addEventListener("activate", (event) => event.waitUntil(take()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event.request));
});
