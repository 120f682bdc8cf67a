// `intrs web --serve` answers with this in place of sw.js. A worker that an earlier page left at this address would go on
// answering with that page, so this one takes its place, empties its stores, and leaves: the open pages load anew.

async function leave() {
  const { registration, clients } = self;
  for (const name of await caches.keys()) if (name.startsWith(`intrs ${registration.scope} `)) await caches.delete(name);
  await registration.unregister();
  for (const client of await clients.matchAll({ type: "window" })) client.navigate(another(client.url));
}

// Going to an address that differs from the present one after the # alone, or not at all, would load nothing. A page
// that left before has such an address already, so each time it is another one.
function another(address) {
  const url = new URL(address);
  if (url.hash) url.search = `?anew=${Date.now()}`;
  return url.href;
}

// What the browser keeps of an earlier page's files is replaced too: servers that say nothing let it keep them for days.
async function renewed() {
  const read = async (file) => (await fetch(new Request(file, { cache: "reload" }))).arrayBuffer();
  const { files } = JSON.parse(new TextDecoder().decode(await read("site.json")));
  await Promise.all(["./", ...Object.keys(files)].map(read));
}

self.addEventListener("install", (event) => event.waitUntil(renewed().catch(() => {}).then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(leave()));
