"""PostgreSQL in a data folder: created once, then started on a Unix socket without a TCP port.

It has two roles: the owner of the database, a superuser, for migrations only, and the service's.
"""

import os
import pwd
import shutil
import signal
import struct
import subprocess
from contextlib import closing
from urllib.parse import quote

import psycopg2

from service.core.durable_files import write_private
from service.operations.local.handle import Probe, Program, ServersError, ServerStartError, run_as
from service.operations.local.placement import ENVIRONMENT, SOCKET_NAME, Placement, make_private

NAME = "postgres"
DATABASE = OWNER_ROLE = "tallystick"
ROLE = "tallystick_service"
_PORT = SOCKET_NAME.rpartition(".")[2]  # named, because libpq reads PGPORT
_SETTINGS = {
    "listen_addresses": "",
    # The sockets' folder decides who can connect.
    "unix_socket_permissions": "0777",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    # PostgreSQL 18 stays down for good if a process is killed while it recovers from the crash of
    # another. So it exits at the first crash, and the supervisor starts it again.
    "restart_after_crash": "off",
    # Logged statements and error details would contain records.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
_INITDB_OPTIONS = (
    f"--username={OWNER_ROLE}",
    "--encoding=UTF8",
    # The same sort order on every machine, regardless of its locales.
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    "--auth-host=reject",
    "--auth-local=peer",
)


def prepare(placement: Placement) -> None:
    """Create the data folder if needed, and admit the users of this service."""
    folder, user = placement.folder / NAME, placement.user
    try:
        owner_name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        problem = f"PostgreSQL needs a user name, but the user ID {os.geteuid()} has none"
        raise ServersError(problem) from None
    if not folder.exists():
        # Under a temporary name, so that a kill leaves no incomplete folder.
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make_private(unfinished, user)
        initdb = placement.binaries.postgres / "bin/initdb"
        made = subprocess.run(  # noqa: S603 - our own program
            [initdb, "--pgdata", unfinished, *_INITDB_OPTIONS],
            env=ENVIRONMENT,
            cwd=placement.folder,
            capture_output=True,
            text=True,
            check=False,
            **run_as(user),
        )
        if made.returncode != 0:
            log_file = placement.folder / "initdb.log"
            log_file.write_text(made.stdout + made.stderr)
            raise ServerStartError("PostgreSQL", log_file)
        unfinished.rename(folder)
    # Only the users of this service, as identified by the kernel. The user that runs the programs
    # is no owner, unless the same user started everything.
    roles = [(owner_name, OWNER_ROLE), (owner_name, ROLE)]
    if placement.programs_user is not None:
        roles.append((placement.programs_user.pw_name, ROLE))
    user_map = "".join(f'tallystick "{name}" {role}\n' for name, role in roles)
    owner = (user.pw_uid, user.pw_gid) if user else (-1, -1)
    admitted = f"local all {OWNER_ROLE},{ROLE} peer map=tallystick\n"
    for name, text in (("pg_ident.conf", user_map), ("pg_hba.conf", admitted)):
        # Replaced without following a link of the server's user.
        write_private(folder / name, text.encode(), owner)


def program(placement: Placement) -> Program:
    folder, socket = placement.folder / NAME, str(placement.sockets / SOCKET_NAME)
    settings = _SETTINGS | {"unix_socket_directories": str(placement.sockets)}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    # A question that opens a session, in version 3.0 of the protocol, and ends it at once.
    words = f"user\0{OWNER_ROLE}\0database\0postgres\0\0".encode()
    question = struct.pack("!II", 8 + len(words), 3 << 16) + words + b"X" + struct.pack("!I", 4)
    return Program(
        name=NAME,
        command=(str(placement.binaries.postgres / "bin/postgres"), "-D", str(folder), *options),
        folder=str(placement.folder),
        environment=ENVIRONMENT,
        user=placement.user,
        stop_signal=signal.SIGINT,  # "fast" shutdown: disconnects sessions without losing data
        stop_seconds=20.0,
        pid_files=(str(folder / "postmaster.pid"), f"{socket}.lock"),
        # The error cannot_connect_now: it starts, recovers or stops.
        probe=Probe(socket, question, not_ready=b"C57P03\0"),
        longest_backoff_seconds=1.0,
        is_server=True,
    )


def database_url(placement: Placement, role: str = ROLE) -> str:
    host = quote(str(placement.sockets), safe="")
    return f"postgresql+psycopg2://{role}@:{_PORT}/{DATABASE}?host={host}"


def answers(placement: Placement) -> bool:
    """Check whether the server accepts connections; create what is missing the first time."""
    address = f"postgresql://{OWNER_ROLE}@:{_PORT}/postgres?connect_timeout=2"
    try:
        connection = psycopg2.connect(address, host=str(placement.sockets))
    except psycopg2.OperationalError:
        return False
    connection.autocommit = True  # CREATE DATABASE can't run in a transaction.
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_database WHERE datname = %s", (DATABASE,))
        if cursor.rowcount == 0:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute("SELECT FROM pg_roles WHERE rolname = %s", (ROLE,))
        if cursor.rowcount == 0:
            cursor.execute(f"CREATE ROLE {ROLE} LOGIN")
    return True
