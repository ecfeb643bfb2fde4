"""The database, blobs, secrets, logs and counters that all other packages use."""
