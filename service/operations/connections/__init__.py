"""Connections to providers: pull their reports, and say how they relate to calls and bill."""
