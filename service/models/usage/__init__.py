"""Calls of an account summed for pages: by hour and latency, and of two periods."""
