"""Commands on a database of their own, and a second `tallystick up` on this machine."""

import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click import Group
from click.testing import CliRunner, Result
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from service.cli import register
from tests.databases import make_database
from tests.running import ONE_OF_EACH, Up, open_program


@pytest.fixture
def second(servers_folder: Path, open_python: dict[str, str]) -> Iterator[Up]:
    """A service of a test's own, to restart and to kill."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder)) / "var"
    folder.parent.chmod(0o711)
    settings = {**open_python, **ONE_OF_EACH, "REFUSE_ROOT": "1"}
    second = open_program(Up, open_python)(folder, "--reload", **settings)
    yield second
    if second.process.poll() is None:
        second.stop(signal.SIGTERM)


@pytest.fixture(scope="module")
def own_url(database_url: str) -> str:
    """A database of its own, since what commands commit stays."""
    return make_database(database_url)


@pytest.fixture
def committed(own_url: str) -> Iterator[Session]:
    """Rows that a command, which is another client of the database, can see."""
    engine = create_engine(own_url)
    with Session(engine, expire_on_commit=False) as session:
        yield session
    engine.dispose()


@pytest.fixture
def invoke(
    own_url: str, redis_url: str, blobs: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Runs a command of the service on that database."""
    monkeypatch.setenv("DATABASE_URL", own_url)
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("STORAGE_URL", blobs.as_uri())
    monkeypatch.setenv("SECRET_KEY", "a secret key for tests, 32 or longer")
    monkeypatch.setenv("BASE_URL", "https://usage.example.com/")
    group = Group()
    register(group)
    return lambda *arguments: CliRunner().invoke(group, arguments)
