// The table that makes the columns of a foreign CSV fields: proposed, chosen, never guessed.

import { isExportHeader } from "./allowlists.js";
import { timeOf } from "./calls.js";

const fieldset = document.querySelector("#mapping");
const rowTemplate = document.querySelector("#mapping-row");
const tableRows = document.querySelector("#mapping-rows");
const providers = document.querySelector("#provider");
const UNCACHED = "uncached_prompt_tokens";
const LABELS = new Set(["endpoint", "request_id", "tag", "environment", "session_id", "region", "service_tier"]);
const LONGEST_SHOWN = 32;

const targets = [...rowTemplate.content.querySelectorAll("option[data-synonyms]")].map((option) => ({
  field: option.value.split("=")[1],
  words: option.textContent,
  synonyms: option.dataset.synonyms.split(" ").filter(Boolean),
}));
const known = new Map(targets.flatMap(({ field, synonyms }) => [field, ...synonyms].map((name) => [name, field])));
const wordsOf = new Map(targets.map(({ field, words }) => [field, words]));
const textNames = new Set(fieldset.dataset.text.split(" "));
const unneededNames = new Set(fieldset.dataset.unneeded.split(" "));
const uncachedNames = new Set(fieldset.dataset.uncached.split(" "));

export function plain(name) {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");
}

export class Columns {
  problem = "";
  #header = null;
  #chosen = []; // per column a field, "" to drop it, null if nothing is chosen
  #isForeign = false;
  #matchesExports = false; // if the service couldn't read an export as it is

  constructor(required) {
    this.required = required;
  }

  get provider() {
    return this.#isForeign ? providers.value : "";
  }

  // The parts of an upload: none for a file with our own names.
  get parts() {
    if (!this.#isForeign) return [];
    const mapped = this.#chosen.map((field, index) => ["map", `#${index + 1}=${field}`]);
    return this.provider ? [...mapped, ["provider", this.provider]] : mapped;
  }

  countKnown(cells) {
    const count = cells.filter((cell) => known.has(plain(cell))).length;
    return this.isExport(cells.map((cell) => cell.trim())) ? count + 2 : count;
  }

  // The fields of a header; a new header gets a proposal, the same one keeps what was chosen.
  mapHeader(header) {
    const isNew = this.#header?.join("\n") !== header.join("\n");
    if (isNew) this.#start(header);
    this.problem = this.#isForeign ? this.#findProblem() : "";
    return this.#chosen.map((field) => field ?? "");
  }

  // An export of a tool that the service reads needs no mapping.
  isExport(header) {
    return !this.#matchesExports && isExportHeader(header);
  }

  matchExports() {
    this.#matchesExports = true;
  }

  #start(header) {
    this.#header = header;
    const names = header.map((name) => name.toLowerCase());
    const isOurs = new Set(names).size === names.length && names.every((name) => wordsOf.has(name) && name !== UNCACHED);
    this.#isForeign = !isOurs || !this.required.every((name) => names.includes(name));
    this.#chosen = this.#isForeign ? propose(header) : names;
    providers.value = "";
  }

  forget() {
    this.#header = null;
    this.#isForeign = false;
    this.#matchesExports = false;
    this.problem = "";
    fieldset.hidden = true;
    tableRows.replaceChildren();
  }

  show(rows, changed) {
    fieldset.hidden = !this.#isForeign;
    if (!this.#isForeign) return;
    if (tableRows.dataset.header === this.#header.join("\n") && tableRows.children.length) return;
    tableRows.dataset.header = this.#header.join("\n");
    tableRows.replaceChildren(...this.#header.map((name, index) => this.#row(name, index, rows, changed)));
  }

  #row(name, index, rows, changed) {
    const row = rowTemplate.content.cloneNode(true).firstElementChild;
    const [heading, values, select] = [row.querySelector("th"), row.querySelector(".values-seen"), row.querySelector("select")];
    heading.id = `column-${index + 1}`;
    heading.textContent = name || `Column ${index + 1}`;
    if (textNames.has(plain(name))) heading.append(" ", small("Looks like text: drop it"));
    values.textContent = [...new Set(rows.map((cells) => shown(cells[index] ?? "")))].join(" · ");
    select.setAttribute("aria-labelledby", heading.id);
    for (const option of select.options) option.value = option.value.replace(/^#0=/, `#${index + 1}=`);
    const chosen = this.#chosen[index];
    select.value = chosen === null ? "" : `#${index + 1}=${chosen}`;
    select.addEventListener("change", () => {
      this.#chosen[index] = select.value ? select.value.split("=")[1] : null;
      changed();
    });
    return row;
  }

  #findProblem() {
    const open = this.#header.filter((_, index) => this.#chosen[index] === null);
    if (open.length) return `Choose what these columns are, or drop them: ${list(open)}.`;
    const text = this.#header.find((name, index) => textNames.has(plain(name)) && LABELS.has(this.#chosen[index]));
    if (text !== undefined) return `The column ${list([text])} holds text, which we never accept. Drop it.`;
    const fields = this.#chosen.filter(Boolean).map((field) => (field === UNCACHED ? "prompt_tokens" : field));
    const twice = fields.find((field, index) => fields.indexOf(field) !== index);
    if (twice) return `Two columns are “${wordsOf.get(twice)}”. Keep one and drop the other.`;
    if (this.provider && fields.includes("provider")) return "A column has the model provider: choose “Given by a column” below the table.";
    const missing = this.required.filter((name) => !fields.includes(name) && !(name === "provider" && this.provider));
    if (missing.includes("provider") && missing.length === 1) return "No column is the model provider. Choose the provider of every call below the table.";
    return missing.length ? `No column is ${list(missing.map((name) => wordsOf.get(name)))}.` : "";
  }
}

export function isTextColumn(name) {
  return textNames.has(plain(name));
}

function propose(header) {
  const names = header.map(plain);
  const chosen = names.map((name) => (unneededNames.has(name) ? "" : null)); // costs and addresses: dropped
  for (const { field, synonyms } of targets) {
    if (field === UNCACHED) continue;
    const name = [field, ...synonyms].find((each) => names.includes(each));
    if (name !== undefined && chosen[names.indexOf(name)] === null) chosen[names.indexOf(name)] = field;
  }
  if (!names.some((name) => uncachedNames.has(name))) return chosen;
  return chosen.map((field, index) => (field === "prompt_tokens" && names[index].includes("input") ? UNCACHED : field));
}

// Numbers, times and short names; of anything longer only its length.
function shown(cell) {
  const text = cell.trim();
  if (!text) return "–";
  const isPlain = text !== "" && (!Number.isNaN(Number(text)) || timeOf(text) !== null || !/\s/.test(text));
  return isPlain && text.length <= LONGEST_SHOWN ? text : `text, ${text.length.toLocaleString("en")} characters`;
}

function small(words) {
  const element = document.createElement("small");
  element.className = "quiet";
  element.textContent = words;
  return element;
}

export function list(names) {
  const shownNames = names.slice(0, 8).map((name) => `“${name.slice(0, 40)}”`);
  return shownNames.join(", ") + (names.length > 8 ? " and more" : "");
}

export function whenProviderChanges(changed) {
  providers.addEventListener("change", changed);
}
