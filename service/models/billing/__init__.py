"""Payments, subscriptions and the audit credits that payments buy."""
