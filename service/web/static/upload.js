// Sending a file with its progress, and a look at its beginning before anything is sent.
"use strict";

const form = document.querySelector("#upload");
const input = document.querySelector("#file");
const preview = document.querySelector("#preview");
const sending = document.querySelector("#sending");
const bar = document.querySelector("#sent");
const said = document.querySelector("#upload-status");
const problem = document.querySelector("#upload-problem");
const sendButton = document.querySelector("#send");
const cancelButton = document.querySelector("#cancel");
const dropzone = document.querySelector("#dropzone");

const HEAD_BYTES = 65536;
const LINES = 50;
const TEXT_KEYS = new Set([
  "messages", "message", "content", "choices", "prompt", "completion", "input", "output", "text",
  "system", "instructions", "tools", "arguments", "delta", "reasoning",
]);
const OPENAI_COUNTS = ["prompt_tokens", "completion_tokens", "total_tokens", "input_tokens_details"];
const ANTHROPIC_COUNTS = ["cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"];

let key = null; // one a chosen file: whatever is sent twice under it takes one credit
let request = null; // what is on its way; nothing else is sent meanwhile

// --- What the beginning of a file tells

async function readHead(file) {
  const packed = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const isPacked = packed[0] === 0x1f && packed[1] === 0x8b;
  if (!isPacked) {
    return { text: await file.slice(0, HEAD_BYTES).text(), isWhole: file.size <= HEAD_BYTES };
  }
  if (!("DecompressionStream" in window)) return null;
  return { text: await unpackHead(file), isWhole: false };
}

async function unpackHead(file) {
  const reader = file.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (text.length < HEAD_BYTES) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  reader.cancel().catch(() => {});
  return text;
}

function describe({ text, isWhole }) {
  const head = text.trimStart();
  const columns = head.split("\n", 1)[0].split(",").map((cell) => cell.trim().replace(/^"|"$/g, "").toLowerCase());
  const known = new Set(form.dataset.fields.split(" "));
  if (columns.filter((name) => known.has(name)).length >= 2) return describeColumns(columns, known);
  if (head.startsWith("[")) return describeText("one JSON array", textKeys(head));
  const lines = head.split("\n");
  if (!isWhole) lines.pop();
  return describeLines(lines.filter((line) => line.trim()).slice(0, LINES));
}

function describeColumns(columns, known) {
  const strange = columns.filter((name) => !known.has(name));
  if (strange.length) {
    return warn(`This is CSV, but these columns are not taken, so it would be refused: ${list(strange)}.`);
  }
  const missing = form.dataset.required.split(" ").filter((name) => !columns.includes(name));
  if (missing.length) return warn(`This is CSV, but its header lacks ${list(missing)}, so it would be refused.`);
  return note("CSV with the right column names.");
}

function describeLines(lines) {
  const documents = [];
  for (const [place, line] of lines.entries()) {
    let document;
    try {
      document = JSON.parse(line);
    } catch {
      continue;
    }
    if (!document || typeof document !== "object" || Array.isArray(document)) continue;
    const found = findText(document);
    if (found) return warn(textWarning(`Line ${place + 1}`, [found]));
    documents.push(document);
  }
  if (!documents.length) {
    return warn("This looks like none of the formats below, so it would be refused.");
  }
  return note(`${vendorOf(documents)}-style JSON Lines; no text in the first ${lines.length} lines.`);
}

function describeText(what, found) {
  return found.length ? warn(textWarning(`The file`, found)) : note(`It begins as ${what}, without text.`);
}

function textWarning(where, names) {
  return `${where} has the field ${list(names)}. Text is never accepted, so the file would be refused. Take it out first.`;
}

function textKeys(head) {
  const names = [...head.matchAll(/"([a-z_]+)"\s*:/g)].map((match) => match[1]);
  return [...new Set(names.filter((name) => TEXT_KEYS.has(name)))];
}

function findText(value, depth = 0) {
  if (!value || typeof value !== "object" || depth > 4) return null;
  for (const [name, inner] of Object.entries(value)) {
    if (!Array.isArray(value) && TEXT_KEYS.has(name)) return name;
    const found = findText(inner, depth + 1);
    if (found) return found;
  }
  return null;
}

function vendorOf(documents) {
  for (const document of documents) {
    const body = document.response ?? document;
    const counts = Object.keys(body.usage ?? {});
    if (counts.some((name) => OPENAI_COUNTS.includes(name)) || body.object) return "OpenAI";
    if (counts.some((name) => ANTHROPIC_COUNTS.includes(name)) || body.type === "message") return "Anthropic";
    if (String(body.model ?? "").startsWith("claude")) return "Anthropic";
  }
  return "OpenAI";
}

function list(names) {
  const shown = names.slice(0, 8).map((name) => `“${name.slice(0, 40)}”`);
  return shown.join(", ") + (names.length > 8 ? " and others" : "");
}

function note(words) {
  return { kind: "note", words };
}

function warn(words) {
  return { kind: "warning", words };
}

