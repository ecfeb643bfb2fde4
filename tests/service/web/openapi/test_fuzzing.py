"""Generated requests to every described operation, live, with every kind of credential.

No response is a server error, and none has an undocumented status, type, header or shape. By
default, test_hostile_requests.py sends written requests to the same operations with the same
credentials, and every test of an endpoint compares its responses with the document.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.service.support.described import operations
from tests.service.support.fuzzed import CREDENTIALS, Target
from tests.worker.support.promises import Note

EXAMPLES: Final = 200
CHECKS: Final = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)
OPTIONS: Final = (
    *(f"--checks={CHECKS}", "--continue-on-failure", "--no-shrink"),
    *("--generation-with-security-parameters=false", "--generation-database=none"),
    *("--max-redirects=0", "--no-color", "--workers=1"),
)
# How often something that exists is named, instead of something made up.
SHARE_OF_KNOWN: Final = 0.7
# By default, schemathesis repeats values of earlier responses, and sends half as many requests.
SETTINGS: Final = """
[phases.coverage]
unexpected-methods = []
[phases.fuzzing.extra-data-sources]
responses = false
[phases.fuzzing.error-feedback]
enabled = false
"""
HOOKS: Final = Path(__file__).parents[2] / "support" / "fuzzing_hooks.py"
# Hypothesis keeps its table of all characters here, which takes it seconds to make.
STORAGE: Final = Path(__file__).parents[4] / ".hypothesis"
# Each ends the browser's session, so these operations are tested separately.
ENDS_SESSIONS: Final = ("/auth/verify", "/auth/logout")


@pytest.fixture(scope="session")
def fuzzing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzing")


@pytest.mark.stress
@pytest.mark.parametrize("who", CREDENTIALS)
@pytest.mark.timeout(1800)
def test_generated_requests_get_described_answers(
    target: Target, fuzzing_folder: Path, note: Note, who: str
) -> None:
    alone = ENDS_SESSIONS if who == "session" else ()
    parts = [[f"--exclude-path={path}" for path in alone]]
    parts += [[f"--include-path={path}"] for path in alone]
    fuzzing, coverage = "--phases=examples,fuzzing", "--phases=coverage"
    sent = sum(_run(target, who, fuzzing_folder, [fuzzing, *part]) for part in parts)
    assert sent >= EXAMPLES * _count_variable(target.document())
    # Also each bound of each parameter, one by one.
    sent += sum(_run(target, who, fuzzing_folder, [coverage, *part]) for part in parts)
    note(f"31 {EXAMPLES} generated requests an operation, {who}: described", sent, 0)


def _count_variable(document: dict[str, Any]) -> int:
    """How many operations take anything that can be generated."""
    found = operations(document).values()
    return sum(bool(one["parameters"]) or "requestBody" in one for one in found)


def _run(target: Target, who: str, folder: Path, more: list[str]) -> int:
    """Returns how many requests were sent."""
    caller = target.caller(who)
    # A browser sends its form's token; who comes with a secret in a header sends none in the body.
    known = {
        name: values
        for name, values in target.known.items()
        if not (who == "oauth client" and name.startswith("body.client_"))
    }
    known["body.csrf_token"] = [caller.csrf_token]
    config = folder / "schemathesis.toml"
    config.write_text(SETTINGS + _named(known))
    [(name, value)] = caller.headers.items()
    program = str(Path(sys.executable).with_name("schemathesis"))
    document = folder / "openapi.json"
    document.write_text(json.dumps(target.document()))
    where = [str(document), f"--url={target.url}", f"-H{name}: {value}"]
    options = [*where, f"-n{EXAMPLES}", *more, *OPTIONS]
    command = [program, f"--config-file={config}", "run", *options]
    env = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": str(HOOKS),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(STORAGE),
    }
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.fail(ran.stdout[-6_000:] + ran.stderr[-2_000:], pytrace=False)
    found = re.search(r"(\d+) generated", ran.stdout)
    assert found is not None, ran.stdout
    return int(found[1])


def _named(known: Mapping[str, Any]) -> str:
    """Settings with these values among those that are generated for the parameters they name."""
    lines = []
    for number, values in enumerate(known.values()):
        lines += [f"[dictionaries.known-{number}]", f"values = {json.dumps(values)}"]
    lines += ["[parameters]"]
    for number, name in enumerate(known):
        options = f'dictionary = "known-{number}", probability = {SHARE_OF_KNOWN}'
        lines.append(f"{json.dumps(name)} = {{ {options} }}")
    return "\n".join(lines)
