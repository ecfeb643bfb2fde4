"""Single-use sign-in links for the person at the terminal, who needs no mail to get one."""

from sqlalchemy.orm import Session

from service.cli.account import create_account, session_of
from service.config import Config
from service.mail.messages import magic_link_url
from service.models.identity.accounts import find_account
from service.models.identity.sign_in import add_magic_link

_OWNER_PLAN = "team"  # an installation of one's own has every feature


def make_owner_link(config: Config) -> str:
    """Return a sign-in link of the owner, whose account the first call creates."""
    with session_of(config) as session:
        if find_account(session, config.owner_email) is None:
            create_account(session, config.owner_email, _OWNER_PLAN)
        url = make_sign_in_link(session, config, config.owner_email)
        session.commit()
    return url


def make_sign_in_link(session: Session, config: Config, email: str) -> str:
    """Return a link that signs in once, until it expires; the caller commits it."""
    link = add_magic_link(
        session, email, config.secret_key, minutes=config.magic_link_minutes, next_path="/dashboard"
    )
    session.flush()
    return magic_link_url(config, link.id)
