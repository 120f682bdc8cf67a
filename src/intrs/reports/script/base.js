// What all parts use. Text reaches the page as text, never as HTML.

const $ = (id) => document.getElementById(id);
const data = (id) => JSON.parse($(id).textContent);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const number = (x) => x.toLocaleString("en-US");
const percent = (x) => (100 * x).toFixed(1) + " %";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
