"""Audits: their rows, leases and what the dashboard reads of them."""
