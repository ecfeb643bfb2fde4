"""Compact an account's calls in a process that a test can kill."""

import sys

from worker import compact_calls

if __name__ == "__main__":
    compact_calls(sys.argv[1])
