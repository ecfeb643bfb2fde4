"""`tallystick watch` loses and repeats no call, however often it is killed; and its commands."""

import gzip
import json
import os
import plistlib
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks.agent_sessions import Billed, write_sessions
from detectors.agents import reading, units
from detectors.agents.folders import find_sources
from detectors.agents.ledger import Ledger
from detectors.agents.sending import Destination, parse_dsn
from detectors.agents.views import find_windows
from detectors.agents.watching import Watcher, read_status
from detectors.cli import library
from detectors.contract import UsageRecordV2
from tests.cases import each_case
from tests.worker.support.promises import at_a_fiftieth, scaled

KILLS: Final = 1_000
LABELS: Final = ("session_id", "tag")  # which of equal sessions had a call first
LONGEST_LIFE: Final = 3.0  # seconds, of a process that waits


class Service(ThreadingHTTPServer):
    """Takes batches as the service does: a key once. `trouble` is the share that goes wrong."""

    daemon_threads = True

    def __init__(self, trouble: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.random = random.Random(11)
        self.trouble = trouble
        self.answer = 201
        self.batches: dict[str, list[dict[str, Any]]] = {}
        self.limits: list[dict[str, Any]] = []
        self.limits_answer = 200
        self.requests = 0
        self.thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def destination(self) -> Destination:
        return Destination(f"http://127.0.0.1:{self.server_port}/api/v2/ingest", "ik_1")

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for batch in self.batches.values() for record in batch]

    def handle_error(self, *_: object) -> None:  # of clients that were killed
        pass


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        service = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/v1/plan-limits":
            service.limits += json.loads(body)["limits"] if service.answer < 300 else []
            self._answer(service.limits_answer if service.answer < 300 else service.answer)
            return
        service.requests += 1
        luck = service.random.random()
        if luck < service.trouble / 3:
            return  # the connection is closed before anything happened
        if luck < service.trouble / 3 * 2:
            self._answer(503)
            return
        if service.answer < 300:
            records = json.loads(gzip.decompress(body))["records"]
            service.batches.setdefault(self.headers["Idempotency-Key"], records)
        if luck >= service.trouble:  # or else the answer is lost
            self._answer(service.answer)

    def _answer(self, status: int) -> None:
        body = b'{"error": {"code": "some_code"}}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.shutdown()
    service.server_close()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Billed]]:
    home = tmp_path_factory.mktemp("home")
    return home, write_sessions(home, 10, 300_000, seed=7)


def counts_of(calls: list[Billed]) -> list[tuple[str, int, int]]:
    return sorted((call.model, call.prompt, call.completion) for call in calls)


def arrived(records: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return the calls as an account has them: of one response's copies, the larger counts."""
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        key = (record["provider"], record["request_id"])
        if key not in latest or record["completion_tokens"] > latest[key]["completion_tokens"]:
            latest[key] = record
    return sorted(
        (record["model"], record["prompt_tokens"], record["completion_tokens"])
        for record in latest.values()
    )


class Disk:
    """Writes the corpus bit by bit, and does to files what happens to files."""

    def __init__(self, corpus: Path, home: Path, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        self.contents = {p.relative_to(corpus): p.read_bytes() for p in corpus.rglob("*.jsonl")}
        self.ends = dict.fromkeys(self.contents, 0)
        self.rotated = 0

    def write(self, path: Path, end: int) -> None:
        self.ends[path] = max(self.ends[path], end)
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.contents[path][: self.ends[path]])

    def step(self, share: float) -> None:
        path = self.random.choice(list(self.contents))
        size, luck = len(self.contents[path]), self.random.random()
        target = self.home / path
        if luck < 0.8 or not target.exists():
            self.write(path, min(size, int(size * share * self.random.uniform(0.7, 1.3))))
        elif luck < 0.87:
            os.truncate(target, self.random.randrange(self.ends[path] + 1))
        elif luck < 0.94:  # rotated; what follows goes to a new file with all of it
            self.rotated += 1
            target.rename(target.with_name(f"{target.stem}.{self.rotated}.jsonl"))
        else:
            os.utime(target, (self.random.randrange(2_000_000_000),) * 2)

    def finish(self) -> None:
        for path, content in self.contents.items():
            self.write(path, len(content))


def warm_up(home: Path) -> None:
    """Import what a pass needs, so that a child works at once instead of importing."""
    other, ledger = Service(), Ledger(":memory:")
    sources = find_sources({}, home)
    Watcher(ledger, other.destination, sources=sources, settled=0.0).go_round()
    ledger.close()
    other.shutdown()
    other.server_close()


def kill_often(disk: Disk, ledger: Path, service: Service, kills: int) -> None:
    for number in range(kills):
        child = os.fork()
        if not child:
            _watch_forever(disk.home, ledger, service.destination, disk.random.getrandbits(32))
        until = time.monotonic() + LONGEST_LIFE
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            disk.step(number / kills)
            time.sleep(0.001)
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)


