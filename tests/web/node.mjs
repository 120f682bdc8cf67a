// Answers the jobs of a JSON file in Node: node node.mjs INDEX.JS JOBS.JSON [without-webassembly]
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { answers } from "./jobs.js";

const [, , index, file, without] = process.argv;
if (without) delete globalThis.WebAssembly;
const api = await import(pathToFileURL(index));
const jobs = JSON.parse(await readFile(file, "utf-8"));
console.log(JSON.stringify(await answers(api, async (path) => new Uint8Array(await readFile(path)), jobs)));
