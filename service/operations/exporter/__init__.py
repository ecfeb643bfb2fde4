"""What `tallystick metrics` tells Prometheus: what processes count, and what PostgreSQL knows."""
