"""`python -m detectors`: the library's own commands, without those that other packages add."""

from detectors.cli import library

if __name__ == "__main__":
    library(prog_name="python -m detectors")
