"""The color of each series in an account's charts, which it keeps on every page and range."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from operator import itemgetter

from sqlalchemy import Select, SmallInteger, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from detectors.charts import MOST_SERIES
from service.models.base import Base, Executor, OwnerKey


class SeriesColor(Base):
    """A route, model, provider or environment, and its place in the palette."""

    __tablename__ = "series_colors"

    account_id: Mapped[OwnerKey]
    kind: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[int] = mapped_column(SmallInteger)


def find_slots(
    session: Executor, account_id: str, kind: str, names: Collection[str]
) -> Mapping[str, int]:
    """Return the stored colors of some series."""
    given = {"account_id": account_id, "kind": kind, "names": names}
    return {row[0]: row[1] for row in session.execute(_slots_query(), given)}


@cache
def _slots_query() -> Select[str, int]:
    return select(SeriesColor.name, SeriesColor.slot).where(
        SeriesColor.account_id == bindparam("account_id"),
        SeriesColor.kind == bindparam("kind"),
        SeriesColor.name.in_(bindparam("names", expanding=True)),
    )


def add_slots(session: Session, account_id: str, kind: str, names: Sequence[str]) -> None:
    """Store colors for those of the series that have none, apart from the others' if possible."""
    known = find_slots(session, account_id, kind, names)
    counts = (
        select(SeriesColor.slot, func.count())
        .where(SeriesColor.account_id == account_id, SeriesColor.kind == kind)
        .group_by(SeriesColor.slot)
    )
    used = Counter({row[0]: row[1] for row in session.execute(counts)})
    taken = set(known.values())
    rows = []
    for name in names:
        if name not in known:
            slot = min(range(MOST_SERIES), key=lambda each: (each in taken, used[each], each))
            taken.add(slot)
            used[slot] += 1
            rows.append({"account_id": account_id, "kind": kind, "name": name, "slot": slot})
    if rows:
        # Two pages that store the same series at once lock them in the same order.
        rows.sort(key=itemgetter("name"))
        session.execute(insert(SeriesColor).values(rows).on_conflict_do_nothing())


def tell_apart(names: Sequence[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return a color for each series of one chart.

    Two whose stored colors are the same differ in this chart: the first keeps it.
    """
    chosen: dict[str, int] = {}
    for name in names:
        if name in known and known[name] not in chosen.values():
            chosen[name] = known[name]
    for name in names:
        if name not in chosen:
            free = (slot for slot in range(MOST_SERIES) if slot not in chosen.values())
            chosen[name] = next(free, known.get(name, 0))
    return {name: chosen[name] for name in names}
