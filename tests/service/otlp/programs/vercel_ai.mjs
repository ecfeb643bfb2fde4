// The Vercel AI SDK with its telemetry, over two providers.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { embed, generateText, streamText } from 'ai';

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter(), instrumentations: [] });
sdk.start();
const withText = process.env.CONTENT === 'on';
const experimental_telemetry = {
  isEnabled: true, recordInputs: withText, recordOutputs: withText, functionId: 'answer',
};
const stub = process.env.STUB_URL;
const openai = createOpenAI({ apiKey: 'sk-stub', baseURL: `${stub}/v1` });
const anthropic = createAnthropic({ apiKey: 'sk-stub', baseURL: `${stub}/v1` });
const ask = { prompt: 'canary-question', maxOutputTokens: 64, experimental_telemetry };
for (const model of [openai.chat('gpt-4o'), openai('gpt-4o'), anthropic('claude-sonnet-4-6')]) {
  await generateText({ ...ask, model });
  await streamText({ ...ask, model }).consumeStream();
}
const model = openai.textEmbeddingModel('text-embedding-3-small');
await embed({ model, value: 'canary-question', experimental_telemetry });
await sdk.shutdown();
