"""How the time per call grows with the size of a log, beside other ways to read the same file."""
