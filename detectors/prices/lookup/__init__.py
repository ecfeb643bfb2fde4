"""Finds the price book's entry for a call's labels."""
