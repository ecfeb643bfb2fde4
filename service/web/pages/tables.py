"""The state of a table in its page's URL: order, search, and the columns that are shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

SORT, SEARCH, HIDE = "sort", "q", "hide"
# The form of the column chooser: that it was sent, and the columns that it leaves.
_CHOOSE, _COLUMN = "choose", "column"
_MOST_CHARACTERS: Final = 200
Row = TypeVar("Row")


class Column(NamedTuple):
    """A column. Numbers and times fall first when sorted, and words rise."""

    name: str
    words: str
    is_number: bool = False
    is_time: bool = False
    is_sortable: bool = True
    can_hide: bool = False  # then the rows must ask `Table.shows`


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
    name: str = "table"  # its ID on the page

    @property
    def _sort_parameter(self) -> str:
        return SORT if self.name == "table" else f"{SORT}-{self.name}"

    @property
    def state(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults."""
        found = {self._sort_parameter: self.sort} if self.sort != self.default else {}
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
        parameter = self._sort_parameter
        state = {name: value for name, value in self.state.items() if name != parameter}
        return self._url(state | ({parameter: sort} if sort != self.default else {}))

    def direction(self, column: Column) -> str:
        """Return how the table is sorted by a column, as `aria-sort` says it."""
        if self.sort.removeprefix("-") != column.name:
            return ""
        falls = column.is_number or column.is_time
        return "descending" if falls != self.sort.startswith("-") else "ascending"

    def arrange(self, rows: Iterable[Row], keys: Mapping[str, Callable[[Row], Any]]) -> list[Row]:
        """Return rows that are in the default order in that of the table.

        `keys` has what each column is sorted by; rows without it are last.
        """
        rows = list(rows)
        if self.sort == self.default:
            return rows
        key = keys[self.sort.removeprefix("-")]
        column = next(each for each in self.columns if each.name == self.sort.removeprefix("-"))
        known = sorted(
            (each for each in rows if key(each) is not None),
            key=key,
            reverse=self.direction(column) == "descending",
        )
        return known + [each for each in rows if key(each) is None]

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
    name: str = "table",
) -> Table:
    """Return the state of a URL; values that can't be are ignored."""
    names = {each.name for each in columns if each.can_hide}
    if _CHOOSE in given:
        hidden = names - set(given.getlist(_COLUMN))
    else:
        hidden = names & set(given.get(HIDE, "").split(","))
    parameter = SORT if name == "table" else f"{SORT}-{name}"
    sort, sortable = given.get(parameter, ""), {each.name for each in columns if each.is_sortable}
    return Table(
        path=path,
        parameters=parameters,
        columns=columns,
        default=default,
        sort=sort if sort.removeprefix("-") in sortable else default,
        search=read_search(given),
        hidden=frozenset(hidden),
        name=name,
    )


def read_search(given: Mapping[str, str]) -> str:
    """Return what a table is searched for."""
    search = given.get(SEARCH, "").strip()[:_MOST_CHARACTERS]
    return search if search.isprintable() else ""


def read_tables(
    given: MultiDict[str, str],
    columns: Mapping[str, Sequence[Column]],
    *,
    path: str,
    parameters: Mapping[str, str],
) -> dict[str, Table]:
    """Return the tables of a page by name, whose links keep the order of the others.

    Each is sorted by "", which is the order that its rows have.
    """
    tables = {
        name: read_table(given, each, "", path=path, parameters=parameters, name=name)
        for name, each in columns.items()
    }
    states = {name: table.state for name, table in tables.items()}
    for name, table in tables.items():
        others = [state for other, state in states.items() if other != name]
        kept = {key: value for state in others for key, value in state.items()}
        tables[name] = replace(table, parameters={**parameters, **kept})
    return tables
