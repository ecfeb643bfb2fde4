"""AWS: requests and answers fit botocore's models, a key is signed with and never sent."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.orm import Session

from service.connections import list_providers
from service.connections.client import (
    MissingLibraryError,
    MissingRightError,
    RevokedKeyError,
    ThrottledError,
    UnreadableResponseError,
    WrongKeyError,
    fetch_window,
    open_client,
)
from service.connections.provider import Window
from service.connections.stub import Answer, running
from service.operations.connections.connecting import KeyRefusedError, try_key
from service.operations.connections.connecting import connect as connect_account
from tests.cases import each_case
from tests.service.connections.worlds import make_provider
from tests.service.support.scenes import add_account

KNOWN = list_providers()["aws"]
SECRET = "canary-secret"
DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
_SCALARS: Mapping[str, Any] = {
    **{"string": str, "boolean": bool, "integer": int, "double": (int, float)},
    "timestamp": (int, float),
}


def _check(shape: Any, value: Any) -> None:
    """Check that a JSON answer is of a shape: no unknown members, all required ones, its types."""
    if shape.type_name == "structure":
        assert value.keys() <= shape.members.keys(), shape.name
        assert set(shape.required_members) <= value.keys(), shape.name
        for name, inner in value.items():
            _check(shape.members[name], inner)
    elif shape.type_name == "list":
        for inner in value:
            _check(shape.member, inner)
    elif shape.type_name == "map":
        for inner in value.values():
            _check(shape.value, inner)
    else:
        assert isinstance(value, _SCALARS[shape.type_name]), shape.name


def test_requests_and_answers_are_of_botocores_models() -> None:
    import botocore.session
    from botocore.validate import ParamValidator

    provider = make_provider("aws", days=5, rows=4)
    provider.world.key = f"AKIASTUB:{SECRET}"
    seen: list[Any] = []
    play = provider.stub.answer

    def answer(path: str, query: Any, headers: Any) -> Answer:
        found = play(path, query, headers)
        seen.append((path, query, headers, found))
        return found

    provider.stub.answer = answer
    with running(provider.stub), open_client(KNOWN, provider.key, provider.stub.url) as client:
        KNOWN.look(client, DAY)
        for report in KNOWN.reports:
            assert fetch_window(client, KNOWN, Window(report, DAY - timedelta(9), None)).lines
    session, actions = botocore.session.get_session(), set()
    for path, query, headers, found in seen:
        action = headers["x-amz-target"].rpartition(".")[2]
        actions.add(action)
        service = {"ce": "ce", "monitoring": "cloudwatch"}[path.split("/")[1]]
        model = session.get_service_model(service).operation_model(action)
        given = {
            name: json.loads(values[0])
            if values[0][:1] in "[{" or name.endswith("Time")
            else values[0]
            for name, values in query.items()
        }
        problems = ParamValidator().validate(given, model.input_shape)
        assert not problems.has_errors(), problems.generate_report()
        _check(model.output_shape, found.body)
        assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIASTUB/")
        assert SECRET not in str((path, query, headers))
    assert actions == {"GetDimensionValues", "GetCostAndUsage", "ListMetrics", "GetMetricData"}


def test_the_day_of_connecting_takes_four_requests_that_cost_money() -> None:
    provider = make_provider("aws", days=40, rows=2)
    with running(provider.stub), open_client(KNOWN, provider.key, provider.stub.url) as client:
        sight = KNOWN.look(client, datetime.now(UTC))
        assert fetch_window(
            client, KNOWN, Window(KNOWN.reports[0], DAY - timedelta(89), None)
        ).lines
        assert client.requests == len(provider.stub.requests) == 4
    assert (sight.first_cost, sight.identity) == (DAY - timedelta(30), ["123456789012"])


def test_pages_are_cut_within_days_and_all_of_them_count() -> None:
    provider = make_provider("aws", days=4, rows=6)
    found = {}
    for size in (10_000, 2):
        provider.world.per_page = size
        with running(provider.stub), open_client(KNOWN, provider.key, provider.stub.url) as client:
            found[size] = [
                fetch_window(client, KNOWN, Window(report, DAY - timedelta(9), None)).lines
                for report in KNOWN.reports
            ]
    assert found[2][0] == found[10_000][0]
    assert sorted(map(str, found[2][1])) == sorted(map(str, found[10_000][1]))


@each_case(
    ("kind", "error"),
    [
        ("UnrecognizedClientException", RevokedKeyError),
        ("AccessDeniedException", MissingRightError),
        ("LimitExceededException", ThrottledError),
        ("ValidationException", UnreadableResponseError),
    ],
)
def test_an_error_of_aws_says_why(kind: str, error: type[Exception]) -> None:
    provider = make_provider("aws", days=1)
    provider.stub.answer = lambda _path, _query, _headers: Answer({"__type": f"x#{kind}"}, 400)
    with (
        running(provider.stub),
        open_client(KNOWN, provider.key, provider.stub.url) as client,
        pytest.raises(error),
    ):
        client.post("ce/us-east-1/GetCostAndUsage", {})


def test_the_pages_of_a_token_that_comes_again_are_not_stored() -> None:
    provider = make_provider("aws", days=1)
    same = {"DimensionValues": [], "ReturnSize": 0, "TotalSize": 0, "NextPageToken": "x"}
    provider.stub.answer = lambda _path, _query, _headers: Answer(same)
    window = Window(KNOWN.reports[0], DAY - timedelta(9), None)
    with (
        running(provider.stub),
        open_client(KNOWN, provider.key, provider.stub.url) as client,
        pytest.raises(UnreadableResponseError),
    ):
        fetch_window(client, KNOWN, window)


def test_an_account_is_the_same_with_other_regions_and_another_key(db_session: Session) -> None:
    account = add_account(db_session)
    provider = make_provider("aws", days=3)

    def connect(key: str, organization: str = "123456789012") -> None:
        provider.world.key, provider.world.account = key, organization
        with running(provider.stub):
            config = SimpleNamespace(connection_urls=f"aws={provider.stub.url}")
            sight = try_key(config, KNOWN, key)  # type: ignore[arg-type]
        connect_account(db_session, account.id, KNOWN, key, sight)

    connect("AKIASTUB:secret")
    for key in ("AKIASTUB:secret:eu-central-1", "AKIAOTHER:secret"):
        with pytest.raises(KeyRefusedError, match="already connected"):
            connect(key)
    connect("AKIAOTHER:secret", "999999999999")


@each_case("key", ["AKIA", "AKIA:", "AKIA:x:evil.example", "AKIA:x:us-east-1,../x"])
def test_a_key_has_a_secret_and_regions(key: str) -> None:
    with pytest.raises(WrongKeyError), open_client(KNOWN, key):
        pass


def test_without_the_library_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.credentials", None)
    with pytest.raises(MissingLibraryError), open_client(KNOWN, "AKIA:x"):
        pass
