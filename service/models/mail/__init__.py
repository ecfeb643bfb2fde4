"""The mail outbox, and who gets which report mail."""
