// The Vercel AI SDK 7, whose spans come from a package of their own: an agent around its calls.
import { createOpenAI } from '@ai-sdk/openai';
import { OpenTelemetry } from '@ai-sdk/otel';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, isStepCount, registerTelemetry, tool } from 'ai';
import { z } from 'zod';

const spanProcessors = [new BatchSpanProcessor(new OTLPTraceExporter())];
const provider = new NodeTracerProvider({ spanProcessors });
provider.register();
registerTelemetry(new OpenTelemetry());
const isOn = process.env.CONTENT === 'on';
const telemetry = { recordInputs: isOn, recordOutputs: isOn };
const inputSchema = z.object({ a: z.number(), b: z.number() });
const execute = async ({ a, b }) => a + b;
const add = tool({ description: 'Add the canary numbers.', inputSchema, execute });
const openai = createOpenAI({ apiKey: 'k', baseURL: `${process.env.STUB_URL}/v1` });
const asked = { prompt: 'canary-question', tools: { add }, stopWhen: isStepCount(3) };
for (const model of [openai.chat('gpt-5.4'), openai('gpt-5.4')]) {
  await generateText({ ...asked, model, telemetry });
}
await provider.shutdown();
