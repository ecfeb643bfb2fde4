"""Every route with every kind of credential, of its own account and of another, against one table.

The routes come from the application's URL map.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Final
from zipfile import ZipFile

import pytest
import time_machine
from flask import Flask
from flask.testing import FlaskClient

from service.models import (
    Account,
    Audit,
    AuditSettings,
    IngestKey,
    Payment,
    ProviderConnection,
    ReadToken,
    ReportedName,
    ReportLink,
)
from service.models.base import utc_now
from service.models.identity.security_events import EventKind, add_security_event
from service.web.auth.scopes import SCOPES
from tests.service.payments.providers import SETTINGS as PROVIDERS
from tests.service.support.access_table import ADMIN, CREDENTIALS, RT_BOTH, SESSION, TABLE, Cell
from tests.service.support.access_world import World, ask, make_cost, make_world, request_for
from tests.service.support.described import FILES, check_kind, make_application_on_nothing
from tests.service.support.scenes import ADMIN_TOKEN, Caller, Sessions
from tests.service.support.spend import add_plan_usage, add_spend, spend_line
from tests.worker.support.promises import Note, at_a_sixth, in_turn, sampled

Route = tuple[str, str]
OF_ANOTHER: Final = " of another"
# Each names a thing of an account.
IDS: Final = (
    "audit_id",
    "session_id",
    "key_id",
    "token_id",
    "application_id",
    "target_id",
    "delivery_id",
    "finding_id",
    "connection_id",
)
MISSING: Final = "0" * 32
# Without these, they show no names.
QUERIES: Final = {
    "/api/v1/spend": "?group_by=route",
    "/go": "?q=cana",
    "/model": "?model=gpt-5.5",
}
# Of their owner, but for the email address in each page's head.
SHOWS_NOTHING: Final = {
    "/settings",
    "/settings/connections/add",
    "/settings/delete",
    "/settings/notices/add",
    "/settings/passkeys/add",
    "/sign-in/confirm",
}


@pytest.fixture
def app(share_app: Callable[..., Flask]) -> Flask:
    plenty = {f"{name}_limit_per_minute": 100_000 for name in ("magic_link", "upload")}
    return share_app(admin_token=ADMIN_TOKEN, **PROVIDERS, **plenty)


def _routes(app: Flask) -> Iterator[Route]:
    for rule in app.url_map.iter_rules():
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield method, rule.rule


def _expected(route: Route, names: Sequence[str] = CREDENTIALS) -> dict[str, int]:
    row = TABLE[route]
    mine = {name: row.cell(name).mine for name in names}
    return mine | {f"{name}{OF_ANOTHER}": row.cell(name).others for name in names}


def _statuses(
    app: Flask, route: Route, mine: World, other: World, names: Sequence[str] = CREDENTIALS
) -> dict[str, int]:
    """Others are asked first: what is mine may be gone after I was asked."""
    client, statuses = app.test_client(use_cookies=False), {}
    for name in names:
        caller = other.callers[name]
        statuses[f"{name}{OF_ANOTHER}"] = ask(client, route, caller, mine.ids).status_code
    for name in sorted(names, key=lambda one: one in TABLE[route].taken):
        answer = ask(client, route, mine.callers[name], mine.ids)
        check_kind(route[1], answer)
        statuses[name] = answer.status_code
    return statuses


def test_the_table_has_every_route_and_no_other(app: Flask) -> None:
    assert set(_routes(app)) == set(TABLE)
    assert {rule for _, rule in TABLE} >= FILES


def test_no_cell_names_a_credential_that_is_none() -> None:
    assert {one for row in TABLE.values() for one in row.taken} <= set(CREDENTIALS)


def test_a_request_without_credentials_gets_the_response_in_the_table(
    app: Flask, sessions: Sessions
) -> None:
    world, client = make_world(sessions), app.test_client(use_cookies=False)
    for route, row in TABLE.items():
        path, options = request_for(route, world.callers["none"], world.ids)
        for method in (route[0], "HEAD") if route[0] == "GET" else (route[0],):
            with client.open(path, method=method, **options) as response:
                assert response.status_code == row.cell("none").mine, (method, path)
                check_kind(route[1], response)
        if row.denied == 401:
            listed = client.options(path)
            assert (listed.status_code, listed.data) == (200, b""), path


def test_missing_credentials_are_noticed_without_database_redis_or_storage() -> None:
    """Three routes need the servers to answer; a link to no report is not found without them."""
    app = make_application_on_nothing(**PROVIDERS)
    client, nobody = app.test_client(use_cookies=False), Caller({})
    ids = {name: "x" for rule in app.url_map.iter_rules() for name in rule.arguments}
    ids["path:filename"] = "tallystick.css"
    different = {}
    for route, row in TABLE.items():
        path, options = request_for(route, nobody, ids)
        with client.open(path, method=route[0], **options) as response:
            if response.status_code != row.denied:
                different[route] = response.status_code
    from_servers = {
        ("POST", "/api/v1/early-access"): 503,
        ("POST", "/auth/magic-link"): 503,
        ("GET", "/readyz"): 503,
    }
    reports = {route: 404 for route in TABLE if route[1].startswith("/r/")}
    assert different == from_servers | reports


@pytest.mark.parametrize("route", sampled(TABLE, 8), ids=" ".join)
def test_a_route_gives_who_may_and_some_who_may_not_the_response_in_the_table(
    app: Flask, sessions: Sessions, route: Route
) -> None:
    """No credential, a session, each that the route takes, and another in turn."""
    in_turn = CREDENTIALS[list(TABLE).index(route) % len(CREDENTIALS)]
    chosen = {"none", SESSION, in_turn, *TABLE[route].taken}
    names = [name for name in CREDENTIALS if name in chosen]
    mine, other = make_world(sessions), make_world(sessions)
    assert _statuses(app, route, mine, other, names) == _expected(route, names)


@pytest.mark.stress
def test_every_cell_of_the_table_holds(app: Flask, sessions: Sessions, note: Note) -> None:
    """Each credential at each route."""
    cells = wrong = 0
    for route in TABLE:
        statuses = _statuses(app, route, make_world(sessions), make_world(sessions))
        cells += len(statuses)
        wrong += sum(statuses[name] != status for name, status in _expected(route).items())
    note(f"28 {len(TABLE)} routes, {len(CREDENTIALS)} credentials of 2 tenants", cells, wrong)


@at_a_sixth
def test_anothers_data_gets_the_same_bytes_as_missing_data(
    app: Flask, sessions: Sessions, note: Note, share: float
) -> None:
    """Each route with a session, and with another credential in turn; in full, with each."""
    names = [name for name in CREDENTIALS if name != ADMIN]
    client = app.test_client(use_cookies=False)
    mine, other = make_world(sessions), make_world(sessions)
    tried, different = 0, []
    with time_machine.travel(datetime.now(UTC), tick=False):  # which forms' tokens are signed with
        for number, (route, id_name) in enumerate(_routes_with_an_id()):
            for name in {SESSION, *in_turn(names, number, share)}:
                tried += 1
                if not _is_same_response(client, route, other.callers[name], mine.ids, id_name):
                    different.append((route, name))
    note("6 another tenant's ID gets the same bytes as a missing ID", tried, len(different))


def _routes_with_an_id() -> list[tuple[Route, str]]:
    return [(route, name) for route in TABLE for name in IDS if f"<{name}>" in route[1]]


def _is_same_response(
    client: FlaskClient, route: Route, caller: Caller, ids: Mapping[str, str], id_name: str
) -> bool:
    theirs = ask(client, route, caller, ids)
    missing = ask(client, route, caller, {**ids, id_name: MISSING})
    bodies = theirs.data, missing.data.replace(MISSING.encode(), ids[id_name].encode())
    headers = [
        [
            (key, value.replace(MISSING, ids[id_name]))
            for key, value in one.headers
            if _is_compared(key)
        ]
        for one in (theirs, missing)
    ]
    return theirs.status == missing.status and bodies[0] == bodies[1] and headers[0] == headers[1]


def _is_compared(header: str) -> bool:
    return not header.startswith("RateLimit")  # which counts the caller's own requests


def test_names_are_text_on_own_pages_and_on_nobody_elses(app: Flask, sessions: Sessions) -> None:
    """Each page, list and download that names no thing of an account.

    Where one shows nothing of its owner, this proves nothing: those are `SHOWS_NOTHING`.
    """
    name, mark = "<script>canary</script>", "canary"
    mine, other = make_world(sessions, name), make_world(sessions)
    account_id, day = mine.ids["account_id"], utc_now().date()
    tomorrow, owned = day + timedelta(days=1), {"account_id": account_id}
    with sessions() as session:
        email = session.get_one(Account, account_id).email
        key, _ = IngestKey.minted(account_id, label=name)
        token, _ = ReadToken.minted(account_id, label=name, scopes=SCOPES)
        terms = {"price_terms": f'[aliases.x]\n"{mark}" = ["openai", "gpt-4o"]\n'}
        settings = AuditSettings(
            account_id=account_id, assumptions={"d2_cache_seconds": 77}, **terms
        )
        paid = {"provider": "stripe", "kind": "credit", "currency": "USD", "amount": 123}
        payment = Payment(account_id=account_id, reference="r", **paid)
        files = {"blob_key": "raw/x.jsonl", "status": "done", **owned}
        batch = Audit(source="ingest", client=name, environment=name, **files)
        upload = Audit(source="upload", label=name, content_hash=b"x", **files)
        connection = ProviderConnection(provider="openai", pulled_at=utc_now(), **owned)
        link = ReportLink(audit_id=mine.ids["audit_id"], **owned)
        session.add_all([key, token, settings, payment, batch, upload, connection, link])
        session.flush()
        unused = {"kind": "key", "name_id": "k", "name": name, "parent_id": name}
        session.add(ReportedName(connection_id=connection.id, **unused, **owned))
        session.add(make_cost(account_id, connection.id, date(2024, 5, 1)))
        add_security_event(session, account_id, EventKind.KEY_CREATED, {"prefix": name})
        names = {"route": name, "environment": name}
        add_spend(session, account_id, *(spend_line(each, **names) for each in (day, tomorrow)))
        add_plan_usage(session, account_id, spend_line(day, route=name, environment=name))
    ids = [value for key, value in mine.ids.items() if key.endswith("_id")]
    marks = (mark, 'value="77"', "$123", "2024-05", '"is_ready":true', *ids)
    client, blind = app.test_client(use_cookies=False), set()
    for route, row in TABLE.items():
        if route[0] != "GET" or "<" in route[1] or ADMIN in row.taken or not row.taken:
            continue
        reader = SESSION if SESSION in row.taken else RT_BOTH
        theirs, own = (
            _text(ask(client, route, world.callers[reader], {}, QUERIES.get(route[1], "")).data)
            for world in (other, mine)
        )
        assert not [each for each in (*marks, email) if each in theirs], route
        assert name not in own or not own.startswith("<!doctype"), route
        blind |= set() if any(each in own for each in marks) else {route[1]}
    assert blind == SHOWS_NOTHING


def _text(data: bytes) -> str:
    """The text of a response, and of each file in a workbook."""
    if data.startswith(b"PK"):
        with ZipFile(BytesIO(data)) as book:
            data = b"".join(map(book.read, book.namelist()))
    return data.decode(errors="ignore")


def test_a_route_with_an_id_is_not_found_for_another_signed_in_person() -> None:
    """Or, where a form is shown again with what was wrong, in the words for a missing one."""
    others = {route: TABLE[route].cell(SESSION) for route, _ in _routes_with_an_id()}
    takes_sessions = {
        route: cell for route, cell in others.items() if SESSION in TABLE[route].taken
    }
    rotate = ("POST", "/developer/ingest-keys/<key_id>/rotate")
    assert takes_sessions.pop(rotate) == Cell(200, 422)
    assert {cell.others for cell in takes_sessions.values()} == {404}
