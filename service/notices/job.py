"""`send_notice`: send one delivery, unless another worker has it or it has ended."""

from collections.abc import Mapping
from typing import Any, Final

from service.config import Config
from service.jobs.sending import AttemptError, FinalError, send_row
from service.models.base import utc_now
from service.models.notices.deliveries import NoticeDelivery
from service.notices.addresses import PrivateTargetError
from service.notices.messages import write_message
from service.notices.sending import ResponseError, send
from service.notices.urls import InvalidTargetError, parse_url

_GONE: Final = 410


class RejectedError(AttemptError):
    """The receiver responded with a status that isn't a success."""


class RedirectError(RejectedError):
    """The receiver responded with another address, which we don't follow."""


class GoneError(FinalError):
    """The receiver doesn't want to get anything anymore."""


def send_notice(delivery_id: str) -> None:
    def deliver(config: Config, delivery: NoticeDelivery) -> Mapping[str, Any]:
        """Return the status of a success; raise an error that says what else happened."""
        allows_private = config.allows_private_targets
        url = parse_url(delivery.target.url, allows_private=allows_private)
        headers, body = write_message(delivery, config.base_url, utc_now())
        status_code = send(url, headers, body, allows_private=allows_private)
        if 200 <= status_code < 300:
            return {"status_code": status_code}
        if status_code == _GONE:
            raise GoneError(status_code=status_code)
        is_redirect = 300 <= status_code < 400
        raise (RedirectError if is_redirect else RejectedError)(status_code=status_code)

    expected = (PrivateTargetError, InvalidTargetError, ResponseError)
    send_row(Config.load(), NoticeDelivery, delivery_id, deliver, *expected)
