"""The alerts and the dashboard in `deploy/`, and what their expressions name."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.service.support.metrics_table import documented

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "dashboard.json"
RUNBOOKS: Final = ROOT / "docs" / "runbooks.md"

_METRIC: Final = re.compile(r"\b(tallystick_\w+?)(_bucket|_sum|_count)?\b(?:{([^}]*)})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING: Final = re.compile(r"\b(?:by|on|without)\s*\(([^)]*)\)")
# Labels that Prometheus and its histograms add.
_ADDED: Final = {"le", "instance", "job"}


def load_groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = YAML(typ="safe").load(ALERTS.read_text())["groups"]
    return groups


def load_alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    rules = [rule for group in load_groups() for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def load_panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return panels


def list_expressions() -> list[str]:
    """Return the expressions of all rules and panels, with an interval where Grafana sets one."""
    rules = [rule["expr"] for group in load_groups() for rule in group["rules"]]
    panels = [target["expr"] for panel in load_panels() for target in panel.get("targets", ())]
    return [*rules, *(expr.replace("$__rate_interval", "5m") for expr in panels)]


def find_problems(expression: str) -> Iterator[str]:
    """Yield what an expression names that no scrape has."""
    metrics, known = documented(), set(_ADDED)
    for name, ending, matchers in _METRIC.findall(expression):
        kind, labels = metrics.get(name + ending, metrics.get(name, ("", ())))
        if not kind or (ending and name + ending not in metrics and kind != "histogram"):
            yield f"no metric {name}{ending}"
        known |= set(labels)
        for label, how, value in _MATCHER.findall(matchers):
            if label not in {*labels, *_ADDED}:
                yield f"{name} has no label {label}"
            elif how in ("=", "!=") and label != "le" and value not in _constants():
                yield f"nothing sets {label} to {value}"
    for names in _GROUPING.findall(expression):
        for label in filter(None, re.split(r"[\s,]+", names)):
            if label not in known:
                yield f"no metric here has the label {label}"


def _constants() -> set[str]:
    """Return the strings in the service's code, which every value of a label is one of."""
    if not _found:
        for path in (ROOT / "worker.py", *(ROOT / "service").rglob("*.py")):
            _found.update(re.findall(r'"(\w+)"', path.read_text()))
    return _found


_found: Final[set[str]] = set()


def run_promtool(*arguments: str) -> str:
    """Run promtool; skip the test where it is missing, and fail if it fails."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here: it is in Debian's package prometheus")
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
