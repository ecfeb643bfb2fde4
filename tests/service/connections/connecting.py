"""A connection to a stub, in a database of the test's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.config import Config
from service.connections import list_providers
from service.models import ProviderConnection
from tests.service.connections.worlds import (
    Provider,
    add_connected,
    import_stub,
    make_due,
    oldest_day,
    pull_all,
    stored_costs,
    stored_usage,
)

NAMES: Sequence[str] = sorted(list_providers())
# Those whose API cuts its reports into pages.
PAGED: Sequence[str] = [name for name in NAMES if hasattr(import_stub(name).World(), "paging")]


class Connected:
    def __init__(
        self, provider: Provider, config: Config, engine: Engine, session: Session, **fields: Any
    ) -> None:
        self.provider, self.engine, self.session = provider, engine, session
        path = "/v1" if provider.name == "openai" else ""
        self.config = replace(config, connection_urls=f"{provider.name}={provider.stub.url}{path}")
        row = add_connected(session, provider, **fields)
        self.id, self.account_id = row.id, row.account_id

    def pull(self, seconds: float = 60) -> None:
        pull_all(self.config, self.engine, self.id, seconds)

    def pull_again(self, hours: float = 25) -> None:
        make_due(self.engine, self.id, hours=hours)
        self.pull()

    @property
    def row(self) -> ProviderConnection:
        self.session.expire_all()
        return self.session.get_one(ProviderConnection, self.id)

    def assert_equal(self) -> None:
        """What is stored is what the provider says now."""
        since = oldest_day(self.provider.name)
        with self.engine.connect() as connection:
            assert stored_usage(connection, self.id) == self.provider.usage(since)
            assert stored_costs(connection, self.id) == self.provider.costs(since)
