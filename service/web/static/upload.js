// Upload a file with progress, and check its first lines before sending.
"use strict";

const form = document.querySelector("#upload");
const input = document.querySelector("#file");
const preview = document.querySelector("#preview");
const sending = document.querySelector("#sending");
const bar = document.querySelector("#sent");
const statusLine = document.querySelector("#upload-status");
const problem = document.querySelector("#upload-problem");
const sendButton = document.querySelector("#send");
const cancelButton = document.querySelector("#cancel");
const dropzone = document.querySelector("#dropzone");
const label = document.querySelector("#label");
const useName = document.querySelector("#use-name");

const HEAD_BYTES = 65536;
const LINES = 50;
const TEXT_KEYS = new Set([
  "messages", "message", "content", "choices", "prompt", "completion", "input", "output", "text",
  "system", "instructions", "tools", "arguments", "delta", "reasoning",
]);
const OPENAI_COUNTS = ["prompt_tokens", "completion_tokens", "total_tokens", "input_tokens_details"];
const ANTHROPIC_COUNTS = ["cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"];

let key = null; // one per chosen file, so that a repeated upload uses one credit
let request = null; // the upload in progress, if any

// --- Check the first lines of a file

async function readHead(file) {
  const packed = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const isPacked = packed[0] === 0x1f && packed[1] === 0x8b;
  if (!isPacked) {
    const head = await file.slice(0, HEAD_BYTES).arrayBuffer();
    return { text: new TextDecoder(encodingOf(packed)).decode(head), isWhole: file.size <= HEAD_BYTES };
  }
  if (!("DecompressionStream" in window)) return null;
  return { text: await unpackHead(file), isWhole: false };
}

function encodingOf([first, second]) {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}

function columnsOf(head, known) {
  const line = head.split("\n", 1)[0];
  const splits = [",", "\t", ";"].map((delimiter) =>
    line.split(delimiter).map((cell) => cell.trim().replace(/^"|"$/g, "").toLowerCase()));
  return splits.find((columns) => columns.filter((name) => known.has(name)).length >= 2);
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
  if (isWhole && !text.trim()) return warn("This file is empty.");
  const head = text.trimStart();
  const known = new Set(form.dataset.fields.split(" "));
  const columns = columnsOf(head, known);
  if (columns) return describeColumns(columns, known);
  if (head.startsWith("[")) return describeText("a JSON array", textKeys(head));
  const lines = head.split("\n");
  if (!isWhole) lines.pop();
  return describeLines(lines.filter((line) => line.trim()).slice(0, LINES));
}

function describeColumns(columns, known) {
  const unknown = columns.filter((name) => !known.has(name));
  if (unknown.length) {
    return warn(`This CSV has columns we don't accept: ${list(unknown)}. Remove them before you upload.`);
  }
  const missing = form.dataset.required.split(" ").filter((name) => !columns.includes(name));
  if (missing.length) return warn(`This CSV is missing required columns: ${list(missing)}.`);
  return note("CSV with valid columns.");
}

function describeLines(lines) {
  const documents = [];
  for (const [index, line] of lines.entries()) {
    let document;
    try {
      document = JSON.parse(line);
    } catch {
      continue;
    }
    if (!document || typeof document !== "object" || Array.isArray(document)) continue;
    const found = findText(document);
    if (found) return warn(textWarning(`Line ${index + 1}`, [found]));
    documents.push(document);
  }
  if (!documents.length) {
    return warn("We don't recognize this format. See the supported formats below.");
  }
  return note(`${providerOf(documents)}-style JSON Lines. No text found in the first ${counted(lines.length, "line")}.`);
}

function describeText(what, found) {
  return found.length ? warn(textWarning("This file", found)) : note(`This is ${what}. No text found at the beginning.`);
}

