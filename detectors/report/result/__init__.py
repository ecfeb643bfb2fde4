"""The report that the library returns, and what it can be turned into."""
