"""openinference-instrumentation-anthropic, of Arize."""

from exporting import call_anthropic, provide
from openinference.instrumentation.anthropic import AnthropicInstrumentor

provider = provide()
AnthropicInstrumentor().instrument()
call_anthropic()
provider.shutdown()
