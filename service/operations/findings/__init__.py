"""Findings of an account: how audits and people change them, and what their fixes saved."""
