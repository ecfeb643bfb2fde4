// Sentry for Node, with an exporter beside its own. Its version 11 no longer takes one.
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { BatchSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const Sentry = require('@sentry/node');

const stub = process.env.STUB_URL;
Sentry.init({
  dsn: `${stub.replace('//', '//k@')}/1`,
  sendDefaultPii: process.env.CONTENT === 'on',
  tracesSampleRate: 1,
  openTelemetrySpanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
const { Anthropic } = require('@anthropic-ai/sdk');
const { OpenAI } = require('openai');

const messages = [{ role: 'user', content: 'canary-question' }];
const input_schema = { type: 'object', properties: {} };
const add = { name: 'add', description: 'canary' };

async function ask() {
  const claude = new Anthropic({ apiKey: 'k', baseURL: stub });
  const asked = { messages, tools: [{ ...add, input_schema }] };
  await claude.messages.create({ ...asked, model: 'claude-sonnet-4-6', max_tokens: 9 });
  const gpt = new OpenAI({ apiKey: 'k', baseURL: `${stub}/v1` });
  const tools = [{ type: 'function', function: { ...add, parameters: input_schema } }];
  await gpt.chat.completions.create({ messages, tools, model: 'gpt-5.4' });
  await gpt.responses.create({ input: 'canary-question', model: 'gpt-5.4' });
}

async function main() {
  await Sentry.startSpan({ name: 'job' }, ask);
  await Sentry.close();
}

main();
