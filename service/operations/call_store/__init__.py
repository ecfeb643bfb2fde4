"""The call store: which files to merge, and how new files replace them."""
