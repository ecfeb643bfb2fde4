"""`deploy/Dockerfile` and `deploy/compose.yaml`: linted, and equal to the Procfile and settings."""

import re
import shlex
from pathlib import Path
from typing import Any, Final

from service.config import Config
from tests.cases import each_case
from tests.deploy.manifests import (
    BACKUP,
    DEPLOY,
    HEALTH_PATHS,
    METRICS_PORT,
    MIGRATE,
    PROCESSES,
    ROOT,
    SETTINGS,
    STOP_SECONDS,
    WEB_PORT,
    find_errors,
    find_schema,
    load,
    run,
    tool,
)

DOCKERFILE: Final = (DEPLOY / "Dockerfile").read_text()
COMPOSE: Final = load(DEPLOY / "compose.yaml")
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
OURS: Final = [*PROCESSES, "migrate", "backup"]


def test_hadolint_accepts_the_dockerfile() -> None:
    checked = run(tool("hadolint"), DEPLOY / "Dockerfile")
    assert checked.returncode == 0, checked.stdout


def test_the_last_stage_runs_as_a_user_and_installs_no_compiler() -> None:
    base, build, last = re.split(r"^FROM .*$", DOCKERFILE, flags=re.MULTILINE)
    assert re.search(r"^ARG BASE=debian:[\w.-]+@sha256:[0-9a-f]{64}$", base, re.MULTILINE)
    assert "--require-hashes" in build
    assert re.findall(r"^USER (.*)$", last, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"--no-install-recommends ([^\\]+) \\", last) == ["ca-certificates python3"]
    assert re.findall(r"^EXPOSE (.*)$", last, re.MULTILINE) == [f"{WEB_PORT} {METRICS_PORT}"]
    assert f"127.0.0.1:{WEB_PORT}/readyz" in last
    command = re.findall(r"^CMD \[(.*)\]$", last, re.MULTILINE)[0]
    assert shlex.split(command.replace(",", " ")) == PROCESSES["web"]


