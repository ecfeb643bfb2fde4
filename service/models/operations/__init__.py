"""Admin actions, admin lists, totals of the service, and retention."""
