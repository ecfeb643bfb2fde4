"""The web and a worker load no dataframe library, and the web only the border of `detectors`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATAFRAMES = {"polars", "pandas", "duckdb", "pyspark", "pyarrow", "numpy"}
BORDER = {
    "detectors",
    "detectors.contract",
    "detectors.errors",
    # What prints a report.
    "detectors.charts",
    "detectors.wording",
}
# What is loaded after each of these, one after the other in one process. No setting is there to
# read: an import that needed any would fail.
TABLES, SERVING, EVERY_MODULE = "settings and tables", "the web", "every module"
IDLE, FORKING = "a worker", "a worker that is ready"
PROGRAM = f"""
import os; os.environ.clear()
import importlib, json, pkgutil, sys
loaded = {{}}
import service.config, service.core.db, service.models
loaded[{TABLES!r}] = sorted(sys.modules)
import service.app
loaded[{SERVING!r}] = sorted(sys.modules)
import worker
loaded[{IDLE!r}] = sorted(sys.modules)
for found in pkgutil.walk_packages(service.__path__, "service."):
    importlib.import_module(found.name)
loaded[{EVERY_MODULE!r}] = sorted(sys.modules)
worker.prepare()
libraries = {{line.split()[-1] for line in open("/proc/self/maps")}}
threads = [f"thread {{thread}}" for thread in os.listdir("/proc/self/task")]
loaded[{FORKING!r}] = [*libraries, *threads]
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    command = [sys.executable, "-c", PROGRAM]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    return {step: set(names) for step, names in json.loads(finished.stdout).items()}


@pytest.mark.parametrize("step", [EVERY_MODULE, IDLE, SERVING])
def test_importing_the_service_loads_no_dataframe_library(
    loaded: dict[str, set[str]], step: str
) -> None:
    assert not {name.partition(".")[0] for name in loaded[step]} & DATAFRAMES


@pytest.mark.parametrize("step", [EVERY_MODULE, SERVING])
def test_what_is_off_by_default_is_not_loaded(loaded: dict[str, set[str]], step: str) -> None:
    # Redis's client loads the SDK's metrics where they are installed, as they are here.
    unused = ("sentry_sdk", "opentelemetry.exporter", "opentelemetry.sdk.trace.export")
    assert not {name for name in loaded[step] if name.startswith(unused)}


def test_a_worker_that_is_ready_has_one_thread_and_no_library_with_threads(
    loaded: dict[str, set[str]],
) -> None:
    """What forks again and again must hold no thread's locks."""
    assert len([one for one in loaded[FORKING] if one.startswith("thread ")]) == 1
    assert any("psycopg2" in one for one in loaded[FORKING])
    assert not [one for one in loaded[FORKING] if "polars" in one or "obstore" in one]


def test_the_web_loads_only_the_border_of_the_detectors(loaded: dict[str, set[str]]) -> None:
    ours = {name for name in loaded[SERVING] if name.partition(".")[0] == "detectors"}
    parts = ("detectors.formats", "detectors.charts.", "detectors.contract.", "detectors.wording.")
    assert {name for name in ours if not name.startswith(parts)} == BORDER
    # Settings and tables load no web framework.
    assert not {"flask", "flask_limiter", "werkzeug"} & loaded[TABLES]
    # The web does not load the worker process.
    # `import rq` itself loads rq's Worker; see docs/decisions/13-web-and-rq.md.
    assert "service.jobs.process" not in loaded[SERVING]
    assert "service.jobs.stopping" not in loaded[SERVING]


def test_importing_the_web_opens_no_connection_and_reads_no_setting(
    loaded: dict[str, set[str]],
) -> None:
    assert "obstore" not in loaded[SERVING]
    # Only who prints a PDF or a workbook pays for it.
    assert not {"reportlab", "xlsxwriter"} & (loaded[SERVING] | loaded[IDLE])
    assert "worker" not in loaded[SERVING]
