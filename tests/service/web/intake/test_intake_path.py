"""The path of a batch and of a file, as architecture.md describes it: short, and never backward."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from flask import Flask
from flask.testing import FlaskClient

from service.models import Credit
from tests.service.support.oauth_flow import browser_of
from tests.service.support.scenes import AUDITS, INGEST, Sessions, Tenant, batch
from tests.service.support.uploads import MULTIPART, log_file, one_file

ROOT: Final = Path(__file__).parents[4]
INTAKE: Final = "service/web/intake/"
VIEWS: Final = {"batch": "service/web/api/ingest.py", "file": "service/web/api/uploads.py"}
MAX_HOPS: Final = 9
# Not steps: the caller, the settings, the session, the trace, a new ID, a blob's key, a failed disk
# as 503, a block of the body, how long a statement may wait, and what bounds a file's cost: its
# processor time and its account's turn.
ACCESSORS: Final = frozenset(
    f"service/{name}.py"
    for name in (
        "core/bounded_connections",
        "core/telemetry/traces",
        "models/audits/blob_keys",
        "models/base",
        "web/auth/callers",
        "web/http/bodies",
        "web/http/current",
        "web/http/error_responses",
        "web/intake/processor_time",
        "web/intake/upload_turns",
    )
)


def _file(frame: FrameType) -> str:
    """Return the file of our code that runs here; all readers of logs count as one."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT / "service") and not path.is_relative_to(ROOT / "detectors"):
        return ""
    name = str(path.relative_to(ROOT))
    return "detectors/formats/" if name.startswith("detectors/") else name


def _caller(frame: FrameType) -> str:
    back = frame.f_back
    while back is not None and not _file(back):
        back = back.f_back
    return "" if back is None else _file(back)


@contextmanager
def _followed(view: str) -> Iterator[list[str]]:
    """Collect the files that the view and the intake call into, from the view to the queue."""
    calls: list[str] = []
    seen: dict[int, FrameType] = {}  # a generator's frame is called again each time it resumes

    def follow(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or id(frame) in seen or not (file := _file(frame)):
            return
        if not seen and file != view:
            return
        seen[id(frame)] = frame
        caller = _caller(frame)
        follows = caller == view or caller.startswith(INTAKE)
        if follows and file not in (caller, view) and file not in ACCESSORS:
            calls.append(file)
        if frame.f_code.co_name == "enqueue_audit":
            sys.setprofile(None)

    sys.setprofile(follow)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _documented(kind: str) -> list[str]:
    """Return the files of the numbered list in architecture.md that this kind passes."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    [section] = re.findall(r"## From a request to a queued audit\n(.*?)\n## ", text, re.S)
    steps = re.findall(r"^\d\. \*\*(.+?)\*\* `(.+?)`(?: \((\w+)s only\))?", section, re.M)
    return [file for _name, file, only in steps if only in ("", kind)]


def _send(client: FlaskClient, kind: str, tenant: Tenant) -> Any:
    if kind == "batch":
        return client.post(INGEST, json=batch(), headers=tenant.writes)
    headers = {"Sec-Fetch-Site": "same-origin"}
    return client.post(AUDITS, data=one_file(log_file()), content_type=MULTIPART, headers=headers)


@pytest.mark.parametrize("kind", VIEWS)
def test_an_audit_is_queued_in_nine_hops_without_turning_back(
    kind: str, share_app: Callable[..., Flask], sessions: Sessions, tenant: Tenant
) -> None:
    client = share_app().test_client()
    browser_of(sessions, client, tenant.account_id)
    with sessions() as session:
        session.add(Credit(account_id=tenant.account_id))
        session.commit()
    with _followed(VIEWS[kind]) as calls:
        response = _send(client, kind, tenant)
    assert response.status_code == 201, response.text
    path = list(dict.fromkeys(calls))
    assert len(path) <= MAX_HOPS
    assert set(path) == set(_documented(kind))
    rooms = [file for file, _ in groupby(calls) if file.startswith(INTAKE)]
    assert len(rooms) == len(set(rooms)), f"the reader turns back: {rooms}"
