"""Printing the report document. Nothing here computes a number; it only writes numbers down."""
