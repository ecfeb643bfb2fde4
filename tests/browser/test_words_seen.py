"""Pages have no more words than they were cut to: docs/decisions/pages/110."""

from typing import Final

import pytest

from tests.browser.measures import words
from tests.browser.pages import named
from tests.browser.site import Site
from tests.browser.windows import Windows
from tests.cases import data_of

# With room for a few words that data decides, such as one finding more.
_ROOM: Final = 5
WORDS: Final = data_of(__file__)["words"]


@pytest.mark.stress
def test_no_page_has_more_words_than_it_was_cut_to(windows: Windows, site: Site) -> None:
    """Each of 20 pages takes a second. The pages' own tests in `make test` read what they say."""
    found = {name: words(windows.show(named(name))) for name in WORDS}
    grown = {name: count for name, count in found.items() if count > WORDS[name] + _ROOM}
    assert grown == {}
