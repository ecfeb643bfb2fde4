"""What an account sent: its imports by day, and files that it uploaded more than once."""
