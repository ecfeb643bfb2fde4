"""Runs the library's own commands: `python -m detectors`."""

from detectors.cli import library

if __name__ == "__main__":
    library(prog_name="python -m detectors")