async function look(file) {
  let told;
  try {
    const head = await readHead(file);
    told = head ? describe(head) : note("A packed file: it is looked at once it is sent.");
  } catch {
    told = warn("This file cannot be read or unpacked here.");
  }
  if (file !== input.files[0]) return; // another one was chosen meanwhile
  if (file.size > Number(form.dataset.maxBytes)) {
    told = warn(`This file is larger than ${megabytes(Number(form.dataset.maxBytes))}, so it would be refused. Pack it with gzip, or split it.`);
  }
  preview.className = told.kind;
  preview.textContent = `${file.name}, ${megabytes(file.size)}. ${told.words}`;
}

function megabytes(bytes) {
  return bytes < 1048576 ? `${Math.max(1, Math.round(bytes / 1024)).toLocaleString("en")} KB` : `${(bytes / 1048576).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
}

// --- Choosing

function chosen() {
  const file = input.files[0];
  key = file ? crypto.randomUUID() : null;
  hideProblem();
  said.textContent = "";
  if (file) look(file);
  else preview.replaceChildren();
}

function drop(event) {
  event.preventDefault();
  dropzone.classList.remove("over");
  const files = event.dataTransfer.files;
  if (request) return;
  if (files.length !== 1) {
    showProblem(["Drop one file at a time."]);
    return;
  }
  input.files = files;
  chosen();
}

// --- Sending

function send(event) {
  event.preventDefault();
  const file = input.files[0];
  if (request || !file) return;
  hideProblem();
  const body = new FormData();
  body.append("file", file);
  request = new XMLHttpRequest();
  request.open("POST", form.dataset.endpoint);
  request.responseType = "json";
  request.setRequestHeader("Idempotency-Key", key);
  request.upload.addEventListener("progress", showProgress);
  request.addEventListener("load", () => answered(request));
  request.addEventListener("error", () => ended(["The connection broke off.", "Send it again: what arrived twice takes one credit."]));
  request.addEventListener("abort", () => ended([], "Cancelled."));
  request.send(body);
  setSending(true);
  say(`Sending ${file.name}.`);
}

function showProgress(event) {
  if (!event.lengthComputable || !request) return;
  const part = Math.floor((event.loaded / event.total) * 100);
  bar.value = part;
  bar.textContent = `${part} %`;
  document.querySelector("#sent-words").textContent = `${part} % of ${megabytes(event.total)}`;
  if (part >= 100) say("Sent. Every line is being checked.");
  else if (part >= 75) say("Three quarters sent.");
  else if (part >= 50) say("Half sent.");
  else if (part >= 25) say("A quarter sent.");
}

function answered({ status, response }) {
  const audit = response?.audit_id;
  if (status < 300 && audit) {
    say("Accepted. Its audit opens now.");
    location.assign(`/audits/${encodeURIComponent(audit)}`);
    return;
  }
  const error = response?.error ?? {};
  const lines = [error.message ?? `The server answered with status ${status}.`, ...advise(status)];
  if (status === 402) offer(error.payment_links ?? []);
  ended(lines, "Not accepted.");
  if (status === 401) problem.append(link("/sign-in?next=/upload", "Sign in again"));
}

function advise(status) {
  if (status === 413 || status === 422) return ["Nothing was stored, and no credit was used."];
  if (status === 402) return ["Buy one below, then send the file again."];
  if (status === 429) return [`Try again in ${request.getResponseHeader("Retry-After") ?? "60"} seconds.`];
  if (status >= 500) return ["Send it again in a moment: what arrived twice takes one credit."];
  return [];
}

function ended(lines, words = "Not sent.") {
  request = null;
  setSending(false);
  said.textContent = words;
  if (lines.length) showProblem(lines);
}

function setSending(isSending) {
  sending.hidden = !isSending;
  cancelButton.hidden = !isSending;
  sendButton.setAttribute("aria-disabled", String(isSending));
  input.disabled = isSending;
  bar.value = 0;
}

function say(words) {
  if (said.textContent !== words) said.textContent = words;
}

// --- Telling

function showProblem(lines) {
  problem.replaceChildren(...lines.map(paragraph));
  problem.hidden = false;
  problem.scrollIntoView({ block: "nearest" });
}

function hideProblem() {
  problem.hidden = true;
  problem.replaceChildren();
}

function paragraph(words) {
  const element = document.createElement("p");
  element.textContent = words;
  return element;
}

function link(address, words) {
  const element = document.createElement("a");
  element.href = address;
  element.textContent = words;
  return element;
}

// The way to pay, as the refusal told it.
function offer(links) {
  const safe = links.filter(({ url }) => String(url).startsWith("https://"));
  const buttons = safe.map(({ provider, url }) => {
    const button = link(url, `Buy with ${provider.charAt(0).toUpperCase()}${provider.slice(1)}`);
    button.setAttribute("role", "button");
    return button;
  });
  document.querySelector("#buy-links").replaceChildren(...buttons);
  document.querySelector("#buy-offer").hidden = !buttons.length;
  document.querySelector("#buy-nowhere").hidden = buttons.length > 0;
  document.querySelector("#buy").hidden = false;
}

input.addEventListener("change", chosen);
form.addEventListener("submit", send);
cancelButton.addEventListener("click", () => request?.abort());
// Elsewhere on the page a dropped file would replace it.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
dropzone.addEventListener("dragover", () => dropzone.classList.add("over"));
dropzone.addEventListener("dragleave", () => dropzone.classList.remove("over"));
dropzone.addEventListener("drop", drop);
// Back from the audit's page, a browser may show this one as it was left.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
if (input.files.length) chosen();
