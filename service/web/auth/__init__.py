"""Who is calling: credentials, sessions, CSRF and the admin gate."""
