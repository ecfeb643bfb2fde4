"""OpenAI-style and Anthropic-style logs: JSON lines, or one JSON array."""
