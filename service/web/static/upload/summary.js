// What a file holds: its format, period, calls and tokens, and why it would be rejected.

import { findTotals, findUnknown, isExport } from "./allowlists.js";
import { callOf, callOfRow, findText, hasOtherUsage, isEmpty, isObject, isTextKey, styleOf } from "./calls.js";
import { isTextColumn } from "./columns.js";
import { Elements, Lines, Rows, Unreadable, Whole, cellsOf, readText, sniff } from "./reading.js";

const SHOWN_ROWS = 3;
const REMEDY = "Remove it, or run tallystick scrub first.";
const TEXT = `We reject any file that contains text. ${REMEDY}`;
const EXPORT = "We read this tool's exports. We check every row after the upload, before a credit is used.";
const NO_PREVIEW = "We can't preview this format. We check it after the upload, before a credit is used.";
const DELIMITERS = [",", "\t", ";"];

class Summary {
  format = "";
  calls = 0;
  invalid = 0;
  first = Infinity;
  last = -Infinity;
  tokens = 0;
  duplicates = 0;
  problem = ""; // why the service would reject the file
  report = ""; // what the file is, if it can be compared with a bill instead
  unmatched = ""; // what to do about its columns first
  note = ""; // what the preview can't show
  header = null; // of a CSV
  rows = []; // the first of a CSV
  #seen = new Set(); // hashes of the calls with a request ID

  add(call) {
    if (!call) {
      this.invalid++;
      return;
    }
    if (this.#isDuplicate(call)) {
      this.duplicates++;
      return;
    }
    this.calls++;
    this.first = Math.min(this.first, call.time);
    this.last = Math.max(this.last, call.time);
    this.tokens += call.prompt + call.completion;
  }

  // Stop at a file of totals, which has no calls.
  refuseTotals(names) {
    const totals = findTotals(names);
    if (!totals) return;
    this.report = totals.report;
    throw new Unreadable(totals.refusal);
  }

  // An audit counts a call with the same request ID and counts once.
  #isDuplicate(call) {
    if (!call.id) return false;
    const size = this.#seen.size;
    this.#seen.add(hashOf(Object.values(call).join(" ")));
    return this.#seen.size === size;
  }
}

// 53 bits, so that a few million calls take little memory and hardly ever collide.
function hashOf(text) {
  let [high, low] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return 4294967296 * (2097151 & low) + (high >>> 0);
}

const UNUSUAL = "We can't preview some of its calls. We read them after the upload.";
const UNPREVIEWED = "We can't preview this compressed file. We check it after the upload.";

// Read the whole file. `columns` has the header's names and returns its mapping; see columns.js.
export async function summarize(file, { columns, maxBytes, isCurrent, advance }) {
  const summary = new Summary();
  const kind = await sniff(file);
  if (kind.isParquet) {
    summary.problem = "Parquet files can't be uploaded. Export the file as CSV, or run tallystick audit on it.";
    return summary;
  }
  if (kind.isPacked) {
    summary.note = UNPREVIEWED;
    return summary;
  }
  const check = (size) => {
    if (!isCurrent()) throw new Unreadable("");
    if (size > maxBytes) throw new Unreadable("This file is too large once it is decompressed. Split it into smaller files.");
    if (!kind.isGzip) advance(size / file.size);
  };
  try {
    await readAll(readText(file, kind, check), summary, columns);
  } catch (error) {
    if (error instanceof Unreadable) summary.problem = error.message;
    else if (kind.isGzip) summary.note = UNPREVIEWED;
    else throw error;
  }
  return finish(summary, kind);
}

function finish(summary, { isGzip }) {
  if (isGzip && summary.format) summary.format += ", gzip";
  const isUnread = !summary.problem && !summary.unmatched && !summary.note;
  if (isUnread && summary.invalid > summary.calls) {
    summary.problem = "Fewer than half of the rows could be read. Check their times, models and token counts.";
  }
  return summary;
}

async function readAll(texts, summary, columns) {
  let reader = null;
  let begin = "";
  for await (const text of texts) {
    if (reader) {
      reader.take(text);
      continue;
    }
    begin = (begin + text).trimStart();
    if (!begin.includes("\n") && !begin.startsWith("[")) continue; // at least a whole line
    reader = readerOf(begin, summary, columns);
    reader.take(begin);
  }
  if (!begin) throw new Unreadable("This file is empty.");
  if (!reader) {
    reader = readerOf(begin, summary, columns);
    reader.take(begin);
  }
  reader.end();
}

