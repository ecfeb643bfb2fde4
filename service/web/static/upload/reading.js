// Read a file piece by piece: unpacked, decoded, and split into lines, elements or rows.

const GZIP = [0x1f, 0x8b];
const PARQUET = "PAR1";
// Archives that only the service unpacks: Zstandard and ZIP.
const PACKED = ["\x28\xb5\x2f\xfd", "PK\x03\x04"];
const MAX_ROW = 1 << 20;
const MAX_DOCUMENT = 32 << 20;
const TOO_LARGE = "One JSON object can have up to 32 MiB: export one object per line.";
const INCOMPLETE = "This file starts like one JSON object over several lines, but it isn't complete JSON: export it again, one object per line if you can.";

export class Unreadable extends Error {}

// What the first bytes say about the file.
export async function sniff(file) {
  const bytes = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  return {
    isGzip: bytes[0] === GZIP[0] && bytes[1] === GZIP[1],
    isParquet: String.fromCharCode(...bytes) === PARQUET,
    isPacked: PACKED.includes(String.fromCharCode(...bytes)),
  };
}

// Yield the text of a file; `advance` receives the bytes that were unpacked so far.
export async function* readText(file, { isGzip }, advance) {
  let stream = file.stream();
  if (isGzip) stream = stream.pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.getReader();
  let decoder = null;
  let size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      decoder ??= new TextDecoder(encodingOf(value));
      size += value.length;
      advance(size);
      yield decoder.decode(value, { stream: true });
    }
    if (decoder) yield decoder.decode();
  } finally {
    reader.cancel().catch(() => {});
  }
}

function encodingOf([first, second]) {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}

// Split text into lines; the last one need not have an end.
export class Lines {
  #rest = "";

  take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    return lines;
  }

  end() {
    return this.#rest ? [this.#rest] : [];
  }
}

// Split one JSON array into its elements.
export class Elements {
  #text = "";
  #at = 0; // how far the text is read
  #begin = -1; // where the current element begins
  #depth = 0;
  #inString = false;

  take(text) {
    this.#text += text;
    const elements = [];
    for (; this.#at < this.#text.length; this.#at++) this.#step(this.#text[this.#at], elements);
    const kept = this.#begin < 0 ? this.#at : this.#begin;
    this.#text = this.#text.slice(kept);
    this.#at -= kept;
    if (this.#begin >= 0) this.#begin = 0;
    return elements;
  }

  end() {
    return this.#begin < 0 ? [] : [this.#text];
  }

  #step(char, elements) {
    if (this.#inString) {
      if (char === "\\") this.#at++;
      else if (char === '"') this.#inString = false;
    } else if (char === '"') {
      this.#inString = true;
    } else if (char === "{" || char === "[") {
      this.#depth++;
      if (this.#depth === 2) this.#begin = this.#at;
    } else if (char === "}" || char === "]") {
      if (this.#depth === 2) {
        elements.push(this.#text.slice(this.#begin, this.#at + 1));
        this.#begin = -1;
      }
      this.#depth--;
    }
  }
}

// Keep all of one JSON object, and split the page of an API's response into its objects.
export class Whole {
  #text = "";

  take(text) {
    this.#text += text;
    if (this.#text.length > MAX_DOCUMENT) throw new Unreadable(TOO_LARGE);
    return [];
  }

  end() {
    let document;
    try {
      document = JSON.parse(this.#text);
    } catch {
      throw new Unreadable(INCOMPLETE);
    }
    const isPage = Array.isArray(document.data) && !document.usage;
    return isPage ? document.data.map((item) => JSON.stringify(item)) : [this.#text];
  }
}

// Split CSV into rows of cells; a quoted cell may hold delimiters and line ends.
export class Rows {
  #lines = new Lines();
  #open = null; // a row whose quoted cell continues

  constructor(delimiter) {
    this.delimiter = delimiter;
  }

  take(text) {
    return this.#read(this.#lines.take(text));
  }

  end() {
    const rows = this.#read(this.#lines.end());
    return this.#open === null ? rows : [...rows, [this.#open]];
  }

  #read(lines) {
    const rows = [];
    for (const line of lines) {
      const whole = this.#open === null ? line : `${this.#open}\n${line}`;
      const isOpen = whole.includes('"') && whole.split('"').length % 2 === 0;
      if (isOpen && whole.length < MAX_ROW) {
        this.#open = whole;
        continue;
      }
      this.#open = null;
      if (whole.trim()) rows.push(cellsOf(whole.replace(/\r$/, ""), this.delimiter));
    }
    return rows;
  }
}

export function cellsOf(line, delimiter) {
  if (!line.includes('"')) return line.split(delimiter);
  const cells = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < line.length; at++) {
    const char = line[at];
    if (isQuoted && char === '"' && line[at + 1] === '"') cell += line[++at];
    else if (char === '"' && (isQuoted || !cell.trim())) [cell, isQuoted] = [isQuoted ? cell : "", !isQuoted];
    else if (char === delimiter && !isQuoted) {
      cells.push(cell);
      cell = "";
    } else cell += char;
  }
  return [...cells, cell];
}
