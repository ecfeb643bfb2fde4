"""What PostgreSQL's programs say when they fail."""

import pytest

from service.operations.backup.programs import DUMP, find_program, running
from service.operations.backup.repository import BackupError


@pytest.mark.parametrize(
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
