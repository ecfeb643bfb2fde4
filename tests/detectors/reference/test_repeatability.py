"""The same log gives the same bytes, however often, in whatever process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import detectors
from tests.detectors.reference import logs
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import in_full_only, sampled, scaled

RUNS = 50


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several thousand calls, so that the engine shares the work out among its threads."""
    file = tmp_path_factory.mktemp("logs") / "calls.csv"
    records = [record for seed in range(16) for record in draw_log(seed)]
    file.write_bytes(logs.as_csv(records))
    return file


@in_full_only
def test_repeated_audits_give_the_same_bytes(log: Path, share: float) -> None:
    """By default, another process gives them: the test below."""
    assert len({detectors.audit(log).to_json() for _ in range(scaled(RUNS, share))}) == 1


def _run(log: Path, hash_seed: str, threads: str) -> bytes:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "POLARS_MAX_THREADS": threads}
    command = [sys.executable, "-m", "detectors", "audit", str(log), "--json", "-"]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    "process", sampled([("77", "4"), ("0", "1"), ("1", "2"), ("random", "2")], 4)
)
def test_a_fresh_process_gives_the_same_bytes(log: Path, process: tuple[str, str]) -> None:
    """The process of the tests has another hash seed, and as many threads as there are cores."""
    assert _run(log, *process) == detectors.audit(log).to_json() + b"\n"
