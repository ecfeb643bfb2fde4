"""The comparison with the second price book: every difference has a line that says who is right."""

import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from tests.cases import each_case
from tests.detectors.prices import drift

_ROOT = Path(__file__).parents[3]
_EQUAL = {"litellm_provider": "openai", "input_cost_per_token": 2.5e-06}
_OTHER = {"litellm_provider": "openai", "input_cost_per_token": 9e-06}
_LINE = {"provider": "openai", "models": ["gpt-5.4-*"], "right": "ours", "why": "An example."}


def _compare(
    folder: Path, entries: dict[str, Any], lines: list[dict[str, Any]], capsys: Any
) -> tuple[int, str]:
    wheel, file = folder / "litellm.whl", folder / "lines.toml"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(drift.MAP, json.dumps(entries))
    tables = [
        "[[difference]]\n"
        + "\n".join(f"{key} = {json.dumps(value)}" for key, value in line.items())
        for line in lines
    ]
    file.write_text("\n".join(["day = 2026-11-27", *(tables or ["difference = []"])]))
    status = drift.main(wheel, file)
    return status, capsys.readouterr().out


def test_a_difference_without_a_line_and_a_line_without_one_fail(
    tmp_path: Path, capsys: Any
) -> None:
    entries = {"gpt-5.4": _EQUAL, "gpt-5.4-mini": _OTHER, "unknown": _OTHER}
    status, said = _compare(tmp_path, entries, [], capsys)
    assert status == 1
    assert "openai gpt-5.4-mini standard input_tokens: ours 0.75, theirs 9" in said
    assert _compare(tmp_path, entries, [_LINE], capsys) == (
        0,
        "1 rates differ, 0 without a line that says why.\n",
    )
    # A line without a difference fails.
    status, said = _compare(tmp_path, {"gpt-5.4": _EQUAL}, [_LINE], capsys)
    assert status == 1
    assert "no longer a difference: openai ['gpt-5.4-*']" in said
    # A tier without a rate of ours is a difference.
    entry = {"litellm_provider": "mistral", "input_cost_per_token_priority": 9e-06}
    _, said = _compare(tmp_path, {"mistral/mistral-large-2512": entry}, [], capsys)
    assert "mistral mistral-large-2512 priority input_tokens: ours 0.5, theirs 9" in said


@each_case("line", tomllib.loads(drift.LINES.read_text("utf-8"))["difference"])
def test_each_line_says_who_is_right_and_why(line: dict[str, Any]) -> None:
    assert line["right"] in drift.RIGHT
    assert line["why"].endswith(".")
    assert line["models"]


def test_the_version_is_the_one_that_make_downloads() -> None:
    version = tomllib.loads(drift.LINES.read_text("utf-8"))["version"]
    assert f"LITELLM := {version}\n" in (_ROOT / "Makefile").read_text("utf-8")
