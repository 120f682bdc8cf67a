// The page: what is chosen, who runs, and what is said of it.

import { contentIndex, parseSeed } from "./engine/index.js";
import { $, element } from "./dom.js";
import { Model, MOST_BYTES, ModelError, answered, conversion, fetched, isForeignModel, isModelName } from "./models.js";
import { npz } from "./npz.js";
import { mayStore, storeOffline, watchForNewer } from "./offline.js";
import { Panel } from "./panel.js";
import { fitNote, fitted, PictureError } from "./picture.js";
import { Gallery } from "./pictures.js";
import { hex, pictureFile, proof } from "./proof.js";
import { Runner } from "./runner.js";
import { announced, risk } from "./words.js";

const models = [];  // in the order of the file that lists them, own ones last
const runners = [new Runner(new Panel(), told), new Runner(new Panel(), told)];
const chosen = { model: null, rival: null, picture: null, seed: null };
const ASKED = ["picture", "model", "rival", "seed"];  // what a link may say
let worked = null;  // the last choice with which something could begin: what is seen
let halted = [];  // who ran when a choice was made, and goes on if it cannot begin
let gallery, defaults, starting = false, turn = 0, spoken = "", note = "";

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

const active = () => runners.slice(0, worked?.rival ? 2 : 1);

function unfit([height, width, channels], [h, w, c]) {
  const what = height === h && width === w ? `with ${channels} channels, and those of this page have ${c}`
    : `of ${width} × ${height} pixels, and those of this page have ${w} × ${h}`;
  return new PictureError(`This network takes pictures ${what}. Open a picture of your own and then choose the network: the picture will be fitted to it.`);
}

// The picture as a network of this shape takes it, and of one's own also what was done to it.
async function fitFor(picture, shape) {
  if (picture.own) return (picture.fits[shape] ??= await fitted(picture.file, shape));
  if (String(picture.shape) !== String(shape)) throw unfit(shape, picture.shape);
  return { pixels: picture.pixels };
}

// All that a choice needs; nothing that is seen has changed yet.
async function prepared(wanted, picture) {
  await Promise.all(wanted.map((model) => model.open()));
  return Promise.all(wanted.map((model) => fitFor(picture, model.shape)));
}

// Begin again with what is chosen now. If that cannot be, the last choice that could is there again.
async function restart() {
  const mine = ++turn, wanted = [chosen.model, chosen.rival].filter(Boolean);
  if (!starting) halted = runners.filter(({ running }) => running);  // else they stand still already
  runners.forEach((runner) => runner.stop());
  starting = true;
  document.body.dataset.run = "starting";
  $("pause").disabled = true;  // what it would let go on is about to be replaced
  trouble("");
  try {
    const fits = await prepared(wanted, chosen.picture);
    if (mine === turn) run(wanted, fits);
  } catch (error) {
    if (mine === turn) giveBack(error);
  }
}

function run(wanted, fits) {
  const mine = turn, largest = Math.max(...wanted.map((model) => model.largest));
  for (const model of models) if (!wanted.includes(model)) model.close();
  chosen.picture.index ??= contentIndex(chosen.model.net, fits[0].pixels);
  [worked, note, spoken, starting] = [{ ...chosen }, notes(wanted, fits), "", false];
  const runs = wanted.map((model, i) => runners[i].begin(model, chosen.picture, fits[i].pixels, chosen.seed, largest));
  showChoices();
  Promise.all(runs).catch(complain).finally(() => { if (mine === turn) buttons(); });
}

function giveBack(error) {
  starting = false;
  complain(error);
  if (worked) {
    Object.assign(chosen, worked);
    showChoices();
    halted.forEach((runner) => runner.goOn().catch(complain));
  }
  buttons();
}

// What was done to a picture of one's own, for each network if it differs.
function notes(wanted, fits) {
  if (!chosen.picture.own) return "";
  const words = wanted.map((model, i) => fitNote(chosen.picture.file, fits[i], model.shape));
  return new Set(words).size === 1 ? words[0] : wanted.map((model, i) => `${model.title}: ${words[i]}`).join(" ");
}

function told(runner) {
  buttons();
  if (!runner.state) return;
  if (runner === runners[0]) {
    const words = announced(runner.state, runner.names), part = words.split(" Certified")[0] + runner.state.decided;
    if (words && part !== spoken) {  // a growing radius is not read out at every step
      spoken = part;
      $("said").textContent = words;
    }
  }
  if (runner.state.decided && !runner.running) showProofs();
}

function buttons() {
  if (starting) return;
  const running = active().some((runner) => runner.running), open = active().some((runner) => runner.open);
  document.body.dataset.run = running ? "running" : open ? "paused" : worked ? "decided" : "none";
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
  $("seed").value = hex(chosen.seed);
  $("alpha").textContent = risk(...active().map(({ model }) => model.rule.alpha));
  gallery.mark(chosen.picture);
  $("stage").classList.toggle("two", chosen.rival !== null);
  $("stage").replaceChildren(...active().map(({ panel }) => panel.node));
  $("fitted").hidden = !note;
  $("fitted").textContent = note;
  $("save").hidden = !saved().length;
  $("save").textContent = `Save ${saved().map(({ file }) => file).join(" and ")}`;
  $("link").hidden = Boolean(chosen.picture.own || chosen.model.own || chosen.rival?.own);
  showProofs();
}