def _watch_forever(home: Path, ledger: Path, destination: Destination, seed: int) -> None:
    """Watch in a process whose clock is days off, until it is killed.

    The system kills it after some processor time, which on a busy machine is as much work as on any
    other; nothing of the process runs at that signal.
    """
    try:
        own = random.Random(seed)
        real, off = time.time_ns, own.randrange(-3, 4) * 86_400_000_000_000
        time.time_ns = lambda: real() + off
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, own.choice((0.02, 0.08, 0.3)) * own.random() + 0.001)
        sources = find_sources({}, home)
        watcher = Watcher(Ledger(ledger), destination, sources=sources, settled=0.0)
        watcher.run(0.0, lambda _: True)
    finally:
        os._exit(1)


@at_a_fiftieth
def test_kills_truncations_rotations_and_clocks_lose_and_repeat_no_call(share: float) -> None:
    with_folder(scaled(KILLS, share))


def with_folder(kills: int) -> None:
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"watch-{os.getpid()}"
    service = Service(trouble=0.6)
    try:
        calls = write_sessions(folder / "corpus", 10, 300_000, seed=7)
        home, path = folder / "home", folder / "ledger.db"
        disk = Disk(folder / "corpus", home, seed=3)
        warm_up(folder / "corpus")
        Ledger(path).close()
        kill_often(disk, path, service, kills)
        disk.finish()
        assert service.requests > kills // 100  # fewer on a busy machine, where a kill comes early
        service.trouble = 0.0
        ledger = Ledger(path)
        Watcher(ledger, service.destination, sources=find_sources({}, home), settled=0.0).go_round()
        rows = ledger.database.execute("SELECT model, prompt, completion FROM calls").fetchall()
        assert sorted(rows) == counts_of(calls)
        assert arrived(service.records) == counts_of(calls)
        identical: dict[str, int] = defaultdict(int)
        for record in service.records:
            costs = {name: value for name, value in record.items() if name not in LABELS}
            identical[json.dumps(costs, sort_keys=True)] += 1
        assert max(identical.values()) == 1
        assert ledger.database.execute("SELECT count(*) FROM batches").fetchone() == (0,)
        ledger.close()
    finally:
        service.shutdown()
        service.server_close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ledger(corpus: tuple[Path, list[Billed]]) -> Iterator[Ledger]:
    ledger = Ledger(":memory:")
    yield ledger
    ledger.close()


def watcher_of(home: Path, ledger: Ledger, service: Service, **options: Any) -> Watcher:
    sources = find_sources({}, home)
    return Watcher(ledger, service.destination, sources=sources, **({"settled": 0.0} | options))


def test_calls_arrive_once_with_their_counts_and_label(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service
) -> None:
    watcher = watcher_of(corpus[0], ledger, service, label="laptop")
    for _ in range(3):
        watcher.go_round()
    assert arrived(service.records) == counts_of(corpus[1])
    assert len(service.records) == len(corpus[1])
    assert {record["environment"] for record in service.records} == {"laptop"}
    records = msgspec.json.decode(msgspec.json.encode(service.records), type=list[UsageRecordV2])
    assert sum(record.cache_write_1h_tokens or 0 for record in records) == sum(
        call.written_1h for call in corpus[1]
    )


def test_a_call_that_may_still_grow_waits(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service
) -> None:
    watcher_of(corpus[0], ledger, service, settled=60.0).go_round()
    assert service.records == []
    watcher_of(corpus[0], ledger, service).go_round()
    assert len(service.records) == len(corpus[1])