def test_the_image_gets_what_it_copies_and_sets_what_exists() -> None:
    copied = {
        part
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for part in line.split()
    }
    ignored = (ROOT / ".dockerignore").read_text()
    assert copied == {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    assert all((ROOT / path).exists() for path in copied)
    assert {"requirements/service.lock", "requirements/deploy/traces.lock"} <= copied
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    variables = re.findall(r"^(?:ENV|   ) ([A-Z_]+)=", last, re.MULTILINE)
    assert len(variables) >= 6
    assert set(variables) <= SETTINGS


def test_compose_follows_its_specification_and_runs_every_process() -> None:
    schema = find_schema("compose-spec")
    assert find_errors(COMPOSE, schema) == []
    assert find_errors({"services": {"web": {"comand": []}}}, schema) != []
    # Compose runs every process of the procfile.
    assert {name: SERVICES[name]["command"] for name in PROCESSES} == PROCESSES
    assert SERVICES["migrate"]["command"] == MIGRATE
    assert SERVICES["backup"]["command"] == BACKUP
    assert [name for name, one in SERVICES.items() if "profiles" in one] == ["backup"]
    assert SERVICES.keys() == {*OURS, "postgres", "valkey", "caddy"}


@each_case("name", OURS)
def test_a_process_of_compose_is_hardened_bounded_and_knows_its_settings(name: str) -> None:
    service = SERVICES[name]
    assert service["environment"].keys() <= SETTINGS
    _check_secrets(service)
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory", "pids"}
    assert int(service["stop_grace_period"].removesuffix("s")) >= STOP_SECONDS
    waits_for = {one: it["condition"] for one, it in service["depends_on"].items()}
    if name == "migrate":
        assert waits_for == {"postgres": "service_healthy"}
    else:
        assert waits_for["migrate"] == "service_completed_successfully"


def _check_secrets(service: dict[str, Any]) -> None:
    """Check that each file of a secret is mounted, and that nothing else is."""
    mounted = {f"/run/secrets/{name}" for name in service["secrets"]}
    named = {path for name, path in service["environment"].items() if name.endswith("_FILE")}
    assert named == mounted
    assert set(service["secrets"]) <= COMPOSE["secrets"].keys()


def test_the_exporter_reads_the_age_of_the_backups_that_are_made() -> None:
    default, settings = SERVICES["backup"]["env_file"]
    # The file of the administrator comes last, and `environment` would win over both.
    assert settings == SERVICES["web"]["env_file"][-1]
    readers = [name for name, one in SERVICES.items() if default in one.get("env_file", ())]
    assert set(readers) == {"backup", "metrics"}
    assert not [name for name in OURS if "BACKUP_URL" in SERVICES[name]["environment"]]
    assert SERVICES["metrics"]["env_file"] == [default, settings]
    (folder,) = set(SERVICES["backup"]["volumes"]) - set(SERVICES["web"]["volumes"])
    inside = folder.partition(":")[2]
    assert f"BACKUP_URL=file://{inside}" in (DEPLOY / default["path"]).read_text().splitlines()
    assert f"{folder}:ro" in SERVICES["metrics"]["volumes"]
    # A bucket is outside.
    assert all("outside" in SERVICES[name]["networks"] for name in readers)


def test_only_migrate_has_the_owner_of_the_tables_and_nothing_but_caddy_listens_outside() -> None:
    holders = [name for name, one in SERVICES.items()
               if "migration_database_url" in one.get("secrets", ())]  # fmt: skip
    assert holders == ["migrate"]
    # Everything that serves has a health check.
    for name in ("web", "postgres", "valkey"):
        assert SERVICES[name]["healthcheck"]["test"], name
    path = re.findall(r":8000(/\w+)", str(SERVICES["web"]["healthcheck"]["test"]))
    assert path
    assert set(path) <= HEALTH_PATHS
    assert SERVICES["caddy"]["environment"]["TALLYSTICK_WEB"] == f"web:{WEB_PORT}"
    assert SERVICES["caddy"]["depends_on"] == {"web": {"condition": "service_healthy"}}
    # Nothing but caddy listens outside.
    assert [name for name, one in SERVICES.items() if "ports" in one] == ["caddy"]
    assert COMPOSE["networks"]["servers"] == {"internal": True}
    assert {name for name in SERVICES if SERVICES[name]["networks"] == ["servers"]} == {
        *("postgres", "valkey")
    }


def test_shellcheck_accepts_the_scripts() -> None:
    scripts = sorted((DEPLOY / "scripts").iterdir())
    assert len(scripts) == 2
    checked = run(tool("shellcheck"), *scripts)
    assert checked.returncode == 0, checked.stdout


def test_the_script_writes_every_secret_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    script = DEPLOY / "scripts" / "make-secrets"
    assert run(script, folder).returncode == 0
    written = {path.name: path.read_text() for path in folder.iterdir()}
    files = {Path(one["file"]).name for one in COMPOSE["secrets"].values()}
    assert files == COMPOSE["secrets"].keys()
    assert written.keys() == files - {"backup_key"}  # `tallystick backup new-key` prints it
    assert len(set(written.values())) == len(written)
    assert folder.stat().st_mode & 0o777 == 0o700
    settings = SERVICES["migrate"]["environment"]
    # The service accepts what the files hold.
    config = Config.from_environment({
        **{name: str(folder / Path(path).name) for name, path in settings.items()
           if name.endswith("_FILE")},
        "STORAGE_URL": "file:///var/lib/tallystick/blobs",
    })  # fmt: skip
    assert config.database_url.endswith("@postgres/tallystick")

    (folder / "admin_token").unlink()
    assert run(script, folder).returncode == 0
    assert (folder / "admin_token").read_text() != written.pop("admin_token")
    assert {name: (folder / name).read_text() for name in written} == written
