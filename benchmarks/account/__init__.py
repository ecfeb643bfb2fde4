"""An account with millions of calls, from tens of thousands of imports."""