@pytest.mark.parametrize(
    ("answer", "said"), [(401, "401 some_code"), (503, "503 some_code"), (302, "302 some_code")]
)
def test_what_the_service_refuses_stays_and_is_said(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service, answer: int, said: str
) -> None:
    service.answer = answer
    watcher = watcher_of(corpus[0], ledger, service)
    watcher.go_round()
    watcher.go_round()  # waits, and asks nothing
    assert service.requests == 1
    assert read_status(ledger)["error"] == f"the service answered {said}"
    service.answer = 201
    watcher_of(corpus[0], ledger, service).go_round()
    assert len(service.records) == len(corpus[1])
    assert read_status(ledger)["error"] == ""


def test_a_service_that_is_away_is_tried_again(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service
) -> None:
    nobody = Destination("http://127.0.0.1:9/api/v2/ingest", "ik_1")
    sources = find_sources({}, corpus[0])
    Watcher(ledger, nobody, sources=sources, settled=0.0).go_round()
    assert "can't be reached" in read_status(ledger)["error"]
    watcher_of(corpus[0], ledger, service).go_round()
    assert len(service.records) == len(corpus[1])


def test_the_highest_share_of_each_window_is_sent_once(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service
) -> None:
    now = int(time.time())
    with ledger.changing():
        rows = [("codex", 300, now + 1_000 * n, 5.0, n, "plus", now) for n in range(1, 25)]
        ledger.put_limits(rows)
    for _ in range(2):
        watcher_of(corpus[0], ledger, service, label="laptop").go_round()
    query = "SELECT minutes, resets_at, peak FROM limits ORDER BY 1, 2"
    peaks = ledger.database.execute(query).fetchall()
    assert len(peaks) > 20  # more than a request may have
    sent = sorted(
        (each["window_minutes"], datetime.fromisoformat(each["resets_at"]).timestamp(),
         each["used_percent"])
        for each in service.limits
    )  # fmt: skip
    assert sent == peaks
    assert {(each["provider"], each["environment"]) for each in service.limits} == {
        ("codex", "laptop")
    }
    minutes, resets, peak = peaks[0]
    for used in (peak - 1, peak + 1):
        with ledger.changing():
            ledger.put_limits([("codex", minutes, resets, used, used, "plus", 1)])
        watcher_of(corpus[0], ledger, service).go_round()
    assert [each["used_percent"] for each in service.limits[len(peaks) :]] == [peak + 1]


def test_refused_limits_keep_no_call_waiting(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service
) -> None:
    service.limits_answer = 422
    watcher = watcher_of(corpus[0], ledger, service)
    watcher.go_round()
    said = len(service.limits)
    assert said > 0
    assert read_status(ledger)["error"] == "plan limits: the service answered 422 some_code"
    with ledger.changing():
        ledger.database.execute("UPDATE calls SET sent = NULL")
    watcher.go_round()
    assert len(service.records) == 2 * len(corpus[1])
    assert len(service.limits) == said  # they wait


@each_case(
    "row",
    [
        (0, 2_000_000_000, 5.0, 5.0),
        (44_641, 2_000_000_000, 5.0, 5.0),
        (300, 0, 5.0, 5.0),
        (300, 1 << 70, 5.0, 5.0),
        (300, 2_000_000_000, -1.0, -1.0),
        (300, 2_000_000_000, 5.0, 1_001.0),
        (300, 2_000_000_000, float("nan"), float("nan")),
    ],
)
def test_impossible_windows_are_dropped(row: tuple[float, ...]) -> None:
    ledger = Ledger(":memory:")
    with ledger.changing():
        ledger.put_limits([("codex", *row, "plus", 1)])
    assert ledger.database.execute("SELECT count(*) FROM limits").fetchone() == (0,)
    ledger.close()


@each_case("resets", [1_796_000_000, 1_796_000_000_000, "2026-11-30T00:53:20Z"])
def test_the_end_of_a_codex_window_may_have_any_unit(tmp_path: Path, resets: float | str) -> None:
    path = tmp_path / ".codex" / "sessions" / "2026" / "rollout-1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    window = {"used_percent": 12.0, "window_minutes": 299, "resets_at": resets}
    limits = {"primary": window, "secondary": window | {"window_minutes": 10_079}}
    payload = {"type": "token_count", "info": None, "rate_limits": limits}
    at = "2026-11-29T12:00:00.000Z"
    path.write_text(json.dumps({"timestamp": at, "type": "event_msg", "payload": payload}) + "\n")
    ledger = Ledger(":memory:")
    reading.update(ledger, find_sources({}, tmp_path), processes=1)
    found = [(window.name, window.resets_at) for window in find_windows(ledger)]
    ledger.close()
    # To the minute, and to full hours.
    assert found == [("5-hour", 1_795_999_980), ("weekly", 1_795_999_980)]


