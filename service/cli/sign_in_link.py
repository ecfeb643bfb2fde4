"""Single-use sign-in links for the terminal, so that the owner doesn't need mail."""

from sqlalchemy.orm import Session

from service.cli.account import create_account, session_of
from service.config import Config
from service.mail.messages import magic_link_url
from service.models.identity.accounts import find_account
from service.models.identity.sign_in import add_magic_link

_OWNER_PLAN = "team"  # the owner gets every feature


def make_owner_link(config: Config) -> str:
    """Return a sign-in link for the owner; create the owner's account if needed."""
    with session_of(config) as session:
        if find_account(session, config.owner_email) is None:
            create_account(session, config.owner_email, _OWNER_PLAN)
        url = make_sign_in_link(session, config, config.owner_email)
        session.commit()
    return url


def make_sign_in_link(session: Session, config: Config, email: str) -> str:
    """Add a single-use sign-in link and return its URL; the caller commits."""
    link = add_magic_link(
        session, email, config.secret_key, minutes=config.magic_link_minutes, next_path="/dashboard"
    )
    session.flush()
    return magic_link_url(config, link.id)
