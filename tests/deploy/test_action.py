"""`action.yml`: valid, and its steps at work in real git repositories, as a runner runs them."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

import detectors
from tests.deploy.manifests import find_errors, find_schema

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "action.yml"
ACTION: Final[dict[str, Any]] = YAML(typ="safe").load(FILE)
STEPS: Final = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION: Final = re.compile(r"\$\{\{ (.+?) \}\}")
# Stands in for GitHub's command, and so for its network: keeps comments in a file.
GH: Final = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
assert os.environ["GH_TOKEN"] == "the token"
store = Path(os.environ["COMMENTS"])
comments = json.loads(store.read_text()) if store.exists() else {{}}
arguments = sys.argv[1:]
if "graphql" in arguments:
    assert arguments[-4:] == ["-f", "query={{viewer{{login}}}}", "--jq", ".data.viewer.login"]
    print("github-actions[bot]")
    raise SystemExit
path = next(each for each in arguments if each.startswith("repos/acme/app/"))
if "--method" not in arguments:
    query = arguments[arguments.index("--jq") + 1]
    author, mark = os.environ["AUTHOR"], os.environ["MARK"]
    for id, (login, body) in comments.items():
        is_own = login == author or ".user.login == env.AUTHOR" not in query
        if is_own and (body.startswith(mark) or "startswith(env.MARK)" not in query):
            print(id)
    raise SystemExit
body = Path(arguments[arguments.index("-F") + 1].removeprefix("body=@")).read_text()
if arguments[arguments.index("--method") + 1] == "POST":
    assert path == "repos/acme/app/issues/7/comments"
    comments[str(len(comments) + 1)] = ["github-actions[bot]", body]
else:
    comments[path.removeprefix("repos/acme/app/issues/comments/")][1] = body
store.write_text(json.dumps(comments))
"""


def test_it_is_valid_and_no_input_becomes_a_part_of_a_script() -> None:
    schema = find_schema("github-actions")
    assert find_errors(ACTION, schema) == []
    assert find_errors(ACTION | {"runs": ACTION["runs"] | {"using": "composed"}}, schema) != []
    # No input becomes a part of a script.
    for name, step in STEPS.items():
        assert "${{" not in step["run"], name
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


