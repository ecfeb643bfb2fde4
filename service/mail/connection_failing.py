"""The mail that a connection to a model provider has failed for a day."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from detectors.wording.figures import day
from detectors.wording.labels import inert, may_be_link
from service.config import Config
from service.models.connections.failures import explain


def write_connection_failing(
    config: Config, parameters: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables."""
    label, provider = parameters["label"], parameters["provider"]
    # The name is somebody's text, of this account or at the provider.
    shown = f"{provider} “{inert(label)}”" if label and not may_be_link(label) else provider
    what, next_step = explain(parameters["reason"])
    words = {
        "name": shown,
        "since": day(datetime.fromisoformat(parameters["since"]).date()),
        "what": what,
        "next_step": next_step,
        "connections_url": f"{config.base_url}/settings/connections",
        "site": config.base_url,
    }
    return f"Your connection to {shown} isn't working", words
