// Answers the jobs of a JSON file in Node: node node.mjs INDEX.JS JOBS.JSON [without-webassembly | older-node]
import { readFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { pathToFileURL } from "node:url";
import { answers } from "./jobs.js";

const [, , index, file, lacking] = process.argv;
if (lacking === "without-webassembly") delete globalThis.WebAssembly;
if (lacking === "older-node") {
  delete globalThis.navigator;
  delete os.availableParallelism;
  syncBuiltinESMExports();
}
const api = await import(pathToFileURL(index));
const jobs = JSON.parse(await readFile(file, "utf-8"));
console.log(JSON.stringify(await answers(api, async (path) => new Uint8Array(await readFile(path)), jobs)));
