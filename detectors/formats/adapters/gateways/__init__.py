"""Exports of gateways and of tools that observe calls."""
