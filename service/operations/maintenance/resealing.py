"""Seal every value again with the current key, while the service runs."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Column, Engine, String, Table, select, type_coerce, update

from service.core.sealing import NOT_SEALED, SealedText, Sealer, find_key_id
from service.models import Base

_BATCH: Final = 500


def count_values(engine: Engine) -> dict[str, Counter[str]]:
    """Count the values of each sealed column by the ID of their key."""
    counts: dict[str, Counter[str]] = {}
    with engine.connect() as connection:
        for table, column in _sealed_columns():
            raw = type_coerce(column, String)
            found = connection.execute(
                select(raw).where(raw != "").execution_options(yield_per=_BATCH)
            )
            keys = (find_key_id(value) or NOT_SEALED for (value,) in found)
            counts[f"{table.name}.{column.name}"] = Counter(keys)
    return counts


def reseal(engine: Engine, sealer: Sealer) -> dict[str, int]:
    """Seal all values with the current key; return how many of each column were changed.

    Raises `SealingError` at a value that no key opens. A value that changes meanwhile is skipped,
    because it was just sealed with a key that the next batch replaces.
    """
    changed: dict[str, int] = {}
    for table, column in _sealed_columns():
        name, count = f"{table.name}.{column.name}", 0
        raw, key = type_coerce(column, String), table.primary_key.columns[0]
        outdated = raw.not_like(f"{sealer.prefix}%")
        some = select(key, raw).where(raw != "", outdated).limit(_BATCH)
        while True:
            # Each batch is a transaction of its own, so that no lock is held for long.
            with engine.begin() as connection:
                rows = connection.execute(some).all()
                for row_id, value in rows:
                    text = sealer.open(name, value)
                    is_unchanged = (key == row_id, raw == value)
                    new = update(table).where(*is_unchanged).values({column: text})
                    connection.execute(new)
            if not rows:
                break
            count += len(rows)
        changed[name] = count
    return changed


def _sealed_columns() -> Iterator[tuple[Table, Column[Any]]]:
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, SealedText):
                yield table, column
