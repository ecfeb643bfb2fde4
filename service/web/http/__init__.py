"""What requests and responses share: bodies, headers, errors, limits, logs."""
