// `intrs web --serve` answers with this in place of sw.js. A worker that an earlier page left at this address would go on
// answering with that page, so this one takes its place, empties its stores, and leaves: the open pages load anew.

async function leave() {
  const { registration, clients } = self;
  for (const name of await caches.keys()) if (name.startsWith(`intrs ${registration.scope} `)) await caches.delete(name);
  await registration.unregister();
  for (const client of await clients.matchAll({ type: "window" })) client.navigate(another(client.url));
}

// Going to an address that differs from the present one after the # alone, or not at all, would load nothing.
function another(address) {
  const url = new URL(address);
  if (url.hash) url.search = "?anew";
  return url.href;
}

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(leave()));
