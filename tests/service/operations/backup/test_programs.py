"""What PostgreSQL's programs say when they fail."""

from pathlib import Path

import pytest

from service.operations.backup.programs import DUMP, Running, find_program, running
from service.operations.backup.repository import BackupError
from tests.cases import each_case


@each_case(
    ("arguments", "reason"),
    [
        ((), "failed: connection to server .* failed: No such file or directory$"),
        (("--nonsense",), "failed: .*unrecognized option '--nonsense'$"),
    ],
)
def test_the_first_error_is_the_reason(arguments: tuple[str, ...], reason: str) -> None:
    program, _ = find_program(DUMP, 15)
    url = "postgresql://user@/database?host=/nowhere"
    with pytest.raises(BackupError, match=reason), running(program, *arguments, url=url) as run:
        run.output.read()


def test_the_address_and_its_options_are_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_KEY", "x" * 32)
    options = "sslmode=require&channel_binding=require&connect_timeout=3&application_name=x"
    url = f"postgresql://user:p%40ss@db.example.com:6432/database?{options}"
    with running(Path("/usr/bin/env"), url=url) as run:
        environment = dict(line.split("=", 1) for line in run.output.read().decode().splitlines())
    expected = {
        "PGHOST": "db.example.com",
        "PGPORT": "6432",
        "PGUSER": "user",
        "PGPASSWORD": "p@ss",
        "PGDATABASE": "database",
        "PGSSLMODE": "require",
        "PGCHANNELBINDING": "require",
        "PGCONNECT_TIMEOUT": "3",
        "PGAPPNAME": "x",
    }
    assert expected.items() <= environment.items()
    assert "SECRET_KEY" not in environment


def test_a_program_may_leave_the_end_of_its_input_unread() -> None:
    with running(Path("/usr/bin/head"), "--bytes=1") as run:
        written = [run.write(bytes(100_000)) for _ in range(20)]
        assert run.output.read() == b"\0"
    assert written == [100_000] * 20


def test_a_program_that_fails_ends_what_is_sent_to_it() -> None:
    def send() -> None:
        with running(Path("/usr/bin/false")) as run:
            while True:
                run.write(bytes(100_000))

    with pytest.raises(BackupError, match="failed"):
        send()


def test_an_error_beside_unread_input_is_the_one_that_is_raised() -> None:
    shell = Path("/bin/sh"), "-c", "exec 0<&-; printf %d 1; exec sleep 60"
    with pytest.raises(ValueError, match="ours"), running(*shell) as run:
        _fail_beside_input(run)


def _fail_beside_input(run: Running) -> None:
    run.output.read(1)  # its input is closed
    run.write(b"a few bytes, which wait in a buffer")
    raise ValueError("ours")
