"""The state of a table in its page's URL: order, search, and the columns that are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

SORT, SEARCH, HIDE = "sort", "q", "hide"
# The form of the column chooser: that it was sent, and the columns that it leaves.
_CHOOSE, _COLUMN = "choose", "column"
_MOST_CHARACTERS: Final = 200


class Column(NamedTuple):
    """A column. Numbers and times fall first when sorted, and words rise."""

    name: str
    words: str
    is_number: bool = False
    is_time: bool = False
    is_sortable: bool = True
    is_fixed: bool = False  # can't be hidden


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, and the parameters that its page has beside."""

    path: str
    parameters: Mapping[str, str]
    columns: Sequence[Column]
    default: str  # its order
    sort: str
    search: str
    hidden: frozenset[str]

    @property
    def state(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults."""
        found = {SORT: self.sort} if self.sort != self.default else {}
        if self.search:
            found[SEARCH] = self.search
        if self.hidden:
            found[HIDE] = ",".join(each.name for each in self.columns if each.name in self.hidden)
        return found

    def fields(self, *without: str) -> dict[str, str]:
        """Return the whole state for a form, which sends the others itself."""
        state = {**self.parameters, **self.state}
        return {name: value for name, value in state.items() if name not in without}

    def sorted_url(self, name: str) -> str:
        """Return the address of the table sorted by a column, or turned around."""
        sort = f"-{name}" if self.sort == name else name
        state = {name: value for name, value in self.state.items() if name != SORT}
        return self._url(state | ({SORT: sort} if sort != self.default else {}))

    def direction(self, column: Column) -> str:
        """Return how the table is sorted by a column, as `aria-sort` says it."""
        if self.sort.removeprefix("-") != column.name:
            return ""
        falls = column.is_number or column.is_time
        return "descending" if falls != self.sort.startswith("-") else "ascending"

    def shows(self, name: str) -> bool:
        return name not in self.hidden

    @property
    def shown(self) -> list[Column]:
        return [each for each in self.columns if each.name not in self.hidden]

    @property
    def query(self) -> str:
        """Return the whole state as a query string."""
        return urlencode(self.fields())

    def url(self, **more: str) -> str:
        """Return the address of this state."""
        return self._url({**self.state, **more})

    def _url(self, state: Mapping[str, str]) -> str:
        parameters = urlencode({**self.parameters, **state})
        return f"{self.path}?{parameters}" if parameters else self.path


def read_table(
    given: MultiDict[str, str],
    columns: Sequence[Column],
    default: str,
    *,
    path: str,
    parameters: Mapping[str, str],
) -> Table:
    """Return the state of a URL; values that can't be are ignored."""
    names = {each.name for each in columns if not each.is_fixed}
    if _CHOOSE in given:
        hidden = names - set(given.getlist(_COLUMN))
    else:
        hidden = names & set(given.get(HIDE, "").split(","))
    sort, sortable = given.get(SORT, ""), {each.name for each in columns if each.is_sortable}
    return Table(
        path=path,
        parameters=parameters,
        columns=columns,
        default=default,
        sort=sort if sort.removeprefix("-") in sortable else default,
        search=read_search(given),
        hidden=frozenset(hidden),
    )


def read_search(given: Mapping[str, str]) -> str:
    """Return what a table is searched for."""
    search = given.get(SEARCH, "").strip()[:_MOST_CHARACTERS]
    return search if search.isprintable() else ""
