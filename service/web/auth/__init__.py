"""Authenticate requests: credentials, sessions, CSRF and the admin gate."""
