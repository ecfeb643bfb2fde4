"""`tallystick metrics`: export counters of processes and figures of PostgreSQL to Prometheus."""
