"""Shared by all requests and responses: bodies, headers, errors, limits, logs."""
