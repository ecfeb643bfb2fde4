"""opentelemetry-instrumentation-openai-v2, of OpenTelemetry itself."""

from exporting import call_openai, provide
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

provider = provide()
OpenAIInstrumentor().instrument()
call_openai()
provider.shutdown()
