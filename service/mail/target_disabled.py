"""The mail that a webhook or a Slack channel gets no notices anymore.

It names the host of the target only, because the rest of the URL may be a secret.
"""

from collections.abc import Mapping
from typing import Any, Final

from detectors.wording.labels import inert, may_be_link
from service.config import Config
from service.models.notices.targets import FAILING, GONE, WEBHOOK

_NAMES: Final = {WEBHOOK: "webhook"}
_REASONS: Final[Mapping[str, str]] = {
    GONE: "It responded with status 410 (Gone), which means that it doesn't want any more notices.",
    FAILING: "It has accepted no notice for 24 hours.",
}


def write_target_disabled(
    config: Config, parameters: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables."""
    name, label = _NAMES.get(parameters["kind"], "Slack channel"), parameters["label"]
    # Someone with a stolen session may have chosen the label.
    name = f"{name} “{inert(label)}”" if label and not may_be_link(label) else name
    words = {
        "name": name,
        "host": parameters["host"],
        "reason": _REASONS[parameters["reason"]],
        "notices_url": f"{config.base_url}/settings/notices",
        "site": config.base_url,
    }
    return f"We disabled your {name} at {parameters['host']}", words
