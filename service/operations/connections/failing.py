"""Post the mail about a connection that has failed for a day."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from service.connections import list_providers
from service.models.connections.connections import list_failing, mark_mailed
from service.models.connections.failures import CONNECTION_FAILING
from service.models.mail.outbox import post_mail

_AT_ONCE: Final = 100


def post_failing_mails(connection: Connection) -> Sequence[str]:
    """Post a mail for each connection that has failed for a day; return the IDs."""
    mail_ids = []
    for row in list_failing(connection, _AT_ONCE):
        provider = list_providers().get(row.provider)
        mail_id = post_mail(
            connection,
            kind=CONNECTION_FAILING,
            recipient=row.email,
            account_id=row.account_id,
            parameters={
                "provider": provider.title if provider else row.provider,
                "label": row.label or row.organization,
                "reason": row.error or "",
                "since": row.failing_since.isoformat(),
            },
            dedupe_key=f"{CONNECTION_FAILING}:{row.id}:{row.failing_since.isoformat()}",
        )
        mark_mailed(connection, row.id)
        mail_ids += [mail_id] if mail_id else []
    return mail_ids
