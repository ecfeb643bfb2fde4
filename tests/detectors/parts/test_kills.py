"""Kills of an audit in parts: no half report, and no scratch after the next start."""

import os
import signal
from pathlib import Path
from random import Random
from subprocess import CompletedProcess

from tests.detectors.reference.logs import as_csv
from tests.detectors.reference.traffic import draw_log
from tests.warm import AUDITS, run_warm
from tests.worker.support.promises import at_a_fortieth

_KILLS = 30
_NEVER = 9_999


def _audit(log: Path, scratch: Path, out: Path, at: int) -> CompletedProcess[str]:
    command = ["tests.detectors.parts.killed", *map(str, (log, scratch, out, at))]
    return run_warm(command, os.environ, imports=AUDITS)


@at_a_fortieth
def test_a_kill_leaves_no_scratch_and_no_half_report(share: float, tmp_path: Path) -> None:
    log, scratch, out = (tmp_path / name for name in ("calls.csv", "scratch", "report.json"))
    log.write_bytes(as_csv(draw_log(9)))
    first = _audit(log, scratch, out, _NEVER)
    assert first.returncode == 0, first.stderr
    assert not list(scratch.iterdir())
    expected, steps = out.read_bytes(), int(first.stdout)
    rng = Random(9)
    for _ in range(round(_KILLS * share)):
        out.unlink()
        killed = _audit(log, scratch, out, rng.randrange(steps))
        assert killed.returncode == -signal.SIGKILL
        assert not out.exists()
        assert list(scratch.iterdir())
        again = _audit(log, scratch, out, _NEVER)
        assert again.returncode == 0, again.stderr
        assert out.read_bytes() == expected
        assert not list(scratch.iterdir())
