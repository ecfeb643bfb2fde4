"""A real SMTP server of a test's own, which keeps what it takes and can be made to fail."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

ACCEPTED = "250 Taken"
logging.getLogger("mail.log").setLevel(logging.ERROR)  # every word that is said


class Sink:
    """Listens on one port for its life; `answers` are what the next mails are told instead."""

    def __init__(self, **options: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.taken: list[tuple[str, EmailMessage]] = []
        self.answers: list[str] = []
        self.recipient_answers: list[str] = []
        self._options = options
        self._controller: Controller | None = None

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port, **self._options)
        self._controller.start()

    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def mails_to(self, recipient: str) -> list[EmailMessage]:
        return [message for address, message in self.taken if address == recipient]

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if self.recipient_answers:
            return self.recipient_answers.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 Known"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        answer = self.answers.pop(0) if self.answers else ACCEPTED
        if answer.startswith("2"):
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(message, EmailMessage)
            self.taken += [(str(address), message) for address in envelope.rcpt_tos]
        return answer


@contextmanager
def running_sink(**options: Any) -> Iterator[Sink]:
    sink = Sink(**options)
    sink.start()
    try:
        yield sink
    finally:
        sink.stop()
