// Choose a file, preview it, and upload it with progress.

const form = document.querySelector("#upload");
const input = document.querySelector("#file");
const sending = document.querySelector("#sending");
const bar = document.querySelector("#sent");
const statusLine = document.querySelector("#upload-status");
const problem = document.querySelector("#upload-problem");
const sendButton = document.querySelector("#send");
const cancelButton = document.querySelector("#cancel");
const dropzone = document.querySelector("#dropzone");
const label = document.querySelector("#label");
const useName = document.querySelector("#use-name");

let key = null; // one per chosen file, so that a repeated upload uses one credit
let request = null; // the upload in progress, if any
let preview = null; // what reads files, six modules that load with the first file

async function loadPreview() {
  preview ??= await import("./upload/preview.js");
  return preview;
}

// --- Choose a file

function chosen() {
  const file = input.files[0];
  key = file ? crypto.randomUUID() : null;
  hideProblem();
  statusLine.textContent = "";
  offerName(file);
  const show = (loaded) => input.files[0] === file && loaded.showFile(file);
  loadPreview().then(show, () => showProblem(["We couldn't load the preview.", "Reload this page and try again."]));
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

async function send(event) {
  if (form.dataset.kind) {
    form.action = `${location.pathname}?kind=${form.dataset.kind}`;
    return; // sent as a form, whose answer is another page
  }
  event.preventDefault();
  const file = input.files[0];
  const { isRejected, uploadParts } = await loadPreview();
  if (request || !file || isRejected()) return;
  hideProblem();
  const body = new FormData();
  if (label.value.trim()) body.append("label", label.value);
  for (const [name, value] of uploadParts()) body.append(name, value);
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
  document.querySelector("#sent-words").textContent = `${part}% of ${preview.fileSize(event.total)}`;
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
  if (status === 422) preview.matchColumns();
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
