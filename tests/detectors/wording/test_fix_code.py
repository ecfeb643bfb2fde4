"""The change that a finding asks for, as code."""

import ast

from detectors.wording.fix_code import write_fix
from tests.cases import each_case
from tests.detectors.reports import make_finding

DETECTORS = (
    "d1_model_overkill",
    "d3_context_bloat",
    "d4_duplicate_calls",
    "d5_max_tokens_misfit",
    "d6_chatty_loop",
)


@each_case("detector", DETECTORS)
@each_case("model", ["claude-sonnet-4-5", "gpt-5.5"])
def test_the_code_is_python_with_what_the_library_requires(detector: str, model: str) -> None:
    suggested = model if detector == "d1_model_overkill" else ""
    code = write_fix(make_finding(1, detector=detector, kind="", model=model), suggested)
    calls = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Call)]
    calls = [each for each in calls if ast.unparse(each.func).startswith("client.")]
    assert len(calls) == 1
    given = {each.arg for each in calls[0].keywords}
    assert given >= {"model", "messages"}
    if "claude" in model:
        assert "max_tokens" in given
    else:
        assert "max_tokens" not in given
