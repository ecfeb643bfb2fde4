"""`tallystick prices`: what it prints and how it fails."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from detectors.cli.group import library


def test_check_prints_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "terms.toml"
    file.write_text('[discounts]\nopenai = 0.1\n[aliases.azure]\nprod = ["azure", "gpt-5.4"]\n')
    result = CliRunner().invoke(library, ["prices", "check", str(file)])
    assert result.output == "openai: 10% off\nazure prod priced as azure gpt-5.4\n"
    file.write_text("[discounts]\nopenia = 0.1\n")
    failed = CliRunner().invoke(library, ["prices", "check", str(file)])
    assert failed.exit_code != 0
    assert "did you mean openai?" in failed.output


def test_an_update_that_fails_says_so_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    arguments = ["prices", "update", "--file", str(file), "--url", "http://127.0.0.1:9/"]
    result = CliRunner().invoke(library, arguments)
    assert result.exit_code != 0
    assert "prices are unchanged" in result.output
    assert not file.exists()


def test_an_audit_uses_the_stored_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "tallystick"
    folder.mkdir()
    (folder / "prices.json").write_text("damaged")
    log = tmp_path / "usage.csv"
    log.write_text(
        "ts,provider,model,prompt_tokens,completion_tokens\n"
        "2026-11-02T10:00:00Z,openai,gpt-5.4,1000,10\n"
    )
    result = CliRunner().invoke(library, ["audit", str(log)])
    assert result.exit_code == 0, result.output
