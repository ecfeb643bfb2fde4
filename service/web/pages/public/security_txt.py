"""/.well-known/security.txt: where to report a vulnerability of this installation (RFC 9116)."""

from datetime import timedelta
from typing import Final

from flask import Blueprint, Response

from service.config import Config
from service.errors import NotFoundError
from service.models.base import utc_now
from service.web.http.current import current_config

PATH: Final = "/.well-known/security.txt"
# The standard recommends less than a year; the answer is made at each request, so it never expires.
_VALID: Final = timedelta(days=180)

blueprint = Blueprint("security_txt", __name__)


@blueprint.get(PATH)
def security_txt() -> Response:
    config = current_config()
    contacts = list_contacts(config)
    if not contacts:
        raise NotFoundError
    expires = (utc_now() + _VALID).strftime("%Y-%m-%dT00:00:00Z")
    lines = [
        *(f"Contact: {contact}" for contact in contacts),
        f"Expires: {expires}",
        "Preferred-Languages: en",
        f"Canonical: {config.base_url}{PATH}",
    ]
    return Response("".join(f"{line}\n" for line in lines), mimetype="text/plain")


def list_contacts(config: Config) -> list[str]:
    """Return the configured contacts as URIs; the operator's own, if that is an email address."""
    contacts = config.security_contact.split()
    operator = config.operator_contact.strip()
    if not contacts and "@" in operator and not set(operator) & set(" <>,;"):
        return [f"mailto:{operator}"]
    return contacts
