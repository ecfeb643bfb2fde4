"""Audits: their rows, their leases and the dashboard's queries."""
