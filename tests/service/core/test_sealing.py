"""Sealed columns: unreadable in the database, readable with any key of the ring."""

import base64
from collections import Counter
from dataclasses import fields

import pytest
from sqlalchemy import select, text, type_coerce
from sqlalchemy.types import String

from service.config import Config
from service.core.db import make_engine, make_session_factory
from service.core.sealing import NOT_SEALED, Sealer
from service.errors import SealingError
from service.models import ProviderConnection, WebSession
from service.operations.maintenance.resealing import count_values, reseal
from tests.service.support.scenes import Sessions, add_tenant

OLD, NEW = "the-old-key-of-32-characters-or-more", "the-new-key-of-32-characters-or-more"
COLUMN = "sessions.user_agent"
AGENT = "Mozilla/5.0 (canary) ünïcode"


def test_a_value_is_readable_with_its_key_and_sealed_differently_each_time() -> None:
    sealed = Sealer([OLD]).seal(COLUMN, AGENT)
    assert "canary" not in sealed
    assert Sealer([OLD]).open(COLUMN, sealed) == AGENT
    assert Sealer([NEW, OLD]).open(COLUMN, sealed) == AGENT
    with pytest.raises(SealingError, match=COLUMN):
        Sealer([NEW]).open(COLUMN, sealed)
    # Two seals of one value differ.
    sealer = Sealer([OLD])
    assert sealer.seal(COLUMN, AGENT) != sealer.seal(COLUMN, AGENT)


def test_a_value_that_was_changed_or_moved_is_not_opened() -> None:
    sealer = Sealer([OLD])
    sealed = sealer.seal(COLUMN, AGENT)
    head, _, content = sealed.rpartition(":")
    raw = bytearray(base64.urlsafe_b64decode(content))
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        with pytest.raises(SealingError):
            sealer.open(COLUMN, f"{head}:{base64.urlsafe_b64encode(changed).decode()}")
    for broken in (f"{head}:", f"{head}:x", "sealed:1:", "sealed:1:00000000:AAAA", sealed[:-8]):
        with pytest.raises(SealingError):
            sealer.open(COLUMN, broken)
    with pytest.raises(SealingError):
        sealer.open("accounts.email", sealed)


def test_what_was_stored_before_is_read_as_it_is() -> None:
    assert Sealer([OLD]).open(COLUMN, AGENT) == AGENT


def test_the_key_in_use_comes_first_and_the_secret_keys_last() -> None:
    config = Config(
        secret_key="s" * 32,
        secret_key_fallbacks="t" * 32,
        encryption_key="e" * 32,
        encryption_key_fallbacks=f"{'f' * 32} {'g' * 32}",
        database_url="postgresql://",
        redis_url="redis://",
        storage_url="file:///",
    )
    assert [key[0] for key in config.encryption_keys] == ["e", "f", "g", "s", "t"]


def _stored(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(type_coerce(WebSession.user_agent, String))))


def _read(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return set(session.scalars(select(WebSession.user_agent)))


def _sessions(config: Config, **keys: str) -> "tuple[Sessions, Sealer]":
    settings = {one.name: getattr(config, one.name) for one in fields(Config)}
    changed = Config(**{**settings, **keys})
    engine = make_engine(changed)
    return make_session_factory(engine), Sealer.from_config(changed)


def test_a_browser_is_sealed_in_the_database_and_sealed_again_with_a_new_key(
    own_database: Config,
) -> None:
    sessions, old = _sessions(own_database, encryption_key=OLD)
    account_id = add_tenant(sessions).account_id
    with sessions() as session:
        for number in range(1_201):
            row, _ = WebSession.minted(account_id, days=1, user_agent=f"{AGENT} {number}")
            session.add(row)
        session.commit()
        session.execute(
            text(
                "UPDATE sessions SET user_agent = 'plain' WHERE id = (SELECT max(id) FROM sessions)"
            )
        )
        session.commit()
    assert not any("canary" in value for value in _stored(sessions))
    before = _read(sessions)
    assert len(before) == 1_201
    both, new = _sessions(own_database, encryption_key=NEW, encryption_key_fallbacks=OLD)
    assert _read(both) == before
    engine = both.kw["bind"]
    others: Counter[str] = Counter()  # other columns have no values
    assert count_values(engine).pop(COLUMN) == {old.key_id: 1_200, NOT_SEALED: 1}
    assert reseal(engine, new)[COLUMN] == 1_201
    assert set(reseal(engine, new).values()) == {0}
    counts = count_values(engine)
    assert counts.pop(COLUMN) == {new.key_id: 1_201}
    assert all(count == others for count in counts.values())
    only_new, _ = _sessions(own_database, encryption_key=NEW)
    assert _read(only_new) == before
    without, _ = _sessions(own_database, encryption_key="a-third-key-of-32-characters-or-more")
    assert _read(without) == {""}
    for factory in (sessions, both, only_new, without):
        factory.kw["bind"].dispose()


def test_an_admin_key_of_a_provider_is_sealed_again_with_a_new_key(own_database: Config) -> None:
    sessions, _old = _sessions(own_database, encryption_key=OLD)
    account_id = add_tenant(sessions).account_id
    with sessions() as session:
        row = ProviderConnection(account_id=account_id, provider="openai", key="sk-admin-canary")
        session.add(row)
        session.commit()
    both, new = _sessions(own_database, encryption_key=NEW, encryption_key_fallbacks=OLD)
    assert reseal(both.kw["bind"], new)["provider_connections.key"] == 1
    only_new, _new = _sessions(own_database, encryption_key=NEW)
    with only_new() as session:
        raw = str(session.scalar(text("SELECT key FROM provider_connections")))
        assert "canary" not in raw
        assert session.scalars(select(ProviderConnection.key)).one() == "sk-admin-canary"
    for factory in (sessions, both, only_new):
        factory.kw["bind"].dispose()
