"""The group that other packages extend: their commands come late, and may fail to come."""

import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from detectors.cli import group as cli
from detectors.cli.audit import audit
from detectors.cli.imports import imported_meanwhile

Extend = Callable[..., cli.ExtensibleGroup]


def register(group: click.Group) -> None:
    """What an entry point of these tests names."""
    group.add_command(click.Command("up", callback=lambda: click.echo("running")))


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> Extend:
    """A fresh group whose entry points lie in the named modules."""

    def build(*values: str) -> cli.ExtensibleGroup:
        points = [
            EntryPoint(f"part{n}", value, cli.ENTRY_POINT_GROUP) for n, value in enumerate(values)
        ]
        monkeypatch.setattr(cli, "entry_points", lambda *, group: points)
        group = cli.ExtensibleGroup("tallystick")
        group.add_command(audit)
        return group

    return build


def test_commands_of_other_packages_are_loaded_only_when_asked_for(extended: Extend) -> None:
    group = extended(f"{__name__}:register")
    assert CliRunner().invoke(group, ["up"]).stdout == "running\n"
    assert "up" in CliRunner().invoke(group, ["--help"]).stdout
    # An audit loads no other package.
    group = extended("nowhere.at.all:register")
    assert CliRunner().invoke(group, ["audit", "no-such-file"]).exit_code == 2
    assert not group.is_loaded


def test_commands_with_missing_libraries_are_skipped_and_named(extended: Extend) -> None:
    group = extended("nowhere.at.all:register", f"{__name__}:register")
    help_page = CliRunner().invoke(group, ["--help"])
    assert help_page.exit_code == 0
    assert "audit" in help_page.stdout
    assert "The part0 commands need libraries that aren't installed." in help_page.stdout
    assert CliRunner().invoke(group, ["up"]).exit_code == 0
    unknown = CliRunner().invoke(group, ["down"])
    assert unknown.exit_code == 2
    assert "The part0 commands need libraries that aren't installed." in unknown.stderr


def test_without_its_libraries_the_services_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install = 'pip install "tallystick-server[service,embedded]"'
    points = [EntryPoint("service", "nowhere.at.all:register", cli.ENTRY_POINT_GROUP)]
    monkeypatch.setattr(cli, "entry_points", lambda *, group: points)
    group = cli.ExtensibleGroup("tallystick")
    assert CliRunner().invoke(group, ["--help"]).stdout.endswith(f"\n{install}\n")
    unknown = CliRunner().invoke(group, ["up"])
    assert unknown.exit_code == 2
    assert unknown.stderr.endswith(
        "Error: No such command 'up'. The service commands need libraries that aren't installed."
        f" To install them, run:\n{install}\n"
    )


def test_broken_packages_and_unknown_commands_are_refused(extended: Extend) -> None:
    result = CliRunner().invoke(extended(f"{__name__}:no_such_name"), ["up"])
    assert isinstance(result.exception, AttributeError)
    # An unknown command is refused.
    result = CliRunner().invoke(extended(), ["down"])
    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_the_module_offers_the_library_commands_alone() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "detectors", "--help"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("Usage: python -m detectors [OPTIONS] COMMAND")
    names = cli.library.list_commands(click.Context(cli.library))
    assert [name for name in names if f"\n  {name} " not in run.stdout] == []
    assert set(names) <= set(cli.main.list_commands(click.Context(cli.main)))
    assert " up " not in run.stdout


def test_a_module_that_fails_in_the_thread_is_left_to_who_uses_it() -> None:
    before = threading.active_count()
    with imported_meanwhile("detectors.cli.terminal", "detectors.no_such_module", "antigravity"):
        pass
    assert threading.active_count() == before
    assert "detectors.cli.terminal" in sys.modules
    assert "antigravity" not in sys.modules


def test_the_console_command_starts_without_the_service_or_a_dataframe_library() -> None:
    code = (
        "import sys, detectors.cli as cli\n"
        "cli.main(['audit', '/no/such/file'], standalone_mode=False)"
    )
    names = "{'flask', 'sqlalchemy', 'redis', 'rq', 'service', 'polars', 'rich'}"
    check = (
        f"import atexit, sys; atexit.register(lambda: print(sorted({names} & set(sys.modules))))\n"
    )
    run = subprocess.run([sys.executable, "-c", check + code], capture_output=True, text=True)
    assert run.stdout == "[]\n"
    assert "cannot read" in run.stderr
