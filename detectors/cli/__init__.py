"""The console commands of the library, and the group that other packages extend."""

from detectors.cli.group import library, main

__all__ = ["library", "main"]
