"""What all commands say of themselves."""

from collections.abc import Iterator
from importlib.metadata import version

import click
from click.testing import CliRunner

from detectors.cli import library, main


def _list(group: click.Group, path: str) -> Iterator[str]:
    """Yield each line of the lists of commands."""
    shown = CliRunner().invoke(main, [*path.split(), "--help"], terminal_width=80).stdout
    yield from (f"{path}{line}" for line in shown.partition("\nCommands:\n")[2].splitlines())
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _list(command, f"{path}{name} ")


def test_every_command_is_listed_with_a_whole_sentence() -> None:
    main.load()
    lines = list(_list(main, ""))
    assert len(lines) > 40
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


def test_the_command_has_the_version_of_the_release() -> None:
    for group in (main, library):
        shown = CliRunner().invoke(group, ["--version"]).stdout
        assert shown == f"tallystick {version('tallystick-server')}\n"
