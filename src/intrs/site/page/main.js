// The page: what is chosen, who runs, and what is said of it.

import { contentIndex, parseSeed } from "./engine/index.js";
import { $, element } from "./dom.js";
import { Model, MOST_BYTES, ModelError, conversion, fetched, isForeignModel, isModelName } from "./models.js";
import { npz } from "./npz.js";
import { storeOffline } from "./offline.js";
import { Panel } from "./panel.js";
import { fitted, PictureError } from "./picture.js";
import { Gallery } from "./pictures.js";
import { proof } from "./proof.js";
import { Runner } from "./runner.js";
import { announced, percent } from "./words.js";

const models = [];  // in the order of the file that lists them, own ones last
const runners = [new Runner(new Panel(), told), new Runner(new Panel(), told)];
const chosen = { model: null, rival: null, picture: null, seed: null };
let gallery, defaults, turn = 0, spoken = "";

// --- messages --------------------------------------------------------------------------------------------------------

function trouble(text) {
  $("trouble").hidden = !text;
  $("trouble").textContent = text;
}

// Errors with words for people are shown as they are; others are defects, and say so.
function complain(error) {
  const known = error instanceof ModelError || error instanceof PictureError || error?.name === "IntrsError";
  trouble(known ? error.message : `Something in this page is broken: ${error?.message ?? error}`);
  if (!known) console.error(error);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    $("copied").textContent = `${what} copied`;
  } catch {
    $("copied").textContent = "The browser does not let this page copy; select the text instead";
  }
  setTimeout(() => { $("copied").textContent = ""; }, 4000);
}

// --- running ---------------------------------------------------------------------------------------------------------

const active = () => runners.slice(0, chosen.rival ? 2 : 1);

async function pixelsFor(picture, shape) {
  if (picture.shape.join() === shape.join()) return picture.pixels;
  if (!picture.file) {
    const [height, width] = shape, [h, w] = picture.shape;
    throw new PictureError(`This network takes pictures of ${width} × ${height} pixels, and those of this page have ${w} × ${h}. Open a picture of your own: it will be fitted.`);
  }
  return (await fitted(picture.file, shape)).pixels;
}

// Begin again with what is chosen now.
async function restart() {
  const mine = ++turn, wanted = [chosen.model, chosen.rival].filter(Boolean);
  runners.forEach((runner) => runner.stop());
  document.body.dataset.run = "starting";
  for (const model of models) if (!wanted.includes(model)) model.close();
  trouble("");
  spoken = "";
  try {
    await Promise.all(wanted.map((model) => model.open()));
    if (mine !== turn) return;
    const images = await Promise.all(wanted.map((model) => pixelsFor(chosen.picture, model.shape)));
    if (mine !== turn) return;
    chosen.picture.index ??= contentIndex(chosen.model.net, images[0]);
    showChoices();
    const largest = Math.max(...wanted.map((model) => model.largest));
    await Promise.all(wanted.map((model, i) => runners[i].begin(model, chosen.picture, images[i], chosen.seed, largest)));
  } catch (error) {
    if (mine === turn) complain(error);
  } finally {
    if (mine === turn) buttons();
  }
}

function told(runner) {
  buttons();
  if (runner === runners[0]) {
    const words = announced(runner.state, runner.model.names), part = words.split(" Certified")[0] + runner.state.decided;
    if (words && part !== spoken) {  // a growing radius is not read out at every step
      spoken = part;
      $("said").textContent = words;
    }
  }
  if (runner.state.decided && !runner.running) showProofs();
}

function buttons() {
  const running = active().some((runner) => runner.running), open = active().some((runner) => !runner.state?.decided);
  document.body.dataset.run = running ? "running" : open ? "paused" : "decided";
  $("pause").disabled = !open;
  $("pause").textContent = running || !open ? "Pause" : "Continue";
  $("again").disabled = false;
}

function pause() {
  if (active().some((runner) => runner.running)) active().forEach((runner) => runner.stop());
  else active().forEach((runner) => runner.goOn().catch(complain));
  buttons();
}

// --- what is shown of the choices --------------------------------------------------------------------------------------

const option = (model) => element("option", { value: models.indexOf(model) }, model.title);
const sigmas = () => [...new Set(models.filter((model) => !model.own).map((model) => model.listed))].sort((a, b) => a - b);

function showChoices() {
  const levels = sigmas(), at = levels.indexOf(chosen.model.listed), here = models.filter((model) => model.own || model.listed === chosen.model.listed || model === chosen.model);
  $("sigma").max = Math.max(0, levels.length - 1);
  $("sigma").disabled = levels.length < 2;
  $("sigma").value = Math.max(0, at);
  $("sigma").setAttribute("aria-valuetext", `sigma ${chosen.model.listed}`);
  $("sigma-ticks").replaceChildren(...levels.map((sigma, i) => element("span", { class: i === at ? "chosen" : "" }, `σ = ${sigma}`)));
  $("model").replaceChildren(...here.map(option));
  $("model").value = models.indexOf(chosen.model);
  $("rival").replaceChildren(element("option", { value: -1 }, "nothing"), ...models.filter((model) => model !== chosen.model).map(option));
  $("rival").value = chosen.rival ? models.indexOf(chosen.rival) : -1;
  $("seed").value = `0x${BigInt(chosen.seed).toString(16)}`;
  $("alpha").textContent = percent(chosen.model.alpha, 1);
  gallery.mark(chosen.picture);
  $("stage").classList.toggle("two", chosen.rival !== null);
  $("stage").replaceChildren(...active().map(({ panel }) => panel.node));
  $("fitted").hidden = !chosen.picture.note;
  $("fitted").textContent = chosen.picture.note ?? "";
  $("save").hidden = !chosen.picture.own;
  $("link").hidden = Boolean(chosen.picture.own || chosen.model.own || chosen.rival?.own);
  showProofs();
}

