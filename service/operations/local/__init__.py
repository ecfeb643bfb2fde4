"""The whole service on one machine, with its own PostgreSQL and Valkey."""
