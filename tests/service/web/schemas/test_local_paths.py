"""The paths to continue to after sign-in."""

from service.web.schemas.local_paths import find_local_path
from tests.cases import each_case

LOCAL = [
    "/",
    "/upload",
    "/settings/sessions",
    "/r/token.with-all_kinds~of",
    "/oauth/authorize?client_id=oac_1&redirect_uri=https://app.example.org/back&state=%2F%2F",
    "/a#b",
    "/a//b",
    "/%C3%A4",
]
# Each is read as another site, or could be, by some browser or after one more decoding.
FOREIGN = [
    "//e.example",
    "///e.example",
    "/\\e.example",
    "\\/e.example",
    "\\\\e.example",
    "/\t/e.example",
    "\t//e.example",
    "/\n/e.example",
    "/\r\n/e.example",
    " //e.example",
    "%09//e.example",
    "/%09/e.example",
    "/%2F/e.example",
    "/%2fe.example",
    "/%5Ce.example",
    "/%5c%5ce.example",
    "/a%0d%0aSet-Cookie:x=1",
    "https://e.example",
    "https:e.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "e.example",
    "@e.example",
    "?x",
    "",
    "/\xa0/e.example",
    "/\u2028/e.example",
    "/a b",
    "/" + "a" * 2_000,
]


@each_case("path", LOCAL)
def test_a_path_of_this_site_passes_as_it_came(path: str) -> None:
    assert find_local_path(path) == path


@each_case("text", FOREIGN)
def test_anything_else_does_not(text: str) -> None:
    assert find_local_path(text) is None


def test_nothing_is_no_path() -> None:
    assert find_local_path(None) is None
