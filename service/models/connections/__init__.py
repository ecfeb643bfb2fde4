"""Connections to model providers, and what their reports say."""
