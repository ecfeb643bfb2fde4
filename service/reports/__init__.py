"""Renders the report document as HTML, PDF and CSV. Computes no figure."""
