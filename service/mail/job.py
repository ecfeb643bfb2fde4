"""`send_mail`: send one mail of the outbox, unless another worker has it or it has ended."""

from collections.abc import Mapping
from typing import Any

from service.config import Config
from service.jobs.sending import send_row
from service.mail.delivery import delete_mail_files, deliver
from service.mail.messages import compose
from service.models.mail.outbox import Mail


def send_mail(mail_id: str) -> None:
    def deliver_mail(config: Config, mail: Mail) -> Mapping[str, Any]:
        deliver(config, compose(config, mail), mail.id)
        return {}

    config = Config.load()
    is_known = send_row(config, Mail, mail_id, deliver_mail)
    if not is_known and config.mail_folder is not None:
        # Its account was deleted while the mail was being written.
        delete_mail_files(config.mail_folder, [mail_id])
