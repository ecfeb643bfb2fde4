"""An account's calls: the catalog of the files that hold them, and their spend by day."""
