"""Check that a backup can be restored: every object, or all of it on a server of its own."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from sqlalchemy import select

from service.core.db import migrate
from service.models.audits.audits import ReportRow
from service.models.operations.named_blobs import count_audits, list_named_blobs
from service.operations.backup.creating import THREADS
from service.operations.backup.manifests import Manifest, StoredBlob, database_name
from service.operations.backup.programs import RESTORE, find_program, name_of_database, running
from service.operations.backup.repository import (
    BackupError,
    Content,
    DamagedError,
    Repository,
    Writable,
)
from service.operations.backup.source import make_plain_engine
from service.operations.local.servers import EmbeddedServers

_PAGE: Final = 500


class _Nowhere:
    def write(self, data: bytes, /) -> int:
        return len(data)


def verify_backup(repository: Repository, manifest: Manifest) -> list[str]:
    """Read everything that a backup has, and return what is wrong with it, a line each."""

    def check_blob(blob: StoredBlob) -> str | None:
        try:
            content = repository.read(repository.name_of(blob.sha256), _Nowhere())
        except DamagedError as error:
            return f"{blob.key}: {error}"
        return None if content == (blob.size, blob.sha256) else f"{blob.key}: it was changed"

    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(check_blob, manifest.blobs)
        problems = [problem for problem in found if problem]
    problems += [
        f"{key}: it was already missing when the backup was made" for key in manifest.missing
    ]
    program, _ = find_program(RESTORE, manifest.dump_version)
    try:  # `pg_restore` reads the whole dump, but writes nothing
        with running(program, "--file=/dev/null") as run:
            read_database(repository, manifest, run)
    except BackupError as error:
        problems.append(f"the database: {error}")
    return problems


def read_database(repository: Repository, manifest: Manifest, target: Writable) -> None:
    """Decrypt the dump into a file; raise `DamagedError` if it isn't what was stored."""
    name = database_name(manifest.id)
    content = repository.read(name, target)
    if Content(*content) != manifest.database:
        raise DamagedError(f"{name} isn't what this backup stored: it was changed, or swapped")


def rehearse(repository: Repository, manifest: Manifest) -> list[str]:
    """Restore the database on a PostgreSQL of its own, and look whether each audit is readable."""
    problems = list[str]()
    known = {blob.key for blob in manifest.blobs} | set(manifest.missing)
    reports = select(ReportRow.audit_id, ReportRow.document).execution_options(yield_per=_PAGE)
    with TemporaryDirectory(prefix="tallystick-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL's user passes through
        with EmbeddedServers(Path(folder, "var"), with_redis=False) as servers:
            url = servers.migration_database_url
            restore_database(repository, manifest, url)
            migrate(url)
            with make_plain_engine(url).connect() as connection:
                if (count := count_audits(connection)) != manifest.audits:
                    problems.append(
                        f"the database has {count:,} audits instead of {manifest.audits:,}"
                    )
                for key in set(list_named_blobs(connection)) - known:
                    problems.append(f"{key}: an audit needs it, and the backup lacks it")
                for audit_id, document in connection.execute(reports):
                    try:
                        msgspec.json.decode(document, type=Mapping[str, object])
                    except (msgspec.DecodeError, ValueError):
                        problems.append(f"the report of {audit_id} can't be read")
    return problems


def restore_database(repository: Repository, manifest: Manifest, url: str) -> None:
    """Restore the dump into an empty database, in one transaction."""
    program, _ = find_program(RESTORE, manifest.dump_version)
    options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    with running(program, *options, f"--dbname={name_of_database(url)}", url=url) as run:
        read_database(repository, manifest, run)
