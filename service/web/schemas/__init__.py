"""The shapes of request and response bodies."""
