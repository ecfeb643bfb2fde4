"""Records that come as records: the ingest body, and Python objects."""
