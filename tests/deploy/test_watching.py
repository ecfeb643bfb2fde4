"""Every alert fires when it should and only then, has a runbook, and names metrics that exist."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.deploy.watching import (
    ALERTS,
    RUNBOOKS,
    find_problems,
    list_expressions,
    load_alerts,
    load_panels,
    run_promtool,
)

CASES: Final = YAML(typ="safe").load((Path(__file__).parent / "alert_cases.yaml").read_text())


def test_every_alert_has_a_case_and_a_severity() -> None:
    alerts = load_alerts()
    assert CASES.keys() == alerts.keys()
    assert {alert["labels"]["severity"] for alert in alerts.values()} == {"page", "ticket"}


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    tests = [test for name in CASES for test in _rule_tests(name)]
    file = tmp_path / "tests.yaml"
    content = {"rule_files": [str(ALERTS)], "evaluation_interval": "5m", "tests": tests}
    file.write_text(json.dumps(content))
    assert "SUCCESS" in run_promtool("test", "rules", str(file))
    # The same would fail if an alert fired that should not.
    (silent,) = tests[1]["alert_rule_test"]
    silent["exp_alerts"] = tests[0]["alert_rule_test"][0]["exp_alerts"]
    file.write_text(json.dumps({**content, "tests": [tests[1]]}))
    with pytest.raises(AssertionError, match="TallystickRequestErrors"):
        run_promtool("test", "rules", str(file))


def _rule_tests(name: str) -> list[dict[str, Any]]:
    case, alert = CASES[name], load_alerts()[name]
    expected = {
        "exp_labels": {**alert["labels"], **case.get("labels", {})},
        "exp_annotations": alert["annotations"],
    }
    return [
        {
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series.items()],
            "alert_rule_test": [
                {"eval_time": case["when"], "alertname": name, "exp_alerts": found}
            ],
        }
        for series, found in ((case["fires"], [expected]), (case["quiet"], []))
    ]


def test_prometheus_parses_every_expression(tmp_path: Path) -> None:
    found = run_promtool("check", "rules", str(ALERTS))
    assert re.search(r"SUCCESS: \d\d rules found", found)
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(list_expressions())
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in run_promtool("check", "rules", str(file))


def test_every_expression_names_metrics_labels_and_values_that_exist() -> None:
    problems = {each: list(find_problems(each)) for each in list_expressions()}
    assert {each: found for each, found in problems.items() if found} == {}


@pytest.mark.parametrize(
    "expression",
    [
        "tallystick_request_total",
        'tallystick_requests_total{path="/"}',
        "sum by (tenant) (tallystick_requests_total)",
        'tallystick_audits_waiting{status="sleeping"}',
        "tallystick_up_count",
    ],
)
def test_a_name_that_does_not_exist_is_found(expression: str) -> None:
    assert list(find_problems(expression))


def test_every_alert_links_to_a_section_that_says_what_it_looks_like_means_and_what_to_do() -> None:
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", RUNBOOKS.read_text(), re.MULTILINE))
    anchors = {title.lower().replace(" ", "-"): text for title, text in sections.items()}
    linked = set()
    for name, alert in load_alerts().items():
        page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        assert page == "docs/runbooks.md"
        assert anchor in anchors, f"{name} links to no section"
        linked.add(anchor)
    assert linked == anchors.keys()
    for text in sections.values():
        assert "**Looks like:**" in text
        assert "**Means:**" in text
        assert re.search(r"^1\. ", text, re.MULTILINE)


def test_the_dashboard_is_laid_out_in_rows_without_overlaps() -> None:
    panels, taken = load_panels(), set[tuple[int, int]]()
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert len(rows) >= 9
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        spot = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(spot["x"], spot["x"] + spot["w"])
            for y in range(spot["y"], spot["y"] + spot["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"]
            assert all(target["legendFormat"] for target in panel["targets"])
