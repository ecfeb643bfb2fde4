"""Credentials: ingest keys, read tokens, OAuth applications and their tokens."""
