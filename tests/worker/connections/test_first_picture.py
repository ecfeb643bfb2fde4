"""From an admin key to the first picture through the real service, and where that key is not."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import requests

from service.connections.stub import running
from service.core.db import make_session_factory
from service.models.base import utc_now
from tests.service.connections.worlds import make_large
from tests.service.support.scenes import sign_in
from tests.worker.conftest import started_system
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

CANARY: Final = "canary-a7c1e9"
KEY, OTHER_KEY = f"sk-admin-{CANARY}", f"sk-admin-other-{CANARY}"
PAGE: Final = "/settings/connections"
ROWS: Final = 90 * 40 * 12


class Visitor:
    """A signed-in browser that sends forms."""

    def __init__(self, system: System) -> None:
        sessions = make_session_factory(system.engine)
        secret_key = system.environment["SECRET_KEY"]
        self._url = system.base_url
        self._headers = {**sign_in(sessions, "ada@example.org", secret_key), "Accept": "text/html"}

    def get(self, path: str) -> str:
        answer = requests.get(f"{self._url}{path}", headers=self._headers, timeout=60)
        assert answer.status_code == 200, path
        for name, value in answer.cookies.items():  # the token of forms is in the session
            self._headers["Cookie"] = f"{name}={value}"
        return answer.content.decode("utf-8", "replace")

    def post(self, page: str, path: str, **fields: str) -> str:
        [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', self.get(page))
        fields["csrf_token"] = token
        given = {"headers": self._headers, "data": fields, "allow_redirects": False}
        answer = requests.post(f"{self._url}{path}", timeout=60, **given)  # type: ignore[arg-type]
        return f"{answer.status_code} {answer.headers.get('location')} {answer.text}"


@pytest.mark.stress
def test_the_first_picture_of_a_large_organization_is_there_within_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """90 days of 40 keys and 12 models; `test_the_last_90_days_...` is the smaller proof.

    The stub sets no pause. Afterwards the key is nowhere: in no page, download, answer, process or
    file of the service and its servers. `service/web/pages/test_connections.py` looks at pages.
    """
    provider = make_large(KEY)
    with (
        running(provider.stub) as stub,
        started_system(workers=0, CONNECTION_URLS=f"openai={stub.url}/v1") as system,
    ):
        system.start_process("notices-0")
        visitor, seen = Visitor(system), set[str]()
        began = time.monotonic()
        answer = visitor.post(f"{PAGE}/add", f"{PAGE}/add", provider="openai", key=KEY, names="on")
        assert answer.startswith("303"), answer
        path = answer.split()[1].removeprefix(system.base_url)

        def has(page: str, words: str) -> bool:
            seen.update(_list_processes())
            return words in visitor.get(page)

        wait_until(lambda: has("/bill", f"/bill/openai/{utc_now():%Y-%m}"), 300)
        first = time.monotonic() - began
        done = "SELECT pulled_at IS NOT NULL AND next_pull_at > now() FROM provider_connections"
        wait_until(lambda: has(PAGE, "Working") and system.rows(done)[0][0], 300)
        whole = time.monotonic() - began
        assert "not sent" in visitor.get("/spend?days=90")
        daily = "SELECT count(*) FROM reported_usage WHERE NOT is_hourly"
        assert system.rows(daily)[0][0] == ROWS
        with capsys.disabled():
            print(f"first figures after {first:.1f} s, all of them after {whole:.1f} s")  # noqa: T201

        provider.world.key = OTHER_KEY
        pulled = visitor.post(path, f"{path}/pull")
        assert pulled.startswith("303"), pulled
        asked = time.monotonic()
        wait_until(lambda: has(PAGE, "Not working"), 120)
        assert time.monotonic() - asked < 55  # a job that has ended keeps no other from beginning
        refused = visitor.post(path, f"{path}/key", key=f"{KEY}-again")
        assert refused.startswith("422"), refused
        assert visitor.post(path, f"{path}/key", key=OTHER_KEY).startswith("303")
        texts = [answer, refused, *seen]
        pages = (PAGE, path, "/bill", "/bill/savings", "/spend", "/settings/activity", "/settings")
        downloads = ("/spend.csv", "/spend.focus.csv?days=30", "/spend.xlsx", "/findings.csv")
        texts += [visitor.get(page) for page in (*pages, *downloads)]
        assert not [text[:200] for text in texts if CANARY in text]
        assert any("service" in text for text in seen)
        system.redis.save()
        found = list(_find_files(system.folder, CANARY.encode()))
        assert found == []
        # What isn't sealed is found, so the search does look into them.
        assert list(_find_files(system.folder, b"ada@example.org"))
        assert first < 60


def _list_processes() -> Iterator[str]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            yield " ".join([*process.cmdline(), *map(str, process.environ().items())])


def _find_files(folder: Path, words: bytes) -> Iterator[Any]:
    for file in folder.rglob("*"):
        with suppress(OSError):
            if file.is_file() and words in file.read_bytes():
                yield file.relative_to(folder)
