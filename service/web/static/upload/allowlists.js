// What an object of a log may have. The service accepts nothing else, so the page doesn't either.

import { isObject } from "./calls.js";

const { dataset } = document.querySelector("#mapping");
const totals = JSON.parse(dataset.totals);
const exportNames = new Set(dataset.exports.split(" "));
const allowed = Object.fromEntries(
  ["openai", "anthropic", "records"].map((name) => [name, { flat: parse(dataset[`${name}Flat`]), wrapped: parse(dataset[`${name}Wrapped`]) }]),
);

// `model usage(prompt_tokens)` as an object: names with null, or with names of their own. A name
// without any, such as `stop_sequence()`, must be null in the object.
function parse(text) {
  const stack = [{}];
  let last = "";
  for (const word of text.match(/\w+|[()]/g)) {
    if (word === "(") stack.push((stack.at(-1)[last] = {}));
    else if (word === ")") stack.pop();
    else stack.at(-1)[(last = word)] = null;
  }
  return stack[0];
}

// Why a file with these members or columns has totals, and no calls; null if it has not.
export function findTotals(names) {
  const found = totals.find((each) => each.names.every((name) => names.includes(name)));
  return found ? found.refusal : null;
}

// Check for an object of a tool that the service reads by rules of its own.
export function isExport(document) {
  return Object.keys(document).some((name) => exportNames.has(name));
}

// Check for the header of such a tool. Names of one plain word are those of objects.
export function isExportHeader(names) {
  return names.some((name) => exportNames.has(name) && /[_A-Z]/.test(name) && !/^session/i.test(name));
}

// The first key of an object that its style doesn't have; null if there is none.
export function findUnknown(document, style) {
  const shapes = allowed[style.toLowerCase()];
  return findWithin(document, "response" in document || "request" in document ? shapes.wrapped : shapes.flat);
}

function findWithin(value, shape) {
  for (const [name, inner] of Object.entries(value)) {
    if (!Object.hasOwn(shape, name)) return name;
    if (!shape[name] || inner === null) continue;
    if (!Object.keys(shape[name]).length) return name;
    for (const each of [inner].flat()) {
      const found = isObject(each) ? findWithin(each, shape[name]) : null;
      if (found) return found;
    }
  }
  return null;
}
