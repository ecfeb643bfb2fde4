// Calls from the objects of a log or the rows of a CSV: their time, model and counts.

const TEXT_KEYS = new Set([
  "messages", "message", "content", "choices", "prompt", "completion", "input", "output", "text",
  "system", "instructions", "tools", "arguments", "delta", "reasoning",
]);
const EMPTY = new Set(["", "{}", "[]", "null"]);
const OPENAI_COUNTS = [
  "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details",
  "completion_tokens_details", "input_tokens_details",
];
const ANTHROPIC_COUNTS = [
  "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation", "server_tool_use",
];
const FIRST_TIME = Date.UTC(2000, 0, 1);
const LAST_TIME = Date.UTC(2100, 0, 1);
const MAX_DEPTH = 8;

export function isTextKey(name) {
  return TEXT_KEYS.has(name);
}

// The key of a text in an object, at any depth; null if there is none. An object of counts may be
// called `input` or `message`; a text is in what it holds.
export function findText(value, depth = 0) {
  if (!value || typeof value !== "object" || depth > MAX_DEPTH) return null;
  for (const [name, given] of Object.entries(value)) {
    const inner = TEXT_KEYS.has(name) ? parsed(given) : given;
    if (!Array.isArray(value) && TEXT_KEYS.has(name) && !isContainer(name, inner) && !isCount(inner) && !isEmpty(inner)) return name;
    const found = findText(inner, depth + 1);
    if (found) return found;
  }
  return null;
}

// Some logs have an object as JSON text.
function parsed(value) {
  if (typeof value !== "string" || !value.startsWith("{")) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

// Sessions have their counts in a list of messages.
function isContainer(name, value) {
  return isObject(value) || (name === "messages" && Array.isArray(value) && value.every(isObject));
}

function isCount(value) {
  return typeof value === "number" || (typeof value === "string" && /^[0-9.]+$/.test(value));
}

export function isEmpty(value) {
  if (value === null || (typeof value === "string" && EMPTY.has(value.trim()))) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

// "OpenAI", "Anthropic", "records", or null for an object of another kind.
export function styleOf(document) {
  const body = bodyOf(document);
  const names = Object.keys(isObject(body.usage) ? body.usage : {});
  if (!names.length) return isRecord(document) ? "records" : null;
  if (names.some((name) => OPENAI_COUNTS.includes(name))) return "OpenAI";
  if (names.some((name) => ANTHROPIC_COUNTS.includes(name)) || body.type === "message") return "Anthropic";
  if ("object" in body || "system_fingerprint" in body) return "OpenAI";
  const labels = [body.id, body.model, document.provider].map(String);
  return labels.some((label) => /^(msg_|claude|anthropic)/.test(label)) ? "Anthropic" : "OpenAI";
}

function isRecord(document) {
  return ["model", "prompt_tokens", "completion_tokens"].every((name) => name in document);
}

function bodyOf(document) {
  return isObject(document.response) ? document.response : document;
}

export function isObject(value) {
  return Boolean(value) && typeof value === "object" && !Array.isArray(value);
}

// The call of an object, or null if a count, the model or the time is missing.
export function callOf(document, style) {
  const body = bodyOf(document);
  const usage = body.usage;
  const counts = style === "records" ? recordCounts(body) : style === "Anthropic" ? anthropicCounts(usage) : openaiCounts(usage);
  const model = body.model ?? document.request?.model;
  const time = timeOf(document.ts ?? document.created ?? body.created ?? body.created_at);
  if (time === null || typeof model !== "string" || !model) return null;
  if (!Object.values(counts).every(isWhole) || (style === "records" && !document.provider)) return null;
  const id = document.request_id ?? body.id ?? "";
  return { id, time, model, provider: String(document.provider ?? style).toLowerCase(), ...counts };
}

// Check for a usage under names of other providers, which only the service reads.
export function hasOtherUsage(document) {
  const { usage } = bodyOf(document);
  return isObject(usage) && Object.keys(usage).length > 0 && !("prompt_tokens" in usage) && !("input_tokens" in usage);
}

function recordCounts(record) {
  return { prompt: record.prompt_tokens, completion: record.completion_tokens };
}

function openaiCounts(usage) {
  const isEmbedding = usage.total_tokens === usage.prompt_tokens;
  return {
    prompt: usage.prompt_tokens ?? usage.input_tokens,
    completion: usage.completion_tokens ?? usage.output_tokens ?? (isEmbedding ? 0 : undefined),
  };
}

function anthropicCounts(usage) {
  const split = usage.cache_creation ?? {};
  const written = usage.cache_creation_input_tokens
    ?? (split.ephemeral_5m_input_tokens ?? 0) + (split.ephemeral_1h_input_tokens ?? 0);
  const cached = usage.cache_read_input_tokens ?? 0;
  return { prompt: usage.input_tokens + cached + written, completion: usage.output_tokens };
}

function isWhole(value) {
  return Number.isInteger(value) && value >= 0;
}

// The call of a row whose columns are these fields, or null; `provider` is for rows without one.
export function callOfRow(cells, fields, provider) {
  if (cells.length !== fields.length) return null;
  const row = {};
  fields.forEach((field, index) => {
    if (field) row[field] = cells[index].trim();
  });
  const cached = countOf(row.cached_tokens || "0");
  const written = countOf(row.cache_write_tokens || "0");
  const own = countOf(row.prompt_tokens ?? row.uncached_prompt_tokens);
  const prompt = "uncached_prompt_tokens" in row ? own + cached + written : own;
  const completion = countOf(row.completion_tokens);
  const call = {
    id: row.request_id ?? "",
    time: timeOf(row.ts),
    model: row.model,
    provider: (row.provider ?? provider).toLowerCase(),
  };
  const isValid = call.time !== null && call.model && call.provider
    && [prompt, completion, cached, written].every(isWhole);
  return isValid ? { ...call, prompt, completion } : null;
}

function countOf(cell) {
  return cell === undefined || cell === "" ? NaN : Number(cell);
}

// Milliseconds since 1970 of ISO 8601, or of a Unix time in any unit; null for anything else.
export function timeOf(value) {
  const number = typeof value === "number" ? value : /^[0-9]{9,19}(\.[0-9]+)?$/.test(value) ? Number(value) : NaN;
  for (const unit of [1000, 1, 1e-3, 1e-6]) {
    if (number * unit >= FIRST_TIME && number * unit < LAST_TIME) return number * unit;
  }
  if (typeof value !== "string") return null;
  const time = Date.parse(isoOf(value));
  return time >= FIRST_TIME && time < LAST_TIME ? time : null;
}

function isoOf(text) {
  const plain = text.trim().replaceAll("/", "-").replace(/ ?(UTC|GMT)$/, "").replace(/ ([+-])/, "$1");
  const iso = plain.replace(/^(\d{4}-\d\d-\d\d) /, "$1T");
  return iso.includes("T") && !/(Z|[+-]\d\d:?\d\d)$/i.test(iso) ? `${iso}Z` : iso;
}
