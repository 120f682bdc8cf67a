// Making and finding elements. Text is only ever set as text, so nothing in a file can become markup.

export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function dressed(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const element = (name, attributes = {}, ...children) => dressed(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => dressed(document.createElementNS(SVG, name), attributes, children);

export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

export const number = (value) => value.toLocaleString("en-US");
