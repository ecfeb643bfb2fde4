"""Which tests share a server, and so a test process; and which are too slow for the inner loop."""

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

# Fixtures that start processes: gunicorn, workers, a second PostgreSQL, Chromium.
_STARTS_PROCESSES: Final = frozenset(
    {
        "target",
        "live",
        "administered",
        "running_system",
        "running_mailing_system",
        "browser",
        "default_system",
        "private_servers",
        "environment",
        "up",
        "second",
        "clone",
        "empty",
    }
)
# Folders and files whose tests mostly start programs of their own or wait for them, or that try
# so many cases that they take long together.
_SLOW_PATHS: Final = (
    "tests/browser/",
    "tests/client/providers/test_libraries.py",
    "tests/client/test_bodies.py",
    "tests/client/test_exit.py",
    "tests/client/test_faults.py",
    "tests/client/test_init.py",
    "tests/client/test_loops.py",
    "tests/client/test_packaging.py",
    "tests/client/test_processes.py",
    "tests/client/test_servers.py",
    "tests/client/test_styles.py",
    "tests/detectors/corpus/",
    "tests/detectors/inputs/",
    "tests/detectors/formats/test_archives.py",
    "tests/detectors/formats/test_malformed_files.py",
    "tests/detectors/frames/test_ranges.py",
    "tests/detectors/growth/",
    "tests/detectors/prices/test_every_price_of_the_book.py",
    "tests/detectors/reference/",
    "tests/detectors/report/test_bounds.py",
    "tests/detectors/report/test_example.py",
    "tests/detectors/report/test_pages.py",
    "tests/detectors/rules/test_seventh_detector.py",
    "tests/detectors/scrub/test_command.py",
    "tests/detectors/test_cli.py",
    "tests/deploy/",
    "tests/embedded/",
    "tests/meta/test_imports.py",
    "tests/meta/test_migrations.py",
    "tests/meta/test_readme.py",
    "tests/meta/test_wheel.py",
    "tests/meta/test_words.py",
    "tests/service/cli/test_up.py",
    "tests/service/cli/test_up_as_root.py",
    "tests/service/cli/test_up_restarts.py",
    "tests/service/connections/test_pulls.py",
    "tests/service/connections/test_reconciliation.py",
    "tests/service/core/test_db.py",
    "tests/service/core/test_mistyped_secrets.py",
    "tests/service/mail/test_delivery.py",
    "tests/service/payments/test_at_once.py",
    "tests/service/payments/test_signatures.py",
    "tests/service/payments/test_webhooks.py",
    "tests/service/reports/test_page.py",
    "tests/service/reports/test_pdf.py",
    "tests/service/reports/test_seventh_detector.py",
    "tests/service/config/test_settings.py",
    "tests/service/web/auth/test_access_matrix.py",
    "tests/service/web/auth/test_csrf.py",
    "tests/service/web/http/test_early_answers.py",
    "tests/service/web/http/test_lost_sessions.py",
    "tests/service/web/http/test_memory.py",
    "tests/service/web/intake/test_ingest_bodies.py",
    "tests/service/web/intake/test_upload_limits.py",
    "tests/service/web/intake/test_upload_refusals.py",
    "tests/service/web/intake/test_uploads_at_once.py",
    "tests/service/web/openapi/test_generated_client.py",
    "tests/service/web/openapi/test_openapi.py",
    "tests/worker/audits/test_run_audit.py",
    "tests/worker/jobs/test_stopping.py",
    "tests/worker/mail/test_report_ready.py",
    "tests/worker/operations/",
    "tests/worker/reliability/",
)
# Tests of several files that share a server, or libraries that are slow to import; a test of any
# other file is grouped with its file.
# What takes longest is first: it must not be what everything else waits for at the end.
_GROUPS: Final = {
    "system": (
        "tests/worker/jobs/",
        "tests/worker/audits/",
        "tests/worker/operations/",
        "tests/worker/reliability/",
    ),
    "up": (
        "tests/meta/test_readme.py",
        "tests/meta/test_api_guides.py",
        "tests/service/cli/test_demo.py",
        "tests/service/cli/test_up",
    ),
    "browser": ("tests/browser/",),
    "live service": (
        "tests/service/web/oauth/test_oauth_live.py",
        "tests/service/web/auth/test_sign_in_limits.py",
        "tests/service/web/auth/test_admin_gate.py",
        "tests/service/web/http/test_canaries.py",
        "tests/service/web/http/test_early_answers.py",
        "tests/service/web/http/test_lost_sessions.py",
        "tests/service/web/http/test_memory.py",
        "tests/service/web/http/test_slow_clients.py",
        "tests/service/web/http/test_sockets.py",
        "tests/service/web/intake/test_client_live.py",
        "tests/service/web/intake/test_ingest_live.py",
        "tests/service/web/intake/test_hostile_uploads_at_once.py",
        "tests/service/web/intake/test_upload_limits.py",
        "tests/service/web/intake/test_upload_turns.py",
        "tests/service/web/intake/test_uploads",
        "tests/service/web/openapi/test_generated_client.py",
        "tests/service/web/pages/test_examples.py",
        "tests/service/operations/test_admin.py",
        "tests/service/operations/test_ending_access.py",
        "tests/service/models/test_dump.py",
    ),
    "providers' libraries": (
        "tests/client/providers/test_libraries.py",
        "tests/client/test_batches.py",
        "tests/client/test_bodies.py",
        "tests/client/test_canaries.py",
        "tests/client/test_contract.py",
        "tests/client/test_faults.py",
        "tests/client/test_further_libraries.py",
        "tests/client/test_guards.py",
        "tests/client/test_include_usage.py",
        "tests/client/test_init.py",
        "tests/client/test_instrumentors.py",
        "tests/client/test_memory.py",
        "tests/client/test_objects.py",
        "tests/client/test_open_streams.py",
        "tests/client/test_reading.py",
        "tests/client/test_records.py",
        "tests/client/test_status.py",
        "tests/client/test_styles.py",
        "tests/client/test_tag.py",
        "tests/client/test_unparsed.py",
        "tests/client/test_ways_in.py",
        "tests/detectors/formats/test_vendor_types.py",
        "tests/detectors/scrub/test_vendor_types.py",
    ),
    "mailing system": ("tests/worker/mail/", "tests/worker/notices/", "tests/worker/web/"),
    "key rotation": ("tests/service/operations/test_key_rotation.py",),
    "fuzzed service": (
        "tests/service/web/openapi/test_fuzzing.py",
        "tests/service/web/http/test_hostile_requests.py",
    ),
    "servers": ("tests/embedded/",),
    "payments": ("tests/service/payments/",),
    "reports": ("tests/service/reports/",),
    "oauth": ("tests/service/web/oauth/",),
}
_SPARK: Final = "spark"
# The cases of the detectors on engines other than Polars.
_OTHER_ENGINES: Final = ("[pandas-", "[duckdb-")


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand each group of tests to one process, the groups in the order in which they came.

    The `loadgroup` of xdist 3.8 groups nothing: it marks node ids in a way that pytest 9.2 ignores.
    """
    by_server = LoadScopeScheduling(config, log)
    by_server._split_scope = _group
    return by_server


def arrange(items: list[pytest.Item]) -> None:
    """Put the long groups first, and mark the slow tests."""
    for item in items:
        if _is_slow(item):
            item.add_marker(pytest.mark.slow)
    order = [*_GROUPS, _SPARK]
    turns = {name: number for number, name in enumerate(order)}
    items.sort(key=lambda item: turns.get(_group(item.nodeid), len(order)))


def _group(nodeid: str) -> str:
    path, _, name = nodeid.partition("::")
    if _SPARK in name:
        return _SPARK
    for group, paths in _GROUPS.items():
        if path.startswith(paths):
            return group
    return path


def _is_slow(item: pytest.Item) -> bool:
    starts_processes = _STARTS_PROCESSES & set(getattr(item, "fixturenames", ()))
    other_engine = any(engine in item.name for engine in (_SPARK, *_OTHER_ENGINES))
    return bool(starts_processes) or other_engine or item.nodeid.startswith(_SLOW_PATHS)