def test_an_earlier_release_without_limits_gets_the_calls(
    corpus: tuple[Path, list[Billed]], ledger: Ledger, service: Service
) -> None:
    service.limits_answer = 404
    watcher_of(corpus[0], ledger, service).go_round()
    assert len(service.records) == len(corpus[1])
    assert read_status(ledger)["error"] == ""


@each_case(
    ("dsn", "url"),
    [
        ("https://ik_1@example.com", "https://example.com/api/v2/ingest"),
        ("https://ik_1@example.com:8443/usage/", "https://example.com:8443/usage/api/v2/ingest"),
        ("http://ik_1@127.0.0.1:8000", "http://127.0.0.1:8000/api/v2/ingest"),
        ("http://ik_1@example.com", None),
        ("https://example.com", None),
        ("ftp://ik_1@example.com", None),
        ("https://ik_1@example.com:port", None),
        ("nothing", None),
    ],
)
def test_a_dsn_is_a_key_and_an_address(dsn: str, url: str | None) -> None:
    found = parse_dsn(dsn)
    assert (found and found.url) == url
    assert "ik_1" not in repr(found)


def test_once_fills_the_ledger_and_status_shows_it(
    corpus: tuple[Path, list[Billed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "TALLYSTICK_DSN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(corpus[0]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    path = str(tmp_path / "ledger.db")
    run = CliRunner().invoke(library, ["watch", "--once", "--ledger", path])
    for number, handler in before.items():
        signal.signal(number, handler)
    assert run.exit_code == 0, run.output
    said = CliRunner().invoke(library, ["watch", "status", "--ledger", path]).stdout
    assert "Unit: not installed\nWatch: running" in said
    assert f"Ledger: {len(corpus[1]):,} calls, since 2026-06-2" in said


@each_case(
    ("options", "said"),
    [(["--dsn", "nothing"], "the DSN must be"), (["--label", "\x07"], "--label has at most")],
)
def test_wrong_options_are_named(options: list[str], said: str) -> None:
    result = CliRunner().invoke(library, ["watch", "--once", *options])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.fixture
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a `systemctl` and a `launchctl` that write down how they were called."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("systemctl", "launchctl"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_install_writes_a_unit_that_systemd_accepts_and_uninstall_removes_it(managed: Path) -> None:
    key = "https://ik_secret@example.com"
    options = ["--install", "--dsn", key, "--label", 'my "50%" $laptop']
    result = CliRunner(env={"CODEX_HOME": "/other/codex"}).invoke(library, ["watch", *options])
    assert result.exit_code == 0, result.output
    unit = managed / ".config" / "systemd" / "user" / "tallystick-watch.service"
    settings = managed / ".config" / "tallystick" / "watch.env"
    assert "ik_secret" not in unit.read_text()
    lines = settings.read_text().splitlines()
    assert f'TALLYSTICK_DSN="{key}"' in lines
    assert 'CODEX_HOME="/other/codex"' in lines
    assert settings.stat().st_mode & 0o077 == 0
    called = (managed / "called").read_text()
    assert "systemctl --user enable tallystick-watch.service" in called
    if verify := shutil.which("systemd-analyze"):
        env = {**os.environ, "XDG_RUNTIME_DIR": str(managed)}
        done = subprocess.run(
            [verify, "--user", "verify", str(unit)], capture_output=True, text=True, env=env,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    result = CliRunner().invoke(library, ["watch", "--uninstall", "--forget"])
    assert "Removed the unit." in result.stdout
    assert not unit.exists()
    assert not settings.exists()
    assert CliRunner().invoke(library, ["watch", "--uninstall"]).stdout == "There was no unit.\n"


# A user manager of its own, which runs only where it believes that the system was booted with one.
MANAGER: Final = """
mount -t tmpfs tmpfs /run && mkdir -p -m 700 /run/systemd/system /run/user/0
export XDG_RUNTIME_DIR=/run/user/0
/lib/systemd/systemd --user > "$HOME/manager.log" 2>&1 & manager=$!
trap 'kill $manager; wait $manager' EXIT
until systemctl --user is-system-running > /dev/null 2>&1; do sleep 0.2; done
watch() { "$PYTHON" -m detectors watch "$@"; }
pid() { systemctl --user show --property MainPID --value tallystick-watch; }
watch --install --label laptop
until watch status | grep -q 'Watch: running'; do sleep 0.2; done
kill -KILL "$(pid)"
systemctl --user show --property Restart --value tallystick-watch
until [ "$(systemctl --user is-active tallystick-watch)" = activating ]; do sleep 0.2; done
watch --uninstall --forget
systemctl --user is-active tallystick-watch || true
"""


@pytest.mark.stress
def test_a_real_user_manager_runs_the_unit_and_forgets_it(tmp_path: Path) -> None:
    """It is started in namespaces of its own, for which the test has to be root.

    Processes that it saw, it would move into a control group without real-time priority.
    """
    assert os.geteuid() == 0
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHON": sys.executable}
    done = subprocess.run(
        ["unshare", "--mount-proc", "--pid", "--kill-child", "bash", "-eu", "-c", MANAGER],
        env=env, capture_output=True, text=True, timeout=90, check=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert said[0].endswith("tallystick-watch.service: it runs now and at sign-in.")
    assert said[2] == "on-failure"
    assert said[-1] == "inactive"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["manager.log"]


def test_macos_gets_a_launch_agent(managed: Path) -> None:
    path = units.install(["--every=10"], "https://ik_1@example.com", {}, managed, "darwin")
    agent = plistlib.loads(path.read_bytes())
    assert agent["ProgramArguments"][1:] == ["-m", "detectors", "watch", "--every=10"]
    assert agent["EnvironmentVariables"] == {"TALLYSTICK_DSN": "https://ik_1@example.com"}
    assert path.stat().st_mode & 0o077 == 0
    assert "launchctl load -w" in (managed / "called").read_text()
    assert units.uninstall({}, managed, "darwin")
    assert not path.exists()


def test_a_manager_that_fails_is_named(managed: Path) -> None:
    (managed / "bin" / "systemctl").write_text("#!/bin/sh\necho 'Failed to connect' >&2\nexit 1\n")
    result = CliRunner().invoke(library, ["watch", "--install"])
    assert result.exit_code == 2
    assert "systemctl --user daemon-reload: Failed to connect" in result.stderr


def test_a_watcher_imports_no_dataframe_library_and_no_prices(
    corpus: tuple[Path, list[Billed]], tmp_path: Path
) -> None:
    code = (
        "import re, sys\nfrom detectors.cli import library\n"
        "try:\n    library(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "names = [name for name in ('polars', 'genai_prices', 'rich') if name in sys.modules]\n"
        "status = open('/proc/self/status').read()\n"
        "print(names, int(re.search('VmHWM:\\\\s+(\\\\d+)', status)[1]) // 1024)"
    )
    env = {**os.environ, "HOME": str(corpus[0]), "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "watch", "--once"],
        capture_output=True, text=True, env=env, check=True,
    )  # fmt: skip
    names, megabytes = done.stdout.rsplit(" ", 1)
    assert names == "[]"
    assert int(megabytes) <= 60


def test_status_says_what_waits_and_why(
    corpus: tuple[Path, list[Billed]], tmp_path: Path, service: Service
) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)

    def status() -> str:
        return CliRunner().invoke(library, ["watch", "status", "--ledger", str(path)]).stdout

    assert "Watch: has not run with this ledger\nLedger: 0 calls\n" in status()
    service.answer = 503
    watcher_of(corpus[0], ledger, service).go_round()
    assert "Sending failed: the service answered 503 some_code" in status()
    assert f"Waiting: {len(corpus[1])} calls" in status()
    service.answer = 201
    watcher_of(corpus[0], ledger, service).go_round()
    said = status()
    assert "Sent last: " in said
    assert "Waiting: 0 calls" in said
    assert "failed" not in said
    ledger.close()


def test_a_unit_that_cannot_be_written_is_named(managed: Path) -> None:
    (managed / ".config").write_text("a file, and no folder")
    result = CliRunner().invoke(library, ["watch", "--install"])
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_watch_ends_when_it_is_asked_to(corpus: tuple[Path, list[Billed]], tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(corpus[0]), "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "detectors", "watch", "--every", "0.1"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        path = tmp_path / "tallystick" / "ledger.db"
        while time.monotonic() < until:
            time.sleep(0.05)
            if path.exists():
                ledger = Ledger(path)
                found = read_status(ledger)
                ledger.close()
                if found:
                    break
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
