"""Search for a word in everything that the running service stores."""

from redis import Redis
from sqlalchemy import text

from tests.service.support.live import LiveService


def traces_of(live: LiveService, redis_url: str, word: str) -> list[str]:
    """Where the word is: the log, the blobs, every table, every key and value of Redis."""
    needle, found = word.encode(), []
    found += ["log"] if needle in live.log_file.read_bytes() else []
    files = [path for path in live.blobs.rglob("*") if path.is_file()]
    found += [str(path) for path in files if needle in path.read_bytes()]
    with live.engine.connect() as connection:
        public = text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for table in connection.scalars(public).all():
            rows = text(f"SELECT count(*) FROM {table} AS row WHERE row::text LIKE '%{word}%'")
            found += [table] if connection.scalar(rows) else []
    redis = Redis.from_url(redis_url)
    for key in redis.scan_iter():
        found += [repr(key)] if needle in key or needle in (redis.dump(key) or b"") else []
    redis.close()
    return found
