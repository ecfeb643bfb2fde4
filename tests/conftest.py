"""The servers that tests run against: real ones, one set a test process, migrated once."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.embedded import EmbeddedServers


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """A folder with a short path that other users may pass through, unlike pytest's own.

    PostgreSQL runs as another user where the tests run as root.
    """
    folder = Path(tempfile.mkdtemp(prefix="tallystick-tests-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def servers(servers_folder: Path) -> Iterator[EmbeddedServers]:
    """PostgreSQL and Valkey for every test of this process that leaves them running.

    A test that stops or kills servers starts a set of its own, on another folder.
    """
    with EmbeddedServers(servers_folder / "shared") as servers:
        yield servers


@pytest.fixture(scope="session")
def database_url(servers: EmbeddedServers) -> str:
    """The database, with its tables."""
    from service.db import migrate

    migrate(servers.database_url)
    return servers.database_url


@pytest.fixture(scope="session")
def redis_url(servers: EmbeddedServers) -> str:
    return servers.redis_url


@pytest.fixture
def private_servers(servers_folder: Path) -> Iterator[EmbeddedServers]:
    """A set of servers, without tables, for one test to stop, kill and restart."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o711)
    with EmbeddedServers(folder / "var") as servers:
        yield servers
