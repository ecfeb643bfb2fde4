"""Queue records and send them to the service from a background thread."""
