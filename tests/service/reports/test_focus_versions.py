"""Rows of each version of FOCUS: the columns that it has, in its order, and the same values."""

import re
import tomllib
from pathlib import Path
from typing import Any

from service.reports.focus import HEADER, V1_2, V1_4, VERSIONS, arrange, header, make_row
from tests.cases import each_case
from tests.service.reports.test_focus import COLUMNS, LINES

FOLDER = Path(__file__).parent
RULES = {V1_2: COLUMNS, V1_4: tomllib.loads((FOLDER / "focus_columns_1_4.toml").read_text())}


def _rows(version: str) -> list[dict[str, Any]]:
    found = (arrange(make_row("an-account", line), version) for line in LINES)
    return [dict(zip(header(version), row, strict=True)) for row in found]


@each_case("version", VERSIONS)
def test_a_version_has_its_columns_sorted_and_our_own_come_last(version: str) -> None:
    names, rules = header(version), RULES[version]
    own = [name for name in names if name not in rules]
    mandatory = {name for name, rule in rules.items() if rule["level"] == "mandatory"}
    assert mandatory <= set(names)
    assert all(re.fullmatch(r"x_[A-Z][A-Za-z]+", name) for name in own)
    assert list(names) == [*sorted(set(names) - set(own)), *own]


@each_case("version", VERSIONS)
def test_a_column_is_null_only_where_its_version_allows_it(version: str) -> None:
    for row in _rows(version):
        empty = {name for name, value in row.items() if value is None}
        assert all(RULES[version][name]["null"] for name in empty if name in RULES[version])


def test_versions_differ_in_two_names_alone() -> None:
    older, newer = set(header(V1_2)), set(header(V1_4))
    assert list(header(V1_2)) == list(HEADER)
    assert older - newer == {"ProviderName", "PublisherName"}
    assert newer - older == {"ServiceProviderName", "HostProviderName"}
    for before, after in zip(_rows(V1_2), _rows(V1_4), strict=True):
        assert after["ServiceProviderName"] == before["ProviderName"]
        assert after["HostProviderName"] == before["PublisherName"]
        assert {name: after[name] for name in older & newer} == {
            name: before[name] for name in older & newer
        }
