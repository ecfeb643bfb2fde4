"""The web process loads no dataframe library, and only the public parts of `detectors`."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATAFRAMES = {"polars", "narwhals", "pandas", "duckdb", "pyspark", "pyarrow", "numpy"}
BORDER = {
    "detectors",
    "detectors.contract",
    "detectors.errors",
    # What prints a report.
    "detectors.charts",
    "detectors.wording",
}
EVERY_MODULE = """
import json, pkgutil, sys, importlib, service
for found in pkgutil.walk_packages(service.__path__, "service."):
    importlib.import_module(found.name)
print(json.dumps(sorted(sys.modules)))
"""
# No setting is there to read: an import that needed any would fail.
SERVING = """
import os; os.environ.clear()
import json, sys, service.app; print(json.dumps(sorted(sys.modules)))
"""


@cache
def _loaded(program: str) -> frozenset[str]:
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, timeout=120
    )
    return frozenset(json.loads(finished.stdout))


@pytest.mark.parametrize("program", [EVERY_MODULE, SERVING], ids=["every module", "the web"])
def test_importing_the_service_loads_no_dataframe_library(program: str) -> None:
    assert not {name.partition(".")[0] for name in _loaded(program)} & DATAFRAMES


def test_the_web_loads_only_the_border_of_the_detectors() -> None:
    ours = {name for name in _loaded(SERVING) if name.partition(".")[0] == "detectors"}
    parts = ("detectors.formats", "detectors.charts.", "detectors.contract.", "detectors.wording.")
    assert {name for name in ours if not name.startswith(parts)} == BORDER


def test_importing_the_web_opens_no_connection_and_reads_no_setting() -> None:
    loaded = _loaded(SERVING)
    assert "obstore" not in loaded
    assert "reportlab" not in loaded  # only who prints a PDF pays for it
    assert "worker" not in loaded


@pytest.mark.parametrize("module", ["service.config", "service.models", "service.core.db"])
def test_settings_and_tables_load_no_web_framework(module: str) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    assert not {"flask", "flask_limiter", "werkzeug"} & _loaded(program)


def test_the_web_does_not_load_the_worker_process() -> None:
    # `import rq` itself loads rq's Worker; see docs/decisions/13-web-and-rq.md.
    assert "service.jobs.process" not in _loaded(SERVING)
    assert "service.jobs.stopping" not in _loaded(SERVING)
