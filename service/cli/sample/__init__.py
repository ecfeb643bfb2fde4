"""Example data: the sample log, and an account with ninety days of made-up calls."""
