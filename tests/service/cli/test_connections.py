"""tallystick connect and reconcile."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select

from service.cli import connections
from service.config import Config
from service.connections import list_providers
from service.connections.openai.stub import World, make_stub
from service.connections.stub import Stub, running
from service.models import AgentTotal, ProviderConnection
from service.models.connections.bill import TOKENS
from tests.service.connections.exports import SAMPLES
from tests.service.support.bills import MONTH, plant
from tests.service.support.scenes import Sessions, add_account

KEY = "sk-admin-canary-2989"
EMAIL = "ada@example.org"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(make_stub(World(key=KEY, projects={"proj_1": "Search"}))) as stub:
        yield stub


@pytest.fixture
def account_id(own_sessions: Sessions) -> str:
    with own_sessions() as session:
        account = add_account(session, email=EMAIL)
        session.commit()
        return account.id


@pytest.fixture
def run(own_database: Config, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*arguments: str, typed: str = "", **settings: str) -> Result:
        urls = {"connection_urls": f"openai={stub.url}/v1", **settings}
        config = Config(**{**vars(own_database), **urls})
        monkeypatch.setattr(connections, "reach", lambda _data_dir: config)
        command = {"connect": connections.connect, "reconcile": connections.reconcile}
        return CliRunner().invoke(command[arguments[0]], arguments[1:], input=typed)

    return run


def test_the_key_comes_from_standard_input_and_is_not_printed(
    run: Any, account_id: str, own_sessions: Sessions
) -> None:
    result = run("connect", "openai", EMAIL, typed=f"{KEY}\n")
    assert result.exit_code == 0, result.output
    assert "Connected OpenAI: 1 project, no costs yet." in result.output
    assert "canary" not in result.output
    with own_sessions() as session:
        row = session.scalars(select(ProviderConnection)).one()
        assert (row.account_id, row.key) == (account_id, KEY)


@pytest.mark.parametrize(
    ("provider", "email", "typed", "said"),
    [
        ("nobody", EMAIL, KEY, f"choose a provider: {', '.join(sorted(list_providers()))}"),
        ("openai", "nobody@example.org", KEY, "there is no account"),
        ("openai", EMAIL, "sk-proj-canary", "wrong kind of key"),
        ("openai", EMAIL, "sk-admin-canary-other", "no longer valid"),
    ],
)
def test_what_cannot_be_connected_is_refused_with_the_reason(
    run: Any, account_id: str, provider: str, email: str, typed: str, said: str
) -> None:
    result = run("connect", provider, email, typed=f"{typed}\n")
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert "canary" not in result.output


def test_it_says_that_connections_are_off(run: Any, account_id: str) -> None:
    result = run("connect", "openai", EMAIL, typed=KEY, connections="off")
    assert "turned off" in result.output


def test_reconcile_explains_each_month(run: Any, account_id: str, own_sessions: Sessions) -> None:
    assert "tallystick connect" in run("reconcile", EMAIL).output
    with own_sessions() as session:
        plant(session, account_id)
    result = run("reconcile", EMAIL)
    assert "Feb 2026: OpenAI billed $2,561.93." in " ".join(result.output.split())
    one = run("reconcile", EMAIL, "--month", "2026-02")
    assert "File search" in one.output
    [found] = json.loads(run("reconcile", EMAIL, "--json").output)["reconciliations"]
    assert found["month"] == "2026-02"
    assert found["unexplained_usd"] == 0


def test_reconcile_has_what_agents_count_themselves(
    run: Any, account_id: str, own_sessions: Sessions
) -> None:
    counts = dict.fromkeys((*TOKENS, "estimated_usd"), 0) | {"prompt_tokens": 1_240_000}
    labels = {"account_id": account_id, "agent": "codex", "day": MONTH, "model": "gpt-5.4"}
    with own_sessions() as session:
        session.add(AgentTotal(**labels, **counts))
        session.commit()
    summary = "Codex counted 1,240,000 tokens; your calls have 0 of them (0%)."
    said = " ".join(run("reconcile", EMAIL).output.split())
    assert said == f"Feb 2026: {summary}"
    [found] = json.loads(run("reconcile", EMAIL, "--json").output)["agents"]
    assert (found["month"], found["summary"]) == ("2026-02", summary)
    assert "no reports yet" in run("reconcile", EMAIL, "--month", "2026-01").output


def test_reconcile_stores_reports_of_files_first(
    run: Any, account_id: str, tmp_path: Path, own_sessions: Sessions
) -> None:
    file = tmp_path / "costs.csv"
    file.write_text(SAMPLES["anthropic costs"].text)
    for arguments in ((EMAIL, str(file)), (str(file),)):
        said = " ".join(run("reconcile", *arguments).output.split())
        assert "Anthropic's costs by day, Sep 1, 2026 to Sep 2, 2026: 2 rows" in said
        assert "Sep 2026: Anthropic billed $0.55" in said
    with own_sessions() as session:
        assert len(session.scalars(select(ProviderConnection)).all()) == 1


def test_reconcile_says_what_is_wrong_with_a_file(
    run: Any, account_id: str, tmp_path: Path
) -> None:
    file = tmp_path / "calls.csv"
    file.write_text("a,b\n1,2\n")
    assert "isn't a report that we know" in " ".join(run("reconcile", str(file)).output.split())
    missing = run("reconcile", EMAIL, str(tmp_path / "nothing.csv"))
    assert "No such file" in missing.output
