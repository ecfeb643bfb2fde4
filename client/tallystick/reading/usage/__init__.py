"""One reader of usage objects; `detectors/formats/json_logs/usage` has links to its files."""
