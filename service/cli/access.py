"""tallystick account access and revoke: what can reach an account's data, and how to end it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from sqlalchemy.orm import Session

from service.cli.account import get_account, json_command, session_of
from service.cli.command import CommandError, reach
from service.cli.output import print_fields, print_table
from service.models.access.credentials import (
    IngestKey,
    ReadToken,
    list_ingest_keys,
    list_read_tokens,
    revoke,
)
from service.models.access.oauth import (
    list_allowed,
    list_applications,
    revoke_application,
    withdraw,
)
from service.models.audits.report_links import list_links, revoke_link
from service.models.identity.security_events import EventKind, add_security_event
from service.models.identity.sign_in import end_session, list_sessions

_Row = Mapping[str, Any]


def _row(kind: str, row_id: str, label: str, created_at: Any) -> _Row:
    return {"kind": kind, "id": row_id, "label": label, "created_at": f"{created_at:%Y-%m-%d}"}


_REVOKE: Mapping[str, tuple[Callable[[Session, str, str], object], EventKind]] = {
    "ingest-key": (lambda *named: _revoke_secret(IngestKey, *named), EventKind.KEY_REVOKED),
    "read-token": (lambda *named: _revoke_secret(ReadToken, *named), EventKind.TOKEN_REVOKED),
    "session": (end_session, EventKind.SESSION_ENDED),
    "application": (revoke_application, EventKind.APPLICATION_DELETED),
    "authorization": (withdraw, EventKind.ACCESS_REVOKED),
    "report-link": (revoke_link, EventKind.LINK_REVOKED),
}


def _revoke_secret(
    table: type[IngestKey] | type[ReadToken], session: Session, owner_id: str, row_id: str
) -> str | None:
    return revoke(session, table, owner_id, row_id)


@click.command()
@click.argument("email")
@json_command
def access(email: str, as_json: bool, data_dir: Path | None) -> None:
    """List an account's keys, sessions, apps and links."""
    config = reach(data_dir)
    with session_of(config) as session:
        owner = get_account(session, email)
        rows = [
            *(_row("ingest-key", key.id, key.label or key.prefix, key.created_at)
              for key in list_ingest_keys(session, owner.id)),
            *(_row("read-token", token.id, token.label or token.prefix, token.created_at)
              for token in list_read_tokens(session, owner.id)),
            *(_row("session", one.id, "", one.created_at)
              for one in list_sessions(session, owner.id, config.session_idle_days)),
            *(_row("application", one.id, one.name, one.created_at)
              for one in list_applications(session, owner.id)),
            *(_row("authorization", one.id, one.name, one.allowed_at)
              for one in list_allowed(session, owner.id)),
            *(_row("report-link", one.link.audit_id, "", one.link.issued_at)
              for one in list_links(session, owner.id) if one.link.revoked_at is None),
        ]  # fmt: skip
    if as_json:
        click.echo(msgspec.json.encode(rows))
    else:
        print_table(("kind", "id", "label", "created_at"), rows)


@click.command("revoke")
@click.argument("email")
@click.argument("kind", type=click.Choice(tuple(_REVOKE)))
@click.argument("row_id", metavar="ID")
@json_command
def revoke_access(email: str, kind: str, row_id: str, as_json: bool, data_dir: Path | None) -> None:
    """End a key, token, session, application or link."""
    end, event = _REVOKE[kind]
    with session_of(reach(data_dir)) as session:
        owner = get_account(session, email)
        if not end(session, owner.id, row_id):
            raise CommandError(f"{email} has no {kind} with this ID; it may already be revoked")
        add_security_event(session, owner.id, event, {})
        session.commit()
    print_fields({"revoked": kind, "id": row_id}, as_json)
