"""What `tallystick doctor` checks, each whatever the others find."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from service.config import Config
from service.operations.maintenance.doctor.findings import Check, Finding, run_check
from service.operations.maintenance.doctor.machine import (
    check_disks,
    check_names,
    check_permissions,
    check_storage,
    check_values,
    check_versions,
)
from service.operations.maintenance.doctor.outside import (
    check_backups,
    check_mail,
    check_payments,
    check_spark,
    check_web,
)
from service.operations.maintenance.doctor.servers import (
    check_database,
    check_redis,
    check_work,
)


def examine(
    config: Config, environment: Mapping[str, str], data_dir: Path | None
) -> Iterator[Finding]:
    """Yield the findings of every check, in the order in which someone would look.

    `environment` has the secrets that are in files; `data_dir` is that of `tallystick up`, if any.
    """
    checks: Mapping[str, Check] = {
        "settings": partial(check_names, environment),
        "values": partial(check_values, config),
        "versions": check_versions,
        "permissions": partial(check_permissions, data_dir),
        "database": partial(check_database, config),
        "redis": partial(check_redis, config),
        "storage": partial(check_storage, config),
        "disk": partial(check_disks, config, data_dir),
        "queue": partial(check_work, config),
        "mail": partial(check_mail, config),
        "payments": partial(check_payments, config),
        "backups": partial(check_backups, environment),
        "web": partial(check_web, config),
        "spark": partial(check_spark, config),
    }
    for name, check in checks.items():
        yield from run_check(name, check)
