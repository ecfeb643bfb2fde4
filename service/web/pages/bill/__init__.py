"""The bill: what providers billed, and how calls explain it."""
