"""Pages of a signed-in account: sign-in, dashboard, billing, settings."""
