"""OpenTelemetry spans in, usage records out: decoding, attributes, and what is rejected."""
