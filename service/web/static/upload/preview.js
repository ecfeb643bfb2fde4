// The preview of the chosen file: nothing of it is sent before its owner says so.

import { Columns, whenProviderChanges } from "./columns.js";
import { summarize } from "./summary.js";

const form = document.querySelector("#upload");
const preview = document.querySelector("#preview");
const figures = document.querySelector("#figures");
const sendButton = document.querySelector("#send");
const whyOff = document.querySelector("#why-off");
const withoutCredits = whyOff.textContent;
const sendWords = sendButton.textContent;
const maxBytes = Number(form.dataset.maxBytes);
const columns = new Columns(form.dataset.required.split(" "));
const LARGE = 8 << 20;
const DAY = { year: "numeric", month: "short", day: "numeric", timeZone: "UTC" };

let current = null; // the file that is shown

export function uploadParts() {
  return columns.parts;
}

export function isRejected() {
  return sendButton.disabled;
}

// After the service rejected the file: its columns may need to be matched after all.
export function matchColumns() {
  columns.matchExports();
  if (current) refresh();
}

export async function showFile(file) {
  current = file ?? null;
  columns.forget();
  figures.hidden = true;
  setRejected("");
  preview.replaceChildren();
  if (!file) return;
  if (file.size > maxBytes) {
    say(file, `This file exceeds the limit of ${fileSize(maxBytes)}. Split it into smaller files.`, true);
    return;
  }
  say(file, "Reading it on your device.", false);
  await refresh();
}

let reading = 0; // a later change makes an earlier reading stop

async function refresh() {
  const file = current;
  const turn = ++reading;
  const isCurrent = () => turn === reading && file === current;
  let summary;
  try {
    const advance = (part) => isCurrent() && showProgress(file, part);
    summary = await summarize(file, { columns, maxBytes, isCurrent, advance });
  } catch {
    if (isCurrent()) say(file, "We couldn't read this file.", true);
    return;
  }
  if (!isCurrent()) return;
  if (summary.header && !summary.note) columns.show(summary.rows, refresh);
  if (summary.report) {
    sayReport(file, summary.report);
    return;
  }
  const matching = summary.unmatched && "Match its columns below.";
  say(file, summary.problem || matching || summary.note || "No text found.", Boolean(summary.problem));
  if (summary.unmatched && !summary.problem) setRejected(summary.unmatched);
  showFigures(summary);
}

// A quarter at a time, because a screen reader says it.
function showProgress(file, part) {
  const percent = Math.floor(part * 4) * 25;
  if (file.size > LARGE && percent && percent < 100) say(file, `Reading it on your device: ${percent}%.`, false);
}

function say(file, words, isProblem) {
  preview.className = isProblem ? "warning" : "note";
  preview.textContent = `${file.name}, ${fileSize(file.size)}. ${words}`;
  setRejected("", isProblem);
}

// A provider's report takes no credit: the form sends it as what it is.
function sayReport(file, what) {
  say(file, `This is ${what}: totals, which we compare with your calls on the page Bill. No credit is used.`, false);
  form.dataset.kind = "report";
  sendButton.disabled = false;
  sendButton.textContent = "Upload report";
  whyOff.textContent = "";
}

// What is wrong with the file is above; what is left to do about its columns is at the button.
function setRejected(words, isRejected = Boolean(words)) {
  delete form.dataset.kind;
  sendButton.textContent = sendWords;
  sendButton.disabled = isRejected || Boolean(withoutCredits);
  whyOff.textContent = words || withoutCredits;
}

function showFigures(summary) {
  figures.hidden = !summary.calls;
  if (!summary.calls) return;
  const left = summary.invalid ? [`${counted(summary.invalid, "row")} can't be read`] : [];
  if (summary.duplicates) left.push(`${counted(summary.duplicates, "duplicate row")} not counted`);
  const values = {
    format: [summary.format, ""],
    period: [period(summary.first, summary.last), ""],
    calls: [summary.calls.toLocaleString("en"), left.join("; ")],
    tokens: [summary.tokens.toLocaleString("en"), ""],
  };
  for (const [name, [value, aside]] of Object.entries(values)) {
    const [shown, note] = figures.querySelectorAll(`[data-figure=${name}] dd`);
    shown.textContent = value;
    note.textContent = aside;
  }
}

function period(first, last) {
  const [from, until] = [first, last].map((time) => new Date(time).toLocaleDateString("en-US", DAY));
  return from === until ? from : `${from} to ${until}`;
}

export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export function fileSize(bytes) {
  if (bytes < 1024) return counted(bytes, "byte");
  if (bytes < 1048576) return `${Math.round(bytes / 1024).toLocaleString("en")} KB`;
  return `${(bytes / 1048576).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
}

whenProviderChanges(() => current && refresh());
