// OpenLLMetry for JavaScript: its instrumentations of two providers' libraries.
const { registerInstrumentations } = require('@opentelemetry/instrumentation');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const { AnthropicInstrumentation } = require('@traceloop/instrumentation-anthropic');
const { OpenAIInstrumentation } = require('@traceloop/instrumentation-openai');

const spanProcessors = [new BatchSpanProcessor(new OTLPTraceExporter())];
const tracerProvider = new NodeTracerProvider({ spanProcessors });
tracerProvider.register();
const traceContent = process.env.CONTENT === 'on';
const instrumentations = [
  new AnthropicInstrumentation({ traceContent }), new OpenAIInstrumentation({ traceContent }),
];
registerInstrumentations({ instrumentations, tracerProvider });
const { Anthropic } = require('@anthropic-ai/sdk');
const { OpenAI } = require('openai');

const stub = process.env.STUB_URL;
const messages = [{ role: 'user', content: 'canary-question' }];
const input_schema = { type: 'object', properties: {} };
const add = { name: 'add', description: 'canary' };

async function main() {
  const claude = new Anthropic({ apiKey: 'k', baseURL: stub });
  const asked = { messages, tools: [{ ...add, input_schema }] };
  await claude.messages.create({ ...asked, model: 'claude-sonnet-4-6', max_tokens: 9 });
  const gpt = new OpenAI({ apiKey: 'k', baseURL: `${stub}/v1` });
  const tools = [{ type: 'function', function: { ...add, parameters: input_schema } }];
  await gpt.chat.completions.create({ messages, tools, model: 'gpt-5.4' });
  await tracerProvider.shutdown();
}

main();
