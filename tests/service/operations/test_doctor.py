"""`tallystick doctor`: each check is made to fail, on real servers, and says what to do."""

import http.server
import json
import shutil
import socket
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from redis import Redis
from sqlalchemy import create_engine, make_url, text

from service.cli.doctor import doctor
from service.config import Config
from service.core.db import downgrade, list_revisions
from service.core.sealing import Sealer
from service.jobs.process import QueueWorker
from service.models import Audit
from service.models.mail.outbox import Mail
from service.models.notices.targets import NoticeTarget
from service.operations.backup.repository import new_key
from service.operations.doctor.findings import (
    Diagnosis,
    exit_code,
    fail,
    ok,
    run_check,
    say_age,
    warn,
)
from service.operations.doctor.machine import (
    check_disks,
    check_names,
    check_permissions,
    check_storage,
    check_values,
    check_versions,
)
from service.operations.doctor.servers import (
    check_backups,
    check_database,
    check_keys,
    check_mail,
    check_payments,
    check_redis,
    check_spark,
    check_web,
    check_work,
    compare_clock,
)
from service.operations.maintenance.sweeper import SWEEPER_LOCK
from tests.cases import each_case
from tests.databases import as_ordinary, as_owner
from tests.deploy.proxies import write_certificate
from tests.service.support.live import free_port
from tests.service.support.scenes import Sessions, add_account
from tests.smtp_sink import Sink

PUBLIC = {
    "base_url": "https://tallystick.example.com",
    "trusted_proxies": 1,
    "smtp_url": "smtp+starttls://mail.example.com",
    "encryption_key": "an encryption key of 32 characters or more",
}


def _problems(found: Iterable[Diagnosis]) -> list[tuple[str, str]]:
    """The status and the words of each finding that isn't fine; each says what to do."""
    bad = [finding for finding in found if finding.status != "ok"]
    assert all(finding.advice for finding in bad)
    return [(finding.status, finding.message) for finding in bad]


def _only(found: Iterable[Diagnosis]) -> tuple[str, str]:
    problems = _problems(found)
    assert len(problems) == 1, problems
    return problems[0]


# Settings and versions


def test_names_that_look_like_settings_are_found() -> None:
    assert not _problems(check_names({"PATH": "/", "DATABASE_URL": "x", "SECRET_KEY_FILE": "/x"}))
    wrong = {"REDIS_URI": "x", "SECRETKEY_FILE": "x", "BASE_URL_FILE": "/x"}
    found = check_names({**wrong, "SWEEP_SECONDS": "5", "HOUSEKEEPING_SECONDS": "60"})
    assert [words for _, words in _problems(found)] == [
        "BASE_URL_FILE has no effect: only secrets come from files",
        "HOUSEKEEPING_SECONDS is no longer a setting",
        "REDIS_URI isn't a setting",
        "SECRETKEY_FILE isn't a setting",
        "SWEEP_SECONDS is no longer a setting",
    ]


@each_case(
    ("settings", "status", "words"),
    [
        ({"session_idle_days": 40}, "warn", "SESSION_IDLE_DAYS is longer"),
        ({"secret_key_fallbacks": "x" * 32}, "warn", "its rotation isn't finished"),
        ({"admin_token": f"{'x' * 32} {'y' * 32}"}, "warn", "ADMIN_TOKEN has two tokens"),
        ({**PUBLIC, "base_url": "http://example.com"}, "fail", "starts with http://"),
        ({**PUBLIC, "trusted_proxies": 0}, "warn", "TRUSTED_PROXIES is 0"),
        ({**PUBLIC, "smtp_url": ""}, "fail", "SMTP_URL is not set"),
        ({**PUBLIC, "encryption_key": ""}, "warn", "ENCRYPTION_KEY is not set"),
        ({"database_url": "postgresql://u:p@db.example.com/x"}, "warn", "doesn't require TLS"),
        ({"redis_url": "redis://redis.example.com"}, "warn", "REDIS_URL doesn't use TLS"),
        ({"smtp_url": "smtp://u:p@mail.example.com"}, "fail", "its password without TLS"),
        ({"metrics_host": "0.0.0.0"}, "warn", "METRICS_HOST is reachable"),
        ({"notices_private_targets": "on"}, "warn", "NOTICES_PRIVATE_TARGETS is on"),
        ({"log_level": "DEBUG"}, "warn", "LOG_LEVEL is DEBUG"),
    ],
)
def test_settings_that_are_contradictory_or_insecure_are_found(
    config: Config, settings: Mapping[str, object], status: str, words: str
) -> None:
    assert not _problems(check_values(replace(config, **PUBLIC)))  # type: ignore[arg-type]
    found = _only(check_values(replace(config, **settings)))  # type: ignore[arg-type]
    assert found[0] == status
    assert words in found[1]