function showProofs() {
  const of = (runner, model) => proof(model, chosen.picture, chosen.seed, defaults, runner.model === model && runner.picture === chosen.picture && runner.seed === chosen.seed ? runner.state : null, copy);
  $("proofs").replaceChildren(...active().map((runner, i) => of(runner, [chosen.model, chosen.rival][i])));
}

function link() {
  const parts = { picture: chosen.picture.index, model: chosen.model.name, seed: $("seed").value };
  if (chosen.rival) parts.rival = chosen.rival.name;
  return `${location.origin}${location.pathname}#${new URLSearchParams(parts)}`;
}

// --- choosing --------------------------------------------------------------------------------------------------------

function choose(change) {
  Object.assign(chosen, change);
  if (chosen.rival === chosen.model) chosen.rival = null;
  return restart();
}

function chooseSigma(level) {
  const sigma = sigmas()[level], family = (model) => model.name.split("-")[0];
  const there = models.filter((model) => !model.own && model.listed === sigma);
  return choose({ model: there.find((model) => family(model) === family(chosen.model)) ?? there[0] });
}

function chooseSeed(text) {
  try {
    return choose({ seed: parseSeed(text.trim() || undefined) });
  } catch (error) {
    return complain(error);
  }
}

async function openFile(file) {
  trouble("");
  if (isForeignModel(file.name)) throw new ModelError(conversion(file.name));
  if (isModelName(file.name)) return openModel(file);
  const shape = chosen.model.shape, { pixels, from, untouched } = await fitted(file, shape), [height, width] = shape;
  const note = untouched ? `${file.name} has ${width} × ${height} pixels, and is taken as it is.`
    : `${file.name} has ${from.width} × ${from.height} pixels. Its middle was averaged down to ${width} × ${height}, what the network takes: the certificate is about the small picture, not about your file.`;
  const picture = { own: true, file, pixels, shape, note, title: file.name, index: undefined };
  gallery.replaceOwn(picture);
  return choose({ picture });
}

async function openModel(file) {
  if (file.size > MOST_BYTES) throw new ModelError(`${file.name} is larger than 512 MB, more than this page opens`);
  const model = new Model(new Uint8Array(await file.arrayBuffer()), { name: file.name, title: file.name, spec: "MODEL", own: true });
  await model.open();
  model.listed = String(model.sigma);
  model.title = `${model.net.name} (${file.name}, σ = ${model.listed})`;
  models.push(model);
  return choose({ model });
}

const take = (input) => {
  const [file] = input.files;
  input.value = "";
  if (file) openFile(file).catch(complain);
};

function save() {
  const [runner] = runners, bytes = npz(runner.pixels, runner.model.shape, chosen.picture.index);
  const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  element("a", { href: address, download: "picture.npz" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function listen() {
  $("pause").addEventListener("click", pause);
  $("again").addEventListener("click", () => choose({ seed: parseSeed() }));
  $("sigma").addEventListener("change", () => chooseSigma(Number($("sigma").value)));
  $("model").addEventListener("change", () => choose({ model: models[$("model").value] }));
  $("rival").addEventListener("change", () => choose({ rival: models[$("rival").value] ?? null }));
  $("seed").addEventListener("change", () => chooseSeed($("seed").value));
  $("open").addEventListener("click", () => $("file").click());
  $("photograph").addEventListener("click", () => $("camera").click());
  for (const id of ["file", "camera"]) $(id).addEventListener("change", () => take($(id)));
  $("save").addEventListener("click", save);
  $("link").addEventListener("click", () => copy(link(), "Link"));
  document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dragging"); });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dragging"); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]).catch(complain);
  });
  window.addEventListener("hashchange", () => location.reload());
}

// --- beginning -------------------------------------------------------------------------------------------------------

async function pictures(listed) {
  const bytes = await fetched(listed.file), size = listed.shape.reduce((a, b) => a * b);
  return listed.list.map(({ position, index, label }, i) =>
    ({ position, index, truth: label, title: `${label}, image ${index}`, data: listed.data, shape: listed.shape, pixels: bytes.slice(size * i, size * (i + 1)) }));
}

// The model that a link names comes first, and the page begins as soon as it is there; the others follow.
async function begin() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const site = JSON.parse(new TextDecoder().decode(await fetched("site.json")));
  $("version").textContent = site.version;
  const read = async (listed) => Object.assign(new Model(await fetched(listed.file), listed), { listed: listed.sigma });
  const first = Math.max(0, site.models.findIndex(({ name }) => name === asked.get("model")));
  const [model, shown] = await Promise.all([read(site.models[first]), pictures(site.pictures)]);
  gallery = new Gallery($("pictures"), (picture) => choose({ picture }));
  shown.forEach((picture) => gallery.add(picture));
  models.push(model);
  Object.assign(chosen, { model, seed: parseSeed(asked.get("seed") ?? undefined), picture: shown.find(({ index }) => String(index) === asked.get("picture")) ?? shown[0] });
  listen();
  Panel.startFlickering(() => active().filter((runner) => runner.running).map(({ panel }) => panel));
  defaults = site.defaults;
  const running = restart();
  const others = await Promise.all(site.models.filter((_, i) => i !== first).map(read));
  others.splice(first, 0, model);
  models.splice(0, 1, ...others);
  await model.open();
  showChoices();
  const rival = models.find(({ name }) => name === asked.get("rival"));
  if (rival) choose({ rival });
  await storeOffline((text) => { $("offline").textContent = text; });
  document.body.dataset.loaded = "yes";
  await running;
}

begin().catch((error) => {
  complain(error);
  document.body.dataset.loaded = "failed";
});
