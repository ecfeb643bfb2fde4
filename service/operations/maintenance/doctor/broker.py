"""Redis or Valkey: reachability, eviction, clock, and the workers that it knows."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from redis import AuthenticationError, Redis, RedisError
from rq import Worker

from detectors.wording.figures import counted
from service.config import Config
from service.core.redis import connect
from service.jobs.queues import MAIL_QUEUE, NOTICE_QUEUE, QUEUE_NAMES
from service.models.audits.audits import INGEST
from service.operations.maintenance.doctor.findings import Area, Finding, compare_clock

_AREA: Final = Area("redis")
_WORKERS: Final = Area("workers")
_OLDEST_VERSION: Final = (6, 2)
_FULL_SHARE: Final = 0.8
_CONNECT_SECONDS: Final = 3.0
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "audits": (QUEUE_NAMES[INGEST], "tallystick worker"),
    "mail": (MAIL_QUEUE, "tallystick worker --queue mail"),
    "notices": (NOTICE_QUEUE, "tallystick worker --queue notices"),
}


def check_redis(config: Config) -> Iterator[Finding]:
    """Connect as the service does, but with more patience."""
    redis = connect(
        config, socket_timeout=_CONNECT_SECONDS, socket_connect_timeout=_CONNECT_SECONDS
    )
    try:
        yield from _check_server(redis)
        yield from _check_workers(redis)
    except AuthenticationError:
        yield _AREA.fail("Redis rejects the user or password", "check REDIS_URL")
    except (RedisError, OSError):
        yield _AREA.fail(
            "Redis doesn't answer: audits and mails start seconds late",
            "start it, and check the address in REDIS_URL",
        )
    finally:
        redis.close()


def _check_server(redis: Redis) -> Iterator[Finding]:
    before = time.time()
    seconds, microseconds = redis.time()
    yield compare_clock("Redis", seconds + microseconds / 1e6, (before + time.time()) / 2)
    info = redis.info()
    name, version = _name_and_version(info)
    if tuple(map(int, str(info["redis_version"]).split(".")[:2])) < _OLDEST_VERSION:
        yield _AREA.warn(f"{name} {version} is older than tested", "upgrade to 6.2 or later")
    else:
        yield _AREA.ok(f"{name} {version} answers")
    yield from _check_memory(info)


def _name_and_version(info: Mapping[str, Any]) -> tuple[str, str]:
    if "valkey_version" in info:
        return "Valkey", str(info["valkey_version"])
    return "Redis", str(info["redis_version"])


def _check_memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    policy, most = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
    if policy != "noeviction":
        yield _AREA.warn(
            f"its maxmemory-policy is {policy}, so it may drop wake-ups", "set it to noeviction"
        )
    if most and int(info["used_memory"]) > most * _FULL_SHARE:
        yield _AREA.warn("its memory is more than 80% full", "raise maxmemory")


def _check_workers(redis: Redis) -> Iterator[Finding]:
    alive: Counter[str] = Counter()
    for worker in Worker.all(connection=redis):
        # Redis forgets a silent worker in a minute and a half, whatever anyone's clock says.
        if redis.ttl(worker.key) > 0:
            alive.update(set(worker.queue_names()))
    for name, (queue, command) in _COMMANDS.items():
        number = alive[queue]
        words = f"{counted(number, 'worker')} for {name}"
        yield (
            _WORKERS.ok(words)
            if number
            else _WORKERS.fail(f"no worker for {name}", f"run: {command}")
        )
