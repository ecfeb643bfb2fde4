"""Serve the application with gunicorn."""
