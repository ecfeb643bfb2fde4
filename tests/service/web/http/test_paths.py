"""Values in paths: 422 for what can't be an ID, and like a missing one for everything else."""

import re
from collections.abc import Callable
from typing import Final

from flask import Flask

from tests.service.support.access_table import TABLE
from tests.service.support.access_world import ask, make_world
from tests.service.support.scenes import ADMIN_TOKEN, Sessions
from tests.service.web.auth.test_access_matrix import MISSING
from tests.worker.support.promises import Note, at_both_scales, in_turn

IMPOSSIBLE: Final = ("%00", "a%00b", "a%0Ab", "%C2%85", "x" * 201)
POSSIBLE: Final = ("x" * 200, "%FF", "'%20OR%201=1", "%F0%9F%98%80", "%25%30", "*", "%E2%80%AE")
VALUES: Final = [(route, name) for route in TABLE for name in re.findall(r"<([^>]+)>", route[1])]


def test_the_routes_with_values_are_those_of_the_application(app: Flask) -> None:
    rules = {rule.rule for rule in app.url_map.iter_rules() if rule.arguments}
    assert {path for (_, path), _ in VALUES} == rules
    assert len(VALUES) > 45


@at_both_scales
def test_no_value_of_a_path_is_a_server_error(
    share_app: Callable[..., Flask], sessions: Sessions, note: Note, share: float
) -> None:
    """Each value of each route, without a credential and with one that the route takes."""
    app, asked, wrong = share_app(admin_token=ADMIN_TOKEN), 0, list[str]()
    client, world = app.test_client(use_cookies=False), make_world(sessions)
    for number, (route, name) in enumerate(VALUES):
        values = (*in_turn(IMPOSSIBLE, number, share), *in_turn(POSSIBLE, number, share))
        for caller in (*list(TABLE[route].taken)[-1:], "none"):
            statuses = {
                value: ask(
                    client, route, world.callers[caller], {**world.ids, name: value}
                ).status_code
                for value in (MISSING, *values)
            }
            asked += len(values)
            for value in values:
                expected = 422 if value in IMPOSSIBLE else statuses[MISSING]
                unknown = caller == "none" and statuses[value] == statuses[MISSING]
                if statuses[value] != expected and not unknown:
                    wrong.append(f"{route} {name}={value}: {statuses[value]}")
    assert len([one for one in wrong if one.endswith(": 500")]) == 0, wrong
    note(f"{len(VALUES)} values of paths can be anything", asked, len(wrong))
