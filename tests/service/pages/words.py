"""What a reader sees of a page."""

import html
import re

from werkzeug.test import TestResponse


def words(response: TestResponse) -> str:
    """The page's words, without its markup."""
    text = re.sub(r"<[^>]+>", " ", response.get_data(as_text=True))
    return " ".join(html.unescape(text).split())
