"""Accounts, sign-in and account deletion."""