def test_libraries_are_compared_with_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "service.lock"
    lock.write_text(
        "flask==0.1 \\\n    --hash=sha256:00\nno-such-library==1 ; python_version < '3'\n"
        "no-such-library==1 \\\nclick>=8\n"
    )
    words = _only(check_versions(lock))[1]
    assert "installed libraries differ from the lock file: flask is " in words
    assert words.endswith("no-such-library is missing")
    assert not _problems(check_versions(tmp_path / "no.lock"))


def test_of_a_library_that_is_installed_twice_the_one_that_is_imported_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "service.lock"
    lock.write_text("some-library==2\n")
    for number, folder in enumerate(("system", "own"), start=1):
        named = tmp_path / folder / f"some_library-{number}.dist-info"
        named.mkdir(parents=True)
        (named / "METADATA").write_text(f"Name: some-library\nVersion: {number}\n")
        monkeypatch.syspath_prepend(tmp_path / folder)
    (tmp_path / "system" / "broken-1.dist-info").mkdir()  # what an interrupted pip leaves
    assert not _problems(check_versions(lock))


# The database


@each_case(
    ("change", "words"),
    [
        ({"username": "nobody_here", "password": "CANARY"}, "rejects the user or password"),
        ({"database": "nothing_here"}, "doesn't exist"),
        ({"query": {"host": "/nowhere"}}, "doesn't answer"),
    ],
)
def test_a_database_out_of_reach_is_found(
    config: Config, change: Mapping[str, object], words: str
) -> None:
    url = make_url(config.database_url).set(**change)  # type: ignore[arg-type]
    changed = replace(config, database_url=url.render_as_string(hide_password=False))
    status, said = _only(check_database(changed))
    assert (status, words in said, "CANARY" in said) == ("fail", True, False), said


def test_connections_of_other_roles_are_counted(config: Config) -> None:
    alone = replace(config, database_url=as_ordinary(as_owner(config.database_url)))
    # This role may not read the tables, which are checked after the connections.
    words = [found.message for found in islice(check_database(alone), 3)]
    assert words[2].endswith("connections are used")
    assert int(words[2].split()[0]) >= 1


