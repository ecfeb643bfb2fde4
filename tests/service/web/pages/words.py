"""The visible text of a page."""

from werkzeug.test import TestResponse

from tests.service.support.browser import words_of


def words(response: TestResponse) -> str:
    """The page's words, without its markup."""
    return words_of(response.get_data(as_text=True))
