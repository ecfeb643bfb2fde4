"""The second factor of sign-ins, and of administrators in a browser."""
