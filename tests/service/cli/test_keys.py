"""tallystick keys: files of keys change step by step."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli.keys import keys
from service.operations.key_files import KeyFiles
from tests.cases import each_case

NAMES = ("secret_key", "encryption_key")


def test_a_key_is_added_used_and_dropped(tmp_path: Path) -> None:
    files = KeyFiles.find("secret_key", {}, tmp_path)
    first = files.make()
    files.add()
    [new] = files.load_fallbacks()
    assert files.make() == first
    files.use()
    assert (files.make(), files.load_fallbacks()) == (new, [first])
    files.drop()
    assert (files.make(), files.load_fallbacks()) == (new, [])
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"secret_key", "secret_key_fallbacks"}
    # A step back uses the old key again.
    files.add()
    files.use()
    files.use()
    assert files.load_key() == new


@pytest.mark.parametrize("name", ["secret", "encryption"])
def test_the_commands_say_what_comes_next(tmp_path: Path, name: str) -> None:
    KeyFiles.of(tmp_path, f"{name}_key").make()
    options = ["--data", str(tmp_path)]
    added = CliRunner(env={}).invoke(keys, ["add", name, *options])
    assert (added.exit_code, added.output.count("tallystick keys use")) == (0, 1)
    again = CliRunner().invoke(keys, ["add", name, *options])
    assert again.exit_code == 2
    assert "has a key already" in again.output
    used = CliRunner().invoke(keys, ["use", name, *options])
    assert (used.exit_code, used.output.count("tallystick keys drop")) == (0, 1)


@each_case("step", ["add", "use", "drop"])
def test_a_folder_without_keys_is_reported_in_one_line(tmp_path: Path, step: str) -> None:
    result = CliRunner().invoke(keys, [step, "secret", "--data", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1


def test_a_key_in_a_variable_is_left_to_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeyFiles.of(tmp_path, "secret_key").make()
    monkeypatch.setenv("SECRET_KEY", "x" * 32)
    result = CliRunner().invoke(keys, ["add", "secret", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "SECRET_KEY_FILE" in result.output


def test_files_that_the_environment_names_keep_their_mode_and_a_new_one_has_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*NAMES, "encryption_key_fallbacks"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o640)
    for name in NAMES:
        (tmp_path / name).write_text("k" * 32)
        monkeypatch.setenv(f"{name.upper()}_FILE", str(tmp_path / name))
        monkeypatch.setenv(f"{name.upper()}_FALLBACKS_FILE", str(tmp_path / f"{name}_fallbacks"))
    assert CliRunner().invoke(keys, ["add", "secret"]).exit_code == 0
    assert CliRunner().invoke(keys, ["use", "secret"]).exit_code == 0
    assert (tmp_path / "secret_key_fallbacks").read_text() == "k" * 32 + "\n"
    assert (tmp_path / "encryption_key_fallbacks").read_text() == ""
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_new_keys_are_long_and_differ() -> None:
    printed = {CliRunner().invoke(keys, ["new"]).output.strip() for _ in range(20)}
    assert len(printed) == 20
    assert all(len(key) >= 32 and " " not in key for key in printed)
