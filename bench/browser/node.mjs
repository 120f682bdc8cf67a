// Measures in Node: node node.mjs FOLDER ROUNDS SECONDS WORKERS, where bench/web.py has put everything into FOLDER.
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, rounds, seconds, workers] = process.argv;
const module = (path) => import(pathToFileURL(resolve(folder, path)));
const [{ measure }, api, ort] = [await module("turns.js"), await module("package/index.js"), await module("ort/ort.wasm.min.mjs")];
const read = async (name) => new Uint8Array(await readFile(join(folder, name)));
const settings = { rounds: Number(rounds), seconds: Number(seconds), workers: Number(workers) };
console.log(JSON.stringify(await measure({ api, ort: ort.default?.env ? ort.default : ort, read, ...settings })));
process.exit(0);
