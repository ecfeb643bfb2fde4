"""The paths to continue to after sign-in."""

from service.web.schemas.local_paths import find_local_path
from tests.cases import data_of, each_case

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
FOREIGN = [*data_of(__file__)["foreign"], "/" + "a" * 2_000]


@each_case("path", LOCAL)
def test_a_path_of_this_site_passes_as_it_came(path: str) -> None:
    assert find_local_path(path) == path


@each_case("text", FOREIGN)
def test_anything_else_does_not(text: str) -> None:
    assert find_local_path(text) is None


def test_nothing_is_no_path() -> None:
    assert find_local_path(None) is None