// The files of pictures that the commands read, and for each of them a network whose picture it holds.
const fromFiles = () => active().filter(({ fromFile }) => fromFile);
const fileFor = ({ model, fromFile }) => (fromFile ? pictureFile(model.shape, fromFiles().map((runner) => runner.model.shape)) : null);
const saved = () => [...new Map(fromFiles().map((runner) => [fileFor(runner), runner]))].map(([file, runner]) => ({ file, runner }));

function showProofs() {
  $("proofs").replaceChildren(...active().map((runner) => proof(runner, fileFor(runner), defaults, copy)));
}

// To what is seen, whatever is being chosen or written in a field.
function link() {
  const parts = { picture: worked.picture.index, model: worked.model.name, seed: hex(worked.seed) };
  if (worked.rival) parts.rival = worked.rival.name;
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
    $("seed").value = hex(chosen.seed);  // no other one stands beside the certificate
    return complain(error);
  }
}

async function openFile(file) {
  trouble("");
  if (isForeignModel(file.name)) throw new ModelError(conversion(file.name));
  if (isModelName(file.name)) return openModel(file);
  const { shape } = await chosen.model.open(), fit = await fitted(file, shape);
  const picture = { own: true, file, pixels: fit.pixels, shape, fits: { [shape]: fit }, title: file.name, index: undefined };
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
  for (const { file, runner } of saved()) {
    const bytes = npz(runner.pixels, runner.model.shape, runner.picture.index);
    const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    element("a", { href: address, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
}

// Whether a link was put in the place of the address, and not only a place on the page.
function asksAnew({ oldURL, newURL }) {
  const [before, now] = [oldURL, newURL].map((address) => new URLSearchParams(new URL(address).hash.slice(1)));
  return ASKED.some((name) => now.has(name)) && ASKED.some((name) => now.get(name) !== before.get(name));
}

function skip(event) {
  event.preventDefault();  // the address keeps what it says
  $("stage").focus();
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
  document.querySelector(".skip").addEventListener("click", skip);
  window.addEventListener("hashchange", (event) => { if (asksAnew(event)) location.reload(); });
}

// --- beginning -------------------------------------------------------------------------------------------------------

async function pictures(listed) {
  const { data, shape, classes, labels } = listed, bytes = await fetched(listed.file), size = shape.reduce((a, b) => a * b);
  return listed.list.map(({ position, index, label }, i) => {
    const truth = label === null ? "" : (classes[label] ?? `class ${label}`), title = `${truth ? `${truth}, ` : ""}image ${index}`;
    return { position, index, label, labels, classes, truth, title, data, shape, pixels: bytes.slice(size * i, size * (i + 1)) };
  });
}

// Where the model is that is shown first: the one that a link names, else the first that takes the pictures.
function firstOf({ models: listed, pictures: { shape } }, name) {
  const fits = (model) => String(model.shape) === String(shape);
  const asked = listed.findIndex((model) => model.name === name && fits(model));
  return asked >= 0 ? asked : Math.max(0, listed.findIndex(fits));
}

// The seed of a link; if that is none, one is drawn as if the link had not named any, and there is something to say.
function seedOf(text) {
  try {
    return { seed: parseSeed(text || undefined), wrong: "" };
  } catch (error) {
    return { seed: parseSeed(), wrong: `${error.message}, in the link. Another seed was drawn.` };
  }
}

// A version that takes over while the page is still being fetched is noticed too, so that no page is made of two.
function watch() {
  $("reload").addEventListener("click", () => location.reload());
  watchForNewer(() => { $("newer").hidden = false; });
}

// The page begins as soon as the first model is there; the others follow.
async function begin() {
  const asked = new URLSearchParams(location.hash.slice(1)), answer = await answered("site.json"), site = await answer.json();
  $("version").textContent = site.version;
  $("data").textContent = `The pictures are from the data set ${site.pictures.name}.`;
  const read = async (listed) => Object.assign(new Model(await fetched(listed.file), listed), { listed: listed.sigma });
  const first = firstOf(site, asked.get("model"));
  const [model, shown] = await Promise.all([read(site.models[first]), pictures(site.pictures)]);
  gallery = new Gallery($("pictures"), (picture) => choose({ picture }));
  shown.forEach((picture) => gallery.add(picture));
  models.push(model);
  const { seed, wrong } = seedOf(asked.get("seed"));
  Object.assign(chosen, { model, seed, picture: shown.find(({ index }) => String(index) === asked.get("picture")) ?? shown[0] });
  listen();
  Panel.startFlickering(() => active().filter((runner) => runner.running).map(({ panel }) => panel));
  defaults = site.defaults;
  const [others] = await Promise.all([Promise.all(site.models.filter((_, i) => i !== first).map(read)), restart()]);
  others.splice(first, 0, model);
  models.splice(0, 1, ...others);
  if (worked) showChoices();
  const rival = models.find(({ name }) => name === asked.get("rival"));
  if (rival) await choose({ rival });
  if (wrong && worked) trouble(wrong);  // after the last beginning, which takes away what was said before
  await storeOffline(mayStore(answer), (text) => { $("offline").textContent = text; });
  document.body.dataset.loaded = "yes";
}

watch();
begin().catch((error) => {
  complain(error);
  document.body.dataset.loaded = "failed";
});