class Repository:
    """A clone of a repository with a log, and a runner that has installed the action."""

    def __init__(self, folder: Path) -> None:
        self.origin, self.clone = folder / "origin.git", folder / "clone"
        self.runner = folder / "runner"
        self.comments = folder / "comments.json"
        installed = self.runner / "tallystick" / "bin"
        installed.mkdir(parents=True)
        (installed / "tallystick").symlink_to(Path(sys.executable).with_name("tallystick"))
        (self.runner / "gh").write_text(GH)
        (self.runner / "gh").chmod(0o755)
        self._run("git", "init", "--quiet", "--bare", "--initial-branch=main", self.origin)
        self._run("git", "clone", "--quiet", self.origin, self.clone)

    def _run(self, *command: str | Path) -> None:
        identity = {f"GIT_{who}_{what}": "dev@example.com" for who in ("AUTHOR", "COMMITTER")
                    for what in ("NAME", "EMAIL")}  # fmt: skip
        environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
        where = self.clone if self.clone.exists() else None
        subprocess.run(command, cwd=where, env=environment, check=True, capture_output=True)

    def commit(self, branch: str, **files: bytes) -> None:
        """Commit these files, named with `_` for the dot, on a branch, and push it."""
        self._run("git", "checkout", "--quiet", "-B", branch)
        for name, content in files.items():
            (self.clone / name.replace("_", ".")).write_bytes(content)
        self._run("git", "add", "--all")
        self._run("git", "commit", "--quiet", "--message", "Change the log")
        self._run("git", "push", "--quiet", "origin", branch)

    def audit(self, **inputs: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
        """Run the step that audits, and return it with its outputs."""
        output = self.runner / "output"
        output.write_text("")
        given = {name: value["default"] for name, value in ACTION["inputs"].items()
                 if "default" in value}  # fmt: skip
        given |= {"file": "usage.jsonl"} | {k.replace("_", "-"): v for k, v in inputs.items()}
        context = {f"inputs.{name}": value for name, value in given.items()}
        done = self.step("Audit", context, GITHUB_OUTPUT=str(output))
        return done, dict(line.split("=", 1) for line in output.read_text().splitlines())

    def comment(self, outputs: Mapping[str, str]) -> list[str]:
        """Run the step that comments, and return the action's comments of the pull request."""
        context = {
            **{"inputs.file": "usage.jsonl", "inputs.token": "the token"},
            "steps.gate.outputs.markdown": outputs["markdown"],
            "github.event.pull_request.number": "7",
        }
        done = self.step("Comment", context, GITHUB_REPOSITORY="acme/app",
                         COMMENTS=str(self.comments))  # fmt: skip
        assert done.returncode == 0, done.stderr
        comments = json.loads(self.comments.read_text()).values()
        return [body for login, body in comments if login == "github-actions[bot]"]

    def step(
        self, name: str, context: Mapping[str, str], **environment: str
    ) -> subprocess.CompletedProcess[str]:
        own = {
            variable: EXPRESSION.sub(lambda found: context[found[1]], value)
            for variable, value in STEPS[name]["env"].items()
        }
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        runner = {
            **{"RUNNER_TEMP": str(self.runner), "GITHUB_ACTIONS": "true"},
            "GITHUB_STEP_SUMMARY": str(self.runner / "summary.md"),
            "PATH": f"{self.runner}:{os.environ['PATH']}",
        }
        every = {**os.environ, **runner, **own, **environment}
        return subprocess.run(shell, cwd=self.clone, env=every, capture_output=True, text=True)


def _log(**calls: int) -> bytes:
    """Return a log of short answers of a flagship model, so many of each route, over ten days."""
    start = datetime(2026, 10, 1, tzinfo=UTC)
    lines = [
        {
            **{"provider": "openai", "model": "gpt-5.5-pro", "tag": route},
            **{"prompt_tokens": 40_000 + number, "completion_tokens": 20},
            "ts": (start + timedelta(days=10) * number / count).isoformat(),
        }
        for route, count in calls.items()
        for number in range(count)
    ]
    return b"\n".join(json.dumps(line).encode() for line in lines)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_pull_request_fails_for_what_it_adds_and_says_so_in_one_comment(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    log = _log(support=300)
    baseline = detectors.audit(BytesIO(log)).to_json()
    repository.commit("main", usage_jsonl=log, baseline_json=baseline)

    # A branch that adds calls of another route fails, although it brings a baseline of its own.
    repository.commit("change", usage_jsonl=_log(support=300, search=300), baseline_json=b"{}")
    done, outputs = repository.audit(baseline="baseline.json", baseline_ref="main")
    assert done.returncode == 1, done.stderr
    assert "::error title=Oversized model::New: search, gpt-5.5-pro: up to $" in done.stderr
    (failure,) = json.loads(Path(outputs["result"]).read_text())["failures"]
    assert (failure["status"], failure["route"]) == ("new", "search")
    (comment,) = repository.comment(outputs)
    assert "is new or has grown since" in comment
    assert not (repository.clone / ".git" / "shallow").exists(), "later steps need the history"
    assert "<code>search</code>" in comment

    # The next push takes the calls away: it passes, and the comment says that instead. The
    # comment of someone who copied its mark stays.
    copied = json.dumps({"0": ["someone", comment], **json.loads(repository.comments.read_text())})
    repository.comments.write_text(copied)
    repository.commit("change", usage_jsonl=_log(support=300))
    done, outputs = repository.audit(baseline="baseline.json", baseline_ref="main")
    assert done.returncode == 0, done.stderr
    assert outputs["passed"] == "true"
    (comment,) = repository.comment(outputs)
    assert "Gate passed: no finding of high severity is new or has grown" in comment
    assert json.loads(repository.comments.read_text())["0"] == json.loads(copied)["0"]


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_baseline_that_the_base_does_not_have_is_bad_use(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit("main", usage_jsonl=b"{}")
    done, outputs = repository.audit(baseline="baseline.json", baseline_ref="main")
    assert done.returncode == 2
    assert "There is no baseline.json at main." in done.stderr
    assert outputs == {}
    done, outputs = repository.audit(baseline_ref="main")
    assert done.returncode == 2
    assert "::baseline-ref needs baseline, the report's path" in done.stderr
    assert outputs == {}


def test_a_baseline_ref_is_never_an_option_of_git(tmp_path: Path) -> None:
    """A pull request may name its base, and `git fetch` runs a program for some options."""
    repository = Repository(tmp_path)
    repository.commit("main", usage_jsonl=_log(support=30))
    mark = tmp_path / "ran"
    done, outputs = repository.audit(
        baseline="baseline.json", baseline_ref=f"--upload-pack=touch {mark};"
    )
    assert (done.returncode != 0, outputs) == (True, {})
    assert not mark.exists()
