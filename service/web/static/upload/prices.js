// Dollars of a call at list prices: an estimate. The audit knows more: dates, tiers, your own rates.

const MILLION = 1e6;
const [INPUT, OUTPUT, CACHE_READ, CACHE_WRITE] = [0, 1, 2, 3];
const REQUEST = 4;
const LONG = 5; // prompts longer than this have the four rates after it
const PREFIX = /^(?:.*\/)?(?:(?:[a-z-]+\.)?(?:anthropic|openai)\.)?/;
const SNAPSHOT =
  /(?:-20\d\d-\d\d-\d\d|[-@]20\d{6}|(?<=-preview)-\d\d-\d{2,4}|-\d{3}|[-@]latest|@default|-v\d+(?::\d+)?|\[1m\]|:beta)+$/;

export class Prices {
  #found = new Map();

  constructor({ hosts, models }) {
    this.hosts = hosts;
    this.models = models;
  }

  static async load(address) {
    const response = await fetch(address);
    if (!response.ok) throw new Error("no prices");
    return new Prices(await response.json());
  }

  // The dollars of a call; null if its model has no known price.
  cost(call) {
    const rates = this.#find(call.provider, call.model);
    if (!rates) return null;
    const isLong = Math.max(call.prompt, call.cached + call.written) > rates[LONG];
    const at = isLong ? LONG + 1 : 0;
    const rate = (kind) => rates[at + kind];
    const ownRead = rate(CACHE_READ) === null ? 0 : call.cached;
    const ownWritten = rate(CACHE_WRITE) === null ? 0 : call.written;
    const uncached = Math.max(0, call.prompt - ownRead - ownWritten);
    const tokens = uncached * rate(INPUT) + call.completion * rate(OUTPUT)
      + ownRead * (rate(CACHE_READ) ?? 0) + ownWritten * (rate(CACHE_WRITE) ?? 0);
    return tokens / MILLION + rates[REQUEST];
  }

  #find(provider, model) {
    const key = `${provider} ${model}`;
    if (!this.#found.has(key)) this.#found.set(key, this.#search(provider, baseName(model)));
    return this.#found.get(key);
  }

  // A provider that the book doesn't know is often a gateway: then the name alone decides.
  #search(provider, name) {
    const own = ownValue(this.models, ownValue(this.hosts, provider) ?? provider);
    if (own) return ownValue(own, name);
    const seller = Object.values(this.models).find((models) => Object.hasOwn(models, name));
    return seller ? seller[name] : null;
  }
}

// Names come from the file: `constructor` is one that every object inherits.
function ownValue(object, name) {
  return Object.hasOwn(object, name) ? object[name] : null;
}

function baseName(model) {
  return model.toLowerCase().replace(PREFIX, "").replace(SNAPSHOT, "").replaceAll(".", "-");
}