function readerOf(begin, summary, columns) {
  if (begin.startsWith("[")) return new ObjectReader(new Elements(), summary, "Object", "JSON array");
  if (/^\{\s*\n/.test(begin)) return new WholeReader(new Whole(), summary, "Object", "JSON");
  if (begin.startsWith("{")) return new ObjectReader(new Lines(), summary, "Line", "JSON Lines");
  const line = begin.split("\n", 1)[0].replace(/\r$/, "");
  const headers = DELIMITERS.map((delimiter) => cellsOf(line, delimiter));
  const counts = headers.map((cells) => columns.countKnown(cells));
  const best = counts.indexOf(Math.max(...counts));
  if (counts[best] < 2) throw new Unreadable("We don't recognize this format. See the supported formats below.");
  return new RowReader(DELIMITERS[best], summary, columns);
}

// Objects of a log. The dialect of a file is that of its first object with counts.
class ObjectReader {
  takesCalls = true;
  #number = 0;
  #style = null;
  #isExport = false;

  constructor(pieces, summary, unit, container) {
    Object.assign(this, { pieces, summary, unit, container });
    summary.format = container;
  }

  take(text) {
    for (const piece of this.pieces.take(text)) this.#read(piece);
  }

  end() {
    for (const piece of this.pieces.end()) this.#read(piece);
    if (!this.#number) throw new Unreadable("This file is empty.");
    const { summary } = this;
    if (this.#isExport) summary.note = EXPORT;
    if (this.#style || this.#isExport || summary.problem) return;
    if (summary.invalid === this.#number || !this.takesCalls) throw new Unreadable("We don't recognize this format. See the supported formats below.");
    summary.note = NO_PREVIEW;
  }

  #read(piece) {
    this.#number++;
    if (!piece.trim()) return;
    let document = null;
    try {
      document = JSON.parse(piece);
    } catch {
      // not JSON: an invalid row
    }
    if (isObject(document)) this.#take(document);
    else this.summary.invalid++;
  }

  #take(document) {
    this.summary.refuseTotals(Object.keys(document));
    const style = this.takesCalls ? styleOf(document) : null;
    const unknown = style ? findUnknown(document, style) : "";
    if (unknown === null && !this.#isExport) {
      if (!this.#style) this.#begin(style);
      const call = callOf(document, this.#style);
      if (!call && hasOtherUsage(document)) this.summary.note = UNUSUAL;
      else this.summary.add(call);
    } else if (this.#isExport || (!this.#style && isExport(document))) {
      this.#isExport = true;
      this.#checkText(document);
    } else {
      this.#refuse(document, style, unknown);
    }
  }

  // An object that is neither of our own formats nor of a tool's that we read.
  #refuse(document, style, unknown) {
    const where = `${this.unit} ${this.#number}`;
    if (unknown && isTextKey(unknown)) throw new Unreadable(`${where} contains text in “${unknown}”. ${TEXT}`);
    this.#checkText(document);
    if (unknown) throw new Unreadable(`${where} has a field that we don't accept: “${unknown}”. ${REMEDY}`);
    if (this.#style) this.summary.add(null);
  }

  #checkText(document) {
    const text = findText(document);
    if (text) throw new Unreadable(`${this.unit} ${this.#number} contains text in “${text}”. ${TEXT}`);
  }

  #begin(style) {
    if (style) {
      this.#style = style;
      this.summary.format = style === "records" ? `Usage records, ${this.container}` : `${style}-style ${this.container}`;
    }
  }
}

// One object over several lines, which only tools write: a session, or the answer of an API.
class WholeReader extends ObjectReader {
  takesCalls = false;
}

// Rows of a CSV, under a header that is mapped.
class RowReader {
  #fields = null;
  #isExport = false;

  constructor(delimiter, summary, columns) {
    Object.assign(this, { pieces: new Rows(delimiter), summary, columns });
    summary.format = "CSV";
  }

  take(text) {
    for (const row of this.pieces.take(text)) this.#read(row);
  }

  end() {
    for (const row of this.pieces.end()) this.#read(row);
    if (!this.summary.calls && !this.summary.invalid && !this.summary.unmatched && !this.#isExport) {
      this.summary.problem = "This CSV has no rows.";
    }
  }

  #read(row) {
    const { summary, columns } = this;
    if (!this.#fields) {
      summary.header = row.map((cell) => cell.trim());
      summary.refuseTotals(summary.header);
      this.#isExport = columns.isExport(summary.header);
      if (this.#isExport) {
        this.#fields = [];
        summary.note = EXPORT;
        return;
      }
      this.#fields = columns.mapHeader(summary.header);
      summary.unmatched = columns.problem;
      return;
    }
    if (this.#isExport) {
      this.#checkText(row);
      return;
    }
    if (summary.rows.length < SHOWN_ROWS) summary.rows.push(row);
    summary.add(callOfRow(row, this.#fields, columns.provider));
  }

  #checkText(row) {
    const isText = (name, index) => isTextColumn(name) && name !== "metadata" && !isEmpty(row[index] ?? "");
    const name = this.summary.header.find(isText);
    if (name !== undefined) throw new Unreadable(`The column “${name}” contains text. ${TEXT}`);
  }
}
