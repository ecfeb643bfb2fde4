"""Pages of a signed-in account: sign-in, findings, billing, settings."""