function textWarning(where, names) {
  return `${where} contains text in ${list(names)}. We reject any file that contains text. Remove it, or run tallystick scrub first.`;
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

function providerOf(documents) {
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
  return shown.join(", ") + (names.length > 8 ? " and more" : "");
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function note(words) {
  return { kind: "note", words };
}

function warn(words) {
  return { kind: "warning", words };
}

async function check(file) {
  let result;
  try {
    const head = await readHead(file);
    result = head ? describe(head) : note("Compressed file. We check it after the upload.");
  } catch {
    result = warn("We couldn't read or decompress this file.");
  }
  if (file !== input.files[0]) return; // the selection has changed
  if (file.size > Number(form.dataset.maxBytes)) {
    result = warn(`This file exceeds the limit of ${fileSize(Number(form.dataset.maxBytes))}. Split it into smaller files.`);
  }
  preview.className = result.kind;
  preview.textContent = `${file.name}, ${fileSize(file.size)}. ${result.words}`;
}

function fileSize(bytes) {
  if (bytes < 1024) return counted(bytes, "byte");
  if (bytes < 1048576) return `${Math.round(bytes / 1024).toLocaleString("en")} KB`;
  return `${(bytes / 1048576).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
}

// --- Choose a file

function chosen() {
  const file = input.files[0];
  key = file ? crypto.randomUUID() : null;
  hideProblem();
  statusLine.textContent = "";
  if (file) check(file);
  else preview.replaceChildren();
  offerName(file);
}

// The file's name is sent only if its owner puts it into the label.
function offerName(file) {
  useName.hidden = !file;
  if (file) useName.textContent = `Use “${nameOf(file)}”`;
}

function nameOf(file) {
  return [...file.name].slice(0, label.maxLength).join("");
}

function useFileName() {
  label.value = nameOf(input.files[0]);
  label.focus();
}

function drop(event) {
  event.preventDefault();
  dropzone.classList.remove("over");
  const files = event.dataTransfer.files;
  if (request) return;
  if (files.length !== 1) {
    showProblem(["Drop only one file at a time."]);
    return;
  }
  input.files = files;
  chosen();
}

// --- Send it

function send(event) {
  event.preventDefault();
  const file = input.files[0];
  if (request || !file) return;
  hideProblem();
  const body = new FormData();
  if (label.value.trim()) body.append("label", label.value);
  body.append("file", file);
  request = new XMLHttpRequest();
  request.open("POST", form.dataset.endpoint);
  request.responseType = "json";
  request.setRequestHeader("Idempotency-Key", key);
  request.upload.addEventListener("progress", showProgress);
  request.addEventListener("load", () => answered(request));
  request.addEventListener("error", () => ended(["The connection was lost.", "Try again. You won't be charged twice."]));
  request.addEventListener("abort", () => ended([], "Canceled."));
  request.send(body);
  setSending(true);
  say(`Uploading ${file.name}.`);
}

function showProgress(event) {
  if (!event.lengthComputable || !request) return;
  const part = Math.floor((event.loaded / event.total) * 100);
  bar.value = part;
  bar.textContent = `${part}%`;
  document.querySelector("#sent-words").textContent = `${part}% of ${fileSize(event.total)}`;
  if (part >= 100) say("Uploaded. Checking every line.");
  else if (part >= 75) say("75% uploaded.");
  else if (part >= 50) say("50% uploaded.");
  else if (part >= 25) say("25% uploaded.");
}

function answered({ status, response }) {
  const audit = response?.audit_id;
  if (status < 300 && audit) {
    say("Accepted. Opening your audit.");
    location.assign(`/audits/${encodeURIComponent(audit)}`);
    return;
  }
  const error = response?.error ?? {};
  const lines = [error.message ?? `The server responded with status ${status}.`, ...advise(status)];
  if (status === 402) offer(error.payment_links ?? []);
  ended(lines, "Upload rejected.");
  if (status === 401) problem.append(link("/sign-in?next=/upload", "Sign in again"));
}

function advise(status) {
  if (status === 413 || status === 422) return ["Nothing was stored and no credit was used."];
  if (status === 402) return ["Buy a credit below, then upload again."];
  if (status === 429) return [`Try again in ${request.getResponseHeader("Retry-After") ?? "60"} seconds.`];
  if (status >= 500) return ["Try again in a moment. You won't be charged twice."];
  return [];
}

function ended(lines, words = "Upload failed.") {
  request = null;
  setSending(false);
  statusLine.textContent = words;
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
  if (statusLine.textContent !== words) statusLine.textContent = words;
}

// --- Show messages

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

// Show the payment links of the error response.
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
useName.addEventListener("click", useFileName);
form.addEventListener("submit", send);
cancelButton.addEventListener("click", () => request?.abort());
// A file dropped elsewhere would replace the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
dropzone.addEventListener("dragover", () => dropzone.classList.add("over"));
dropzone.addEventListener("dragleave", () => dropzone.classList.remove("over"));
dropzone.addEventListener("drop", drop);
// The browser may restore this page from its cache after going back.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
if (input.files.length) chosen();
