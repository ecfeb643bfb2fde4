"""Shared by the tests of uploads: people with credits, small logs, and how to send a file."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import requests
from sqlalchemy import delete

from service.models import Account, Credit
from service.models.billing.credits import count_free_credits
from tests.service.support.scenes import AUDITS, Sessions, sign_in

MULTIPART = "multipart/form-data; boundary=x7Qp"


@dataclass(frozen=True)
class Person:
    """A signed-in account; `headers` are those of its browser."""

    account_id: str
    email: str
    headers: dict[str, str]


def add_person(sessions: Sessions, credits: int = 0) -> Person:
    email = f"{uuid4().hex}@example.org"
    return give_credits(sessions, email, credits, sign_in(sessions, email))


def give_credits(sessions: Sessions, email: str, credits: int, headers: dict[str, str]) -> Person:
    """The person with this address, who has these credits and no others."""
    with sessions() as session:
        account = session.query(Account).filter_by(email=email).one()
        session.execute(delete(Credit).where(Credit.account_id == account.id))
        session.add_all(Credit(account_id=account.id) for _ in range(credits))
        session.commit()
        return Person(account.id, email, headers)


def free_credits(sessions: Sessions, person: Person) -> int:
    with sessions() as session:
        return count_free_credits(session, person.account_id)


def openai_line(**fields: Any) -> dict[str, Any]:
    """A line of an OpenAI-style log, with these fields instead or as well."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "gpt-4o-mini",
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        **fields,
    }


def log_file(lines: int = 3, **fields: Any) -> bytes:
    """A small log; the fields make it differ from others."""
    return b"".join(json.dumps(openai_line(**fields)).encode() + b"\n" for _ in range(lines))


def upload(
    url: str, person: Person, file: bytes, *, key: str | None = None, **headers: str
) -> requests.Response:
    """Send the file as a browser does, in one multipart part."""
    if key is not None:
        headers["Idempotency-Key"] = key
    return requests.post(
        f"{url}{AUDITS}",
        files={"file": ("usage.jsonl", file, "application/octet-stream")},
        headers={**person.headers, **headers},
        timeout=60,
    )


def multipart(parts: list[tuple[str, bytes]], boundary: str = "x7Qp") -> bytes:
    """A body of parts, each given by what its Content-Disposition says and by its bytes."""
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode()
        + content
        + b"\r\n"
        for disposition, content in parts
    )
    return body + f"--{boundary}--\r\n".encode()


def one_file(content: bytes, name: str = "usage.jsonl") -> bytes:
    return multipart([(f'name="file"; filename="{name}"', content)])


def post_body(
    url: str, person: Person, body: Any, content_type: str = MULTIPART, **headers: str
) -> requests.Response:
    """Send a body as it stands; one without a length, an iterator for instance, goes in chunks."""
    return requests.post(
        f"{url}{AUDITS}",
        data=body,
        headers={**person.headers, "Content-Type": content_type, **headers},
        timeout=60,
    )


def error_in(response: requests.Response, status: int, code: str) -> str:
    """Check that the answer is this error's envelope; returns its message."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) - {"payment_links"} == {"code", "message", "request_id"}
    assert error["code"] == code
    message = error["message"]
    assert isinstance(message, str)
    return message
