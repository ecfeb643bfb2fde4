// An agent of the Vercel AI SDK with its telemetry: a call for each step, below one of the whole.
const { createOpenAI } = require('@ai-sdk/openai');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const { generateText, stepCountIs, tool } = require('ai');
const { z } = require('zod');

const spanProcessors = [new BatchSpanProcessor(new OTLPTraceExporter())];
const provider = new NodeTracerProvider({ spanProcessors });
provider.register();
const isOn = process.env.CONTENT === 'on';
const experimental_telemetry = { isEnabled: true, recordInputs: isOn, recordOutputs: isOn };
const inputSchema = z.object({ a: z.number(), b: z.number() });
const execute = async ({ a, b }) => a + b;
const add = tool({ description: 'Add the canary numbers.', inputSchema, execute });

async function main() {
  const openai = createOpenAI({ apiKey: 'k', baseURL: `${process.env.STUB_URL}/v1` });
  const asked = { prompt: 'canary-question', tools: { add }, stopWhen: stepCountIs(3) };
  for (const model of [openai.chat('gpt-5.4'), openai('gpt-5.4')]) {
    await generateText({ ...asked, model, experimental_telemetry });
  }
  await provider.shutdown();
}

main();
