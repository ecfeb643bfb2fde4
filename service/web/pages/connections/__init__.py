"""Connections to model providers."""
