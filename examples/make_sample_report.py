"""Audits the sample log for the report at /sample: `make sample`."""

from pathlib import Path

import detectors

ROOT = Path(__file__).parents[1]
LOG = ROOT / "examples" / "sample-usage.jsonl"
REPORT = ROOT / "service" / "reports" / "sample-report.json"


def make_sample_report() -> bytes:
    return detectors.audit(LOG).to_json()


if __name__ == "__main__":
    REPORT.write_bytes(make_sample_report())
    print(f"{REPORT.relative_to(ROOT)}: {REPORT.stat().st_size:,} bytes")
