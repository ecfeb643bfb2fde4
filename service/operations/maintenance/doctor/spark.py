"""The Spark cluster for large accounts, if one is configured."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from service.config import Config
from service.operations.maintenance.doctor.findings import Area, Finding

_AREA: Final = Area("spark")
_SECONDS: Final = 90
_PROGRAM: Final = (sys.executable, "-m", "detectors.distributed.spark")
_ADVICE: Final = "see docs/spark.md"


def check_spark(config: Config) -> Iterator[Finding]:
    """Run a small job in a process of its own: the cluster answers, versions and packages fit."""
    if not (config.spark_remote or config.spark_master):
        return
    settings = {"SPARK_REMOTE": config.spark_remote, "SPARK_MASTER": config.spark_master}
    others = {name: value for name, value in os.environ.items() if name not in settings}
    env = others | {name: value for name, value in settings.items() if value}
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            _PROGRAM,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        problem = f"a small job on Spark didn't end within {_SECONDS} seconds"
        yield _AREA.fail(problem, "look whether the cluster has free cores")
        return
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        yield _AREA.ok(lines[-1])
    elif done.returncode == 1 and lines:
        problem, _, advice = lines[-1].partition(". ")
        yield _AREA.fail(problem, advice.rstrip(".") or _ADVICE)
    else:
        install = "install 'tallystick-server[spark]' beside the service; " + _ADVICE
        yield _AREA.fail("a small job on Spark failed", install)
