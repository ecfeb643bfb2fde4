"""Read what a request and a response say in numbers: endpoint, provider, usage, prompt hash."""
