"""Budgets, unusual days, and which accounts were watched until when."""