def test_tables_rights_and_indexes_are_checked(own_database: Config) -> None:
    assert not _problems(check_database(own_database))
    owner_url = as_owner(own_database.database_url)
    owner = create_engine(owner_url, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        as_the_owner = replace(own_database, database_url=owner_url)
        assert _only(check_database(as_the_owner))[1] == "the role in DATABASE_URL is a superuser"
        role = make_url(own_database.database_url).username
        connection.execute(text(f"REVOKE SELECT ON mails FROM {role}"))
        assert "can't use 1 table, such as mails" in _only(check_database(own_database))[1]
        connection.execute(text(f"GRANT SELECT ON mails TO {role}"))
        connection.execute(text("CREATE TABLE twice AS SELECT 1 AS a FROM generate_series(1, 2)"))
        with pytest.raises(Exception, match="could not create unique index"):
            connection.execute(text("CREATE UNIQUE INDEX CONCURRENTLY ix_twice ON twice (a)"))
        assert "ix_twice" in _only(check_database(own_database))[1]
        connection.execute(text("DROP TABLE twice"))
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert _only(check_database(own_database))[0] == "warn"
        connection.execute(
            text(f"UPDATE alembic_version SET version_num = '{list_revisions()[-1]}'")
        )
    owner.dispose()
    downgrade(owner_url, "-1")
    # The release before may lack tables, too.
    assert "this release needs" in _problems(check_database(own_database))[0][1]


def test_values_that_no_key_opens_are_found(own_database: Config, own_sessions: Sessions) -> None:
    earlier, column = "x" * 32, "notice_targets.url"
    with own_sessions() as session:
        account = add_account(session)
        session.flush()
        target = NoticeTarget(kind="webhook", url="https://a.example", secret="x", events=[])
        target.account_id = account.id
        session.add(target)
        session.commit()
        assert not _problems(check_keys(own_database))
        sealed = {"url": Sealer([earlier]).seal(column, "https://a.example")}
        session.execute(text("UPDATE notice_targets SET url = :url"), sealed)
        session.commit()
    assert _only(check_keys(own_database)) == ("fail", "no key opens 1 sealed value")
    assert not _problems(check_keys(replace(own_database, encryption_key_fallbacks=earlier)))


# Clocks


@each_case(
    ("theirs", "status", "words"),
    [
        (1001, "ok", "agrees"),
        (1005, "warn", "5 seconds ahead of"),
        (1, "fail", "16 minutes behind"),
    ],
)
def test_clocks_are_compared(theirs: float, status: str, words: str) -> None:
    found = compare_clock("Redis", theirs, 1000)
    assert (found.status, words in found.message) == (status, True), found


def test_a_machine_whose_clock_is_wrong_is_found(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SimpleNamespace(time=lambda: time.time() - 2.5 * 3600)
    monkeypatch.setattr("service.operations.doctor.servers.time", slow)
    for check in (check_database, check_redis):
        assert any(
            "2 hours ahead of this machine" in words for _, words in _problems(check(config))
        )


# Redis and workers


@pytest.fixture
def redis(redis_url: str) -> Iterator["Redis"]:
    with closing(Redis.from_url(redis_url)) as redis:
        redis.flushdb()
        yield redis
        redis.flushdb()


def test_a_redis_out_of_reach_is_found(config: Config) -> None:
    down = replace(config, redis_url="unix:///nowhere/redis.sock")
    assert "Redis doesn't answer" in _only(check_redis(down))[1]
    path = make_url(config.redis_url).database
    closed = replace(config, redis_url=f"unix://nobody:CANARY@/{path}")
    assert _only(check_redis(closed)) == ("fail", "Redis rejects the user or password")


def test_workers_and_eviction_are_checked(config: Config, redis: "Redis") -> None:
    missing = [words for _, words in _problems(check_redis(config))]
    assert missing == ["no worker for audits", "no worker for mail", "no worker for notices"]
    for queues in (["uploads", "ingest"], ["mail"], ["notices"]):
        QueueWorker(redis, queues).register_birth()  # type: ignore[no-untyped-call]
    assert not _problems(check_redis(config))
    redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert "maxmemory-policy is allkeys-lru" in _only(check_redis(config))[1]
    finally:
        redis.config_set("maxmemory-policy", "noeviction")


def test_workers_are_found_whatever_the_clock_says(
    config: Config, redis: "Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    for queues in (["uploads", "ingest"], ["mail"], ["notices"]):
        QueueWorker(redis, queues).register_birth()  # type: ignore[no-untyped-call]
    fast = SimpleNamespace(time=lambda: time.time() + 2.5 * 3600)
    monkeypatch.setattr("service.operations.doctor.servers.time", fast)
    (problem,) = _problems(check_redis(config))
    assert "clock" in problem[1]


# Storage, disks, permissions


def test_storage_that_does_not_work_is_found(config: Config, tmp_path: Path) -> None:
    assert not _problems(check_storage(config))
    assert not list((tmp_path / "blobs").rglob("*.jsonl"))
    (tmp_path / "file").write_text("")
    broken = replace(config, storage_url=f"file://{tmp_path}/file/blobs")
    assert _only(check_storage(broken)) == ("fail", "can't write a blob (Not a directory)")


def test_a_bucket_that_does_not_work_has_a_reason(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1/CANARY",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "CANARY",
        "AWS_SECRET_ACCESS_KEY": "CANARY",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    bucket = replace(config, storage_url="s3://CANARY")
    reason = "can't write a blob (the S3 endpoint refused the connection)"
    assert _only(check_storage(bucket)) == ("fail", reason)


def test_a_folder_of_an_ordinary_user_is_left_alone_by_root(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("service.operations.doctor.machine._owner", lambda _folder: 1000)
    assert not _problems(check_storage(config))
    assert not (tmp_path / "blobs").exists()


@pytest.mark.parametrize(("share", "status"), [(0.5, "ok"), (0.05, "warn"), (0.01, "fail")])
def test_a_disk_that_fills_up_is_found(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, status: str
) -> None:
    usage = namedtuple("usage", "total used free")
    size = 1024**4
    full = usage(size, size - int(size * share), int(size * share))
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: full)
    found = [one for one in check_disks(config, tmp_path) if "GiB free" in one.message]
    assert {one.status for one in found} == {status}
    counts = SimpleNamespace(f_files=1000, f_favail=int(1000 * share))
    monkeypatch.setattr("os.statvfs", lambda _path: counts)
    inodes = [one for one in check_disks(config, tmp_path) if "inodes" in one.message]
    assert bool(inodes) == (status != "ok")


def test_keys_that_others_can_read_are_found(tmp_path: Path) -> None:
    key = tmp_path / "secret_key"
    key.write_text("CANARY")
    key.chmod(0o600)
    assert not _problems(check_permissions(tmp_path))
    key.chmod(0o640)
    assert _only(check_permissions(tmp_path))[1].startswith("other users can read secret_key")
    assert not list(check_permissions(None))


# Mail, web, payments


def test_mail_servers_are_asked(config: Config) -> None:
    assert not _problems(check_mail(config))
    sink = Sink()
    sink.start()
    try:
        assert not _problems(check_mail(replace(config, smtp_url=sink.url)))
        named = sink.url.replace("//", "//user:CANARY@")
        words = _only(check_mail(replace(config, smtp_url=named)))[1]
        assert "can't be used (SMTPNotSupportedError)" in words
        assert not sink.taken
    finally:
        sink.stop()
    assert "ConnectionRefusedError" in _only(check_mail(replace(config, smtp_url=sink.url)))[1]


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(HTTPStatus.OK if self.path == "/healthz" else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("localhost", 0), _Answering) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


def test_the_public_url_is_asked(config: Config, site: http.server.ThreadingHTTPServer) -> None:
    url = f"http://localhost:{site.server_port}"
    assert not _problems(check_web(replace(config, base_url=url)))
    words = _only(check_web(replace(config, base_url=f"{url}/elsewhere")))[1]
    assert words == "BASE_URL/healthz returns 404"
    closed = replace(config, base_url=f"http://localhost:{free_port()}")
    assert "BASE_URL doesn't answer" in _only(check_web(closed))[1]


def test_the_certificate_is_checked(
    config: Config,
    site: http.server.ThreadingHTTPServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ssl

    write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    site.socket = context.wrap_socket(site.socket, server_side=True)
    public = replace(config, base_url=f"https://localhost:{site.server_port}")
    assert "isn't valid" in _only(check_web(public))[1]
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    assert _only(check_web(public)) == ("warn", "the certificate of BASE_URL is valid for 23 hours")


def test_a_payment_provider_that_never_sent_anything_is_found(own_database: Config) -> None:
    assert not list(check_payments(own_database))
    used = replace(own_database, stripe_webhook_secret="whsec_CANARY")
    assert _only(check_payments(used))[1] == "stripe has never sent an event"


# Queues, sweeper, backups


def test_what_waits_too_long_is_found(own_database: Config, own_sessions: Sessions) -> None:
    assert _only(check_work(own_database))[1].startswith("no sweeper is running")
    with own_sessions() as session:
        session.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": SWEEPER_LOCK})
        assert not _problems(check_work(own_database))
        now = datetime.now(UTC)
        account = add_account(session, email="ada@example.com")
        waiting = {"account_id": account.id, "source": "ingest", "blob_key": "raw/x.jsonl"}
        session.add(Audit(**waiting, created_at=now - timedelta(hours=2)))
        late = now - timedelta(minutes=3)
        session.add(Mail(kind="sign_in", recipient="ada@example.com", created_at=late))
        session.commit()
        session.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": SWEEPER_LOCK})
        problems = _problems(check_work(own_database))
    assert ("fail", "1 audit waits, the oldest for 2 hours") in problems
    assert ("warn", "1 mail waits, the oldest for 3 minutes") in problems


@pytest.mark.parametrize(("hours", "status"), [(1, "ok"), (30, "warn"), (200, "fail")])
def test_old_backups_are_found(tmp_path: Path, hours: int, status: str) -> None:
    environment = {"BACKUP_URL": f"file://{tmp_path}", "BACKUP_KEY": new_key()}
    assert _only(check_backups(environment))[1] == "there is no backup at BACKUP_URL"
    made_at = datetime.now(UTC) - timedelta(hours=hours)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / f"{made_at:%Y%m%dT%H%M%S%fZ}-0123abcd.age").write_text("")
    assert [one.status for one in check_backups(environment)] == [status]


def test_backups_that_are_not_set_up_are_found(tmp_path: Path) -> None:
    assert _only(check_backups({}))[1] == "BACKUP_URL is not set"
    status, words = _only(check_backups({"BACKUP_URL": f"file://{tmp_path}", "BACKUP_KEY": "x"}))
    assert (status, "can't be listed" in words) == ("fail", True)


# The command


@pytest.fixture
def diagnose(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str]]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **settings: str) -> tuple[int, str]:
        own = {
            "SECRET_KEY": config.secret_key,
            "DATABASE_URL": config.database_url,
            "REDIS_URL": config.redis_url,
            "STORAGE_URL": config.storage_url,
            "BASE_URL": f"http://localhost:{free_port()}",
            **settings,
        }
        result = CliRunner().invoke(doctor, arguments, env=own)
        return result.exit_code, result.output

    return run


def test_it_prints_every_finding_and_no_secret(diagnose: Callable[..., tuple[int, str]]) -> None:
    code, output = diagnose(
        "--json",
        SECRET_KEY="CANARY" * 8,
        ADMIN_TOKEN="CANARY" * 8,
        REDIS_URL="unix://nobody:CANARY@/nowhere",
        SMTP_URL=f"smtp://user:CANARY@127.0.0.1:{free_port()}",
        STRIPE_WEBHOOK_SECRET="whsec_CANARY",
        STRIPE_WEBHOOK_SECRETS="CANARY",
        BACKUP_KEY="CANARY",
        BACKUP_URL="file:///nowhere",
    )
    document = json.loads(output)
    assert code == 2
    assert {one["area"] for one in document["findings"]} >= {
        "settings", "versions", "database", "clocks", "redis", "storage", "disk", "queue",
        "sweeper", "mail", "payments", "backups", "web",
    }  # fmt: skip
    assert document["ok"] + document["warn"] + document["fail"] == len(document["findings"])
    assert "CANARY" not in output


def test_settings_that_cannot_be_read_are_a_failure(
    diagnose: Callable[..., tuple[int, str]],
) -> None:
    code, output = diagnose(SECRET_KEY="short")
    assert code == 2
    assert "SECRET_KEY must have at least 32 characters" in output
    code, output = diagnose(DATABASE_URL="")
    assert (code, "tallystick isn't running in var" in output) == (2, True)


def test_the_exit_code_is_that_of_the_worst_finding_and_a_broken_check_is_one() -> None:
    assert exit_code([]) == exit_code([ok("")]) == 0
    assert exit_code([ok(""), warn("", "")]) == 1
    assert exit_code([fail("", ""), warn("", "")]) == 2

    # A check that breaks is a finding without its text.
    def broken() -> Iterator[Diagnosis]:
        yield ok("first")
        raise RuntimeError("CANARY")

    assert [one.status for one in run_check("x", broken())] == ["ok", "fail"]
    assert "CANARY" not in str(list(run_check("x", broken())))


@each_case(
    ("seconds", "words"), [(0, "0 seconds"), (60, "1 minute"), (7300, "2 hours"), (9e5, "10 days")]
)
def test_durations_are_said_in_one_unit(seconds: float, words: str) -> None:
    assert say_age(seconds) == words


def test_a_spark_cluster_that_is_away_is_found(config: Config) -> None:
    assert list(check_spark(replace(config, spark_remote="", spark_master=""))) == []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{free.getsockname()[1]}"
        (found,) = check_spark(replace(config, spark_remote="", spark_master=master))
    assert found.status == "fail"
    assert "can't be reached" in found.message
    assert "127.0.0.1" not in found.message + found.advice
