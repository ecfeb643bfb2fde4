"""Only URLs of hosts on the public internet become targets, however their addresses are written."""

import threading

import pytest

from service.models.notices.targets import SLACK, WEBHOOK
from service.notices import addresses
from service.notices.addresses import PrivateTargetError, is_public, resolve
from service.notices.urls import InvalidTargetError, check_target, parse_url
from tests.cases import data_of, each_case
from tests.notice_receiver import resolving

PUBLIC = (
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",  # NAT64 of 1.1.1.1
)
PRIVATE = tuple(data_of(__file__)["private"])


def test_an_address_on_the_public_internet_is_accepted_and_no_other() -> None:
    assert [address for address in PUBLIC if not is_public(address)] == []
    assert [address for address in PRIVATE if is_public(address)] == []


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    known = {"example.com": [["93.184.216.34"]]}
    monkeypatch.setattr(addresses, "look_up", resolving(known))
    return known


def test_one_private_address_among_public_ones_is_enough_to_refuse(
    answers: dict[str, list[list[str]]],
) -> None:
    answers["mixed.example"] = [["1.1.1.1", "10.0.0.1"]]
    with pytest.raises(PrivateTargetError):
        resolve("mixed.example", 443, seconds=1)
    assert resolve("mixed.example", 443, seconds=1, allows_private=True) == ["1.1.1.1", "10.0.0.1"]


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(addresses, "look_up", lambda *_: [str(never.wait(5))])
    with pytest.raises(TimeoutError):
        resolve("slow.example", 443, seconds=0.05)
    never.set()


@each_case(
    "url",
    [
        "https://example.com",
        "https://example.com/hooks?key=1",
        "https://EXAMPLE.com:8443/",
        "https://1.1.1.1/",
        "https://[2606:4700::1111]/",
    ],
)
def test_a_public_https_url_is_a_target(url: str, answers: object) -> None:
    assert check_target(WEBHOOK, url, allows_private=False).scheme == "https"


@each_case(
    "url",
    [*data_of(__file__)["another_url_is_refused_at_save"], f"https://example.com/{'x' * 2_000}"],
)
def test_another_url_is_refused_at_save(url: str, answers: dict[str, list[list[str]]]) -> None:
    answers |= {"localhost": [["127.0.0.1", "::1"]]}
    answers |= {"metadata.google.internal": [["169.254.169.254"]]}
    with pytest.raises(InvalidTargetError) as raised:
        check_target(WEBHOOK, url, allows_private=False)
    assert str(raised.value).endswith(".")
    assert "127" not in str(raised.value)


@each_case(
    "host",
    [
        "a" * 64,
        "-a.example",
        "a-.example",
        "a..example",
        "example.com.",
        ".example",
        f"{'a' * 200}!",
        f"{'a.' * 126}!",
        f"{'a.' * 127}com",
    ],
)
def test_a_host_consists_of_labels_and_is_read_in_linear_time(host: str) -> None:
    """A pattern that tries every way to divide the long ones would not end within the timeout."""
    with pytest.raises(InvalidTargetError, match="ASCII"):
        parse_url(f"https://{host}/", allows_private=True)
    assert parse_url(f"https://{'a' * 63}.b-c.x_y.example/", allows_private=True)


def test_an_unknown_host_is_refused_at_save(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[str]:
        raise OSError

    monkeypatch.setattr(addresses, "look_up", fail)
    with pytest.raises(InvalidTargetError, match="couldn't find"):
        check_target(WEBHOOK, "https://nothing.example/", allows_private=False)


def test_a_slack_target_is_at_slack(answers: dict[str, list[list[str]]]) -> None:
    answers["hooks.slack.com"] = [["1.1.1.1"]]
    assert check_target(SLACK, "https://hooks.slack.com/services/T/B/x", allows_private=False)
    with pytest.raises(InvalidTargetError, match="Slack"):
        check_target(SLACK, "https://example.com/", allows_private=False)


def test_an_installation_can_allow_its_own_network(answers: object) -> None:
    url = check_target(WEBHOOK, "http://127.0.0.1:80/a?b=c", allows_private=True)
    assert (url.authority, url.target) == ("127.0.0.1", "/a?b=c")
    assert parse_url("https://[::1]:9000", allows_private=True).authority == "[::1]:9000"
    with pytest.raises(InvalidTargetError):
        check_target(WEBHOOK, "http://0x7f.1/", allows_private=True)
