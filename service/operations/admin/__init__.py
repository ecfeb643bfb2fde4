"""Admin actions and the overview on the admin page."""
