"""CSV with a header row of the record's field names."""
