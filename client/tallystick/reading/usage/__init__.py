"""One reader of usage objects; a copy of this folder is in `detectors/formats/json_logs/usage`."""
