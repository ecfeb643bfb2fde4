"""The database, blobs, secrets, logs and counters that every other room stands on."""
