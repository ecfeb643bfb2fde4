// What an object of a log may have. The service accepts nothing else, so the page doesn't either.

import { isObject } from "./calls.js";

// Objects in which the service reads every number, or names it as unknown; and the words in them.
const USAGES = new Set(["usage", "tool_usage", "svg_usage"]);
const WORDS = new Set([
  "service_tier", "serviceTier", "traffic_type", "trafficType", "speed", "inference_geo", "type", "ttl",
  "modality", "model", "cache_type", "search_context_size", "reason", "remove_to_redeem",
]);
const WORD = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$/;

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

// Why a file with these members or columns has totals, and no calls, and what it is if it is a report
// that can be compared with a bill; undefined if it has calls.
export function findTotals(names) {
  return totals.find((each) => each.names.every((name) => names.includes(name)));
}

// Check for an object of a tool that the service reads by rules of its own.
export function isExport(document) {
  return Object.keys(document).some((name) => exportNames.has(name));
}

// Check for the header of such a tool. Names of one plain word are those of objects.
export function isExportHeader(names) {
  return names.some((name) => exportNames.has(name.split(".")[0]) && /[_A-Z.]/.test(name) && !/^session/i.test(name));
}

// The first key of an object that its style doesn't have; null if there is none.
export function findUnknown(document, style) {
  const shapes = allowed[style.toLowerCase()];
  return findWithin(document, "response" in document || "request" in document ? shapes.wrapped : shapes.flat);
}

function holdsText(value, name = "") {
  if (typeof value === "string") return value !== "" && !(WORDS.has(name) && WORD.test(value));
  if (!value || typeof value !== "object") return false;
  if (Array.isArray(value)) return value.some((inner) => holdsText(inner, name));
  return Object.entries(value).some(([key, inner]) => !/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/.test(key) || holdsText(inner, key));
}

function findWithin(value, shape) {
  for (const [name, inner] of Object.entries(value)) {
    if (USAGES.has(name) && isObject(inner) && !holdsText(inner)) continue;
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
