"""The report of the sample log, which `make sample` writes beside this file."""

from functools import cache
from pathlib import Path


@cache
def get_sample_report() -> bytes:
    return (Path(__file__).parent / "sample-report.json").read_bytes()
