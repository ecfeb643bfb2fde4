"""The library's commands, and the command group that other packages extend."""

from detectors.cli.group import library, main

__all__ = ["library", "main"]
