"""The library's commands, and the command group that other packages extend."""

import gc

# What is imported stays. Looking for garbage in it takes an eighth of the time.
gc.disable()

from detectors.cli.group import library, main

gc.freeze()
gc.enable()

__all__ = ["library", "main"]
