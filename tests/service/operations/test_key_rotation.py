"""Row 49: keys rotate under traffic, old and new side by side, and the old one ends.

By default, the administrator's token and the payment providers' secrets do, and the two keys rotate
in tests of one process: tests/service/web/auth/test_key_rotation.py and core/test_sealing.py.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from service.core.sealing import Sealer
from service.core.tokens import sign_report
from service.operations.maintenance.resealing import count_values
from tests.service.payments import paddle_events, stripe_events
from tests.service.payments.providers import PROVIDERS
from tests.service.support.live import ONE_PROCESS, start_live_service, stop_live_service
from tests.service.support.rotating import Rotating, add_report
from tests.warm import run_warm
from tests.worker.support.promises import Note, at_both_scales, scaled

ROUNDS = 10
FILES = {
    "secret_key": "the-first-secret-key-of-32-characters-or-more",
    "secret_key_fallbacks": "",
    "encryption_key": "the-first-encryption-key-of-32-characters",
    "encryption_key_fallbacks": "",
    "admin_token": "the-first-admin-token-of-32-characters-or-more",
    "stripe_webhook_secret": stripe_events.SECRET,
    "paddle_webhook_secret": paddle_events.SECRET,
}
NO_LIMIT = "1000000"


@pytest.fixture
def rotating(database_url: str, redis_url: str, tmp_path: Path, share: float) -> Iterator[Rotating]:
    """The service with its usual two processes, or one, which a generation replaces, too."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(f"{text}\n")
    settings: dict[str, object] = {f"{name}_file": folder / name for name in FILES}
    settings["magic_link_limit_per_minute"] = NO_LIMIT
    if share < 1:
        settings |= ONE_PROCESS
    live = start_live_service(database_url, redis_url, tmp_path, secret_key="", **settings)
    tenant = live.add_tenant()
    rotating = Rotating(live, folder, tenant, add_report(live, tenant))
    rotating.admin_token = FILES["admin_token"]
    rotating.signing = {each.name: each.secret for each in PROVIDERS}
    rotating.sign_in()
    rotating.add_link()
    yield rotating
    stop_live_service(live)


@at_both_scales
@pytest.mark.timeout(1800)
def test_each_secret_is_replaced_under_traffic(
    rotating: Rotating, note: Note, share: float
) -> None:
    dead: list[str] = []
    rotating.pause /= share  # what it costs must not depend on how long the rounds take
    for number in range(scaled(ROUNDS, share)):
        with rotating.traffic():
            time.sleep(1)
            if share == 1:
                dead += _replace_secret_key(rotating)
                dead += _replace_encryption_key(rotating)
            dead += _replace_operators_secrets(rotating, number)
            time.sleep(1)
    tried, failed = sum(rotating.tried.values()), rotating.failed
    assert set(rotating.tried) == set(rotating.clients())
    assert not failed, Counter(failed)
    note("49 keys rotate under traffic: requests", tried, len(failed))
    assert not any(dead), dead
    note("49 keys rotate: the old one is dead", len(dead), sum(map(bool, dead)))


def _replace_secret_key(rotating: Rotating) -> list[str]:
    """Return what the old key still opens at the end, empty where it opens nothing."""
    old, (old_browser, old_form) = rotating.config.secret_key, rotating.person
    _keys(rotating, "add", "secret")
    rotating.reload()
    _keys(rotating, "use", "secret")
    rotating.reload()
    assert rotating.config.secret_key != old
    rotating.add_link()
    rotating.sign_in()
    old_link = rotating.links[0]
    assert rotating.status_of(old_link) == 200
    assert rotating.status_of("/settings/sessions", **old_browser) == 200
    # The window is over: everyone has newer links and sessions.
    rotating.links[:] = rotating.links[-1:]
    rotating.wait_for_clients()
    _keys(rotating, "reseal")
    _keys(rotating, "drop", "secret")
    rotating.reload()
    url = f"{rotating.live.url}/settings/report-mails"
    sent = requests.post(url, data=old_form, headers=old_browser, timeout=60, allow_redirects=False)
    fresh = f"/r/{sign_report(old, rotating.report_id)}"
    return [
        "" if rotating.status_of(old_link) == 404 else "an old report link",
        "" if rotating.status_of(fresh) == 404 else "a new report link of the old key",
        "" if rotating.status_of("/settings", **old_browser) == 303 else "an old session",
        "" if sent.status_code == 403 else "an old form",
    ]


def _replace_encryption_key(rotating: Rotating) -> list[str]:
    old = Sealer.from_config(rotating.config).key_id
    _keys(rotating, "add", "encryption")
    rotating.reload()
    _keys(rotating, "use", "encryption")
    rotating.reload()
    assert "values need another key" in _keys(rotating, "drop", "encryption", code=2)
    _keys(rotating, "reseal")
    _keys(rotating, "drop", "encryption")
    rotating.reload()
    page = requests.get(
        f"{rotating.live.url}/settings/sessions", headers=rotating.browser, timeout=60
    )
    counts = sum(count_values(rotating.live.engine).values(), Counter[str]())
    assert counts.total() > 0
    return [
        "" if "Firefox on Linux" in page.text else "sealed values are unreadable",
        "" if not counts[old] else "values are sealed with the old key",
    ]


def _replace_operators_secrets(rotating: Rotating, number: int) -> list[str]:
    """The administrator's token and each provider's secret, which have two values at a time."""
    path, old_token = rotating.path("admin_token"), rotating.admin_token
    new_token = f"another-admin-token-of-32-characters-{number}"
    path.write_text(f"{new_token} {old_token}\n")
    old_secrets = dict(rotating.signing)
    new_secrets = {each.name: f"{each.secret}_{number}" for each in PROVIDERS}
    for name, new in new_secrets.items():
        rotating.path(f"{name}_webhook_secret").write_text(f"{old_secrets[name]} {new}\n")
    rotating.reload()
    rotating.admin_token = new_token
    rotating.signing.update(new_secrets)
    rotating.wait_for_clients()
    path.write_text(f"{new_token}\n")
    for name, new in new_secrets.items():
        rotating.path(f"{name}_webhook_secret").write_text(f"{new}\n")
    rotating.reload()
    status = rotating.status_of("/admin", **{"X-Admin-Token": old_token})
    dead = ["" if status == 404 else "the old admin token"]
    for each in PROVIDERS:
        status = rotating.deliver(each, old_secrets[each.name])
        dead.append("" if status == 400 else f"{each.name}'s secret")
    return dead


def _keys(rotating: Rotating, *words: str, code: int = 0) -> str:
    """Run the command as an operator does, with the service's own settings."""
    environment = {"PATH": os.environ["PATH"], **rotating.environment}
    ran = run_warm(("service", "keys", *words), environment)
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr
