"""Accounts, how people sign in to them, and their deletion."""
