"""How gunicorn serves the application."""
