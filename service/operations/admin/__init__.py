"""Admin actions and the overview that the admin page shows."""
