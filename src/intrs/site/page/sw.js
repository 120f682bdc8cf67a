// Stores the files of the page when it is first opened, and answers from the store ever after: no network is needed.

const VERSION = "$version";  // of all files together: another folder has another store
const STORE = `intrs ${self.registration.scope} ${VERSION}`;
const BUILD = new URL(self.location.href).searchParams.get("build") === "plain" ? "plain" : "simd";
const wanted = (file) => !file.endsWith(".wasm") || file.endsWith(`-${BUILD}.wasm`);

// From the server, not from what the browser kept of an earlier version.
async function fetched(file) {
  const answer = await fetch(new Request(file, { cache: "reload" }));
  if (!answer.ok) throw new Error(`${file}: ${answer.status}`);
  // Some hosts answer for index.html by sending to ./; a browser takes no such answer from a store for a page.
  return answer.redirected ? new Response(await answer.blob(), { headers: answer.headers }) : answer;
}

// The same for a file whose content is known, so that no store mixes versions while the folder is being written anew.
async function checked(file, digest) {
  const answer = await fetched(file), bytes = await crypto.subtle.digest("SHA-256", await answer.clone().arrayBuffer());
  const found = Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== digest) throw new Error(`${file} is of another version`);
  return answer;
}

async function fill() {
  const list = await fetched("site.json"), { store: version, files } = await list.clone().json();
  if (version !== VERSION) throw new Error("site.json is of another version");
  const kept = await caches.open(STORE), names = Object.keys(files).filter(wanted);
  await Promise.all(names.map(async (name) => kept.put(name, await checked(name, files[name]))));
  await kept.put("./", await checked("./", files["index.html"]));
  await kept.put("site.json", list);
}

// All or nothing; but a store that was there before is that of the other build, which has the same name.
async function store() {
  const there = await caches.has(STORE);
  try {
    await fill();
  } catch (error) {
    if (!there) await caches.delete(STORE);
    throw error;
  }
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
