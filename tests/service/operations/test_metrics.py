"""A scrape sends few queries to PostgreSQL, however large the tables are."""

from sqlalchemy import event
from sqlalchemy.orm import Session, sessionmaker

from service.config import Config
from service.core.db import make_engine
from service.jobs.queues import AuditQueues
from service.models import Account, Credit
from service.operations.exporter.database_metrics import ServerMetrics


def test_totals_are_read_once_in_a_while_and_what_waits_each_time(
    own_database: Config, own_sessions: "sessionmaker[Session]"
) -> None:
    with own_sessions() as session:
        account = Account(email="a@example.org")
        session.add(account)
        session.flush()
        session.add_all([Credit(account_id=account.id) for _ in range(3)])
        session.commit()
    engine = make_engine(own_database)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    facts = ServerMetrics(engine, AuditQueues.from_config(own_database))
    asked = []
    for _ in range(3):
        statements.clear()
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in facts.collect()
            for sample in metric.samples
        }
        asked.append(len([one for one in statements if one.startswith("SELECT audits")]))
        asked.append(len([one for one in statements if "FROM credits" in one]))
        assert samples["tallystick_credits", "granted"] == 3
        assert samples["tallystick_credits", "free"] == 3
    assert asked == [2, 1, 1, 0, 1, 0]
    engine.dispose()
