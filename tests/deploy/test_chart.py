"""`deploy/helm`: rendered by Helm, valid for Kubernetes, and equal to the Procfile and settings."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from service.config import SECRETS
from service.models.audits.audits import QUEUED
from tests.deploy.manifests import (
    BACKUP,
    DEPLOY,
    HEALTH_PATHS,
    METRICS_PORT,
    MIGRATE,
    PROCESSES,
    ROOT,
    SETTINGS,
    WEB_PORT,
    find_errors,
    load,
    run,
    tool,
)

CHART: Final = DEPLOY / "helm" / "tallystick"
EXPORTER: Final = ROOT / "service" / "operations" / "exporter" / "database_metrics.py"
# With everything on: what the defaults leave out.
EVERYTHING: Final = (
    "--set=autoscaling.enabled=true,backup.enabled=true,storage.url=s3://bucket/prefix,secrets.keys.SMTP_URL=smtp-url,"
    "settings.LOG_LEVEL=DEBUG,settings.DRAIN_SECONDS=30,image.pullSecrets={registry},"
    "serviceAccount.annotations.role=one,image.digest=sha256:" + "a" * 64
)
Objects = dict[tuple[str, str], Any]


def _render(*options: str) -> Objects:
    done = run(tool("helm"), "template", "r", CHART, *options)
    assert done.returncode == 0, done.stdout
    objects = [one for one in YAML(typ="safe").load_all(done.stdout) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


@pytest.fixture(scope="module", params=["defaults", "everything"])
def rendered(request: pytest.FixtureRequest) -> Objects:
    return _render(*([EVERYTHING] if request.param == "everything" else []))


@pytest.fixture(scope="module")
def defaults() -> Objects:
    return _render()


def _pods(objects: Objects) -> Iterator[tuple[str, Any]]:
    for (kind, name), one in objects.items():
        if kind in ("Deployment", "Job"):
            yield name, one["spec"]["template"]["spec"]
        elif kind == "CronJob":
            yield name, one["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def _containers(objects: Objects) -> Iterator[tuple[str, Any]]:
    for name, pod in _pods(objects):
        for container in pod["containers"]:
            yield f"{name}/{container['name']}", container


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_every_object_is_valid_for_kubernetes(rendered: Objects, version: str) -> None:
    path = Path(sys.executable).parents[1] / f"share/kubernetes/v{version}.json"
    if not path.exists():
        pytest.skip("no schemas of Kubernetes here: run `make .venv/.tools-unpacked`")
    schemas = json.loads(path.read_text())["$defs"]
    assert len(rendered) > 12
    for one in rendered.values():
        schema = _schema(schemas, one["apiVersion"], one["kind"])
        assert find_errors(one, schema) == [], one["metadata"]["name"]
    broken = {**next(iter(rendered.values())), "sepc": {}}
    assert find_errors(broken, _schema(schemas, broken["apiVersion"], broken["kind"])) != []


def _schema(schemas: dict[str, Any], version: str, kind: str) -> Any:
    """Return the schema of a kind, with the definitions that it refers to."""
    group, _, number = version.rpartition("/")
    wanted = {"group": group, "kind": kind, "version": number}
    for name, schema in schemas.items():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return {"$ref": f"#/$defs/{name}", "$defs": schemas}
    raise AssertionError(wanted)


def test_processes_and_variables_are_those_of_the_service(rendered: Objects) -> None:
    commands = {name: container["command"] for name, container in _containers(rendered)}
    ours = {f"r-{name}/{name}": command for name, command in PROCESSES.items()}
    counting = ("web", "worker", "mail", "notices", "sweeper")
    counters = {f"r-{name}/counters": PROCESSES["metrics"] for name in counting}
    assert commands.pop("r-backup/backup", BACKUP) == BACKUP
    assert commands == {**ours, **counters, "r-migrate/migrate": MIGRATE}
    assert load(CHART / "values.yaml")["processes"].keys() == PROCESSES.keys()
    # Every variable is a setting.
    for name, container in _containers(rendered):
        variables = {one["name"]: one["value"] for one in container["env"]}
        assert variables.keys() <= SETTINGS, name
        mounts = {one["mountPath"] for one in container["volumeMounts"]}
        for variable, path in variables.items():
            if variable.endswith("_FILE"):
                assert str(Path(path).parent) in mounts, (name, variable)


def test_the_schema_refuses_mistakes() -> None:
    assert load(CHART / "values.yaml")["secrets"]["keys"].keys() <= set(SECRETS)
    for mistake in ("processes.web.replica=3", "secrets.keys.admin=a", "host=https://a"):
        done = run(tool("helm"), "template", "r", CHART, f"--set={mistake}")
        assert done.returncode != 0, mistake


def test_every_pod_is_hardened_and_bounded(rendered: Objects) -> None:
    for name, pod in _pods(rendered):
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["runAsUser"] == 10001, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        volumes = {one["name"] for one in pod["volumes"]}
        for container in pod["containers"]:
            assert {one["name"] for one in container["volumeMounts"]} <= volumes, name
    for name, container in _containers(rendered):
        assert container["securityContext"] == {
            **{"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
        assert "memory" in container["resources"]["limits"], name


def test_a_pod_has_the_time_that_its_settings_say_to_stop(rendered: Objects) -> None:
    for name, pod in _pods(rendered):
        settings = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
        drain = int(settings.get("DRAIN_SECONDS", 0))
        if "terminationGracePeriodSeconds" in pod:
            needed = int(settings["STOP_SECONDS"]) + drain + 10
            assert pod["terminationGracePeriodSeconds"] >= needed, name


def test_only_the_migration_has_the_owner_of_the_tables(rendered: Objects) -> None:
    job = rendered["Job", "r-migrate"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    holders = [name for name, pod in _pods(rendered) if "tallystick-migration" in json.dumps(pod)]
    assert holders == ["r-migrate"]
    assert not [key for key in rendered if key[0] == "Secret"]


def test_the_exporter_reads_the_age_of_the_backups_that_are_made(rendered: Objects) -> None:
    urls = {
        name: one["value"]
        for name, container in _containers(rendered)
        for one in container["env"]
        if one["name"] == "BACKUP_URL"
    }
    has_backups = ("CronJob", "r-backup") in rendered
    assert urls.keys() == ({"r-backup/backup", "r-metrics/metrics"} if has_backups else set())
    assert len(set(urls.values())) == has_backups


def test_probes_and_ports_are_those_of_the_service(defaults: Objects) -> None:
    web, metrics = (
        defaults["Deployment", f"r-{name}"]["spec"]["template"]["spec"]["containers"][0]
        for name in ("web", "metrics")
    )
    probes = [web[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert {one["path"] for one in probes} == HEALTH_PATHS
    assert {one["port"] for one in probes} == {"http"}
    assert [one["containerPort"] for one in web["ports"]] == [WEB_PORT]
    assert [one["containerPort"] for one in metrics["ports"]] == [METRICS_PORT]
    opened = [
        port["port"]
        for (kind, _), policy in defaults.items()
        if kind == "NetworkPolicy"
        for rule in policy["spec"].get("ingress", ())
        for port in rule["ports"]
    ]
    assert sorted(opened) == [WEB_PORT, METRICS_PORT]


def test_workers_scale_by_a_metric_that_the_exporter_has(defaults: Objects) -> None:
    scaler = _render(EVERYTHING)["HorizontalPodAutoscaler", "r-worker"]["spec"]
    metric = scaler["metrics"][0]["external"]["metric"]
    source = EXPORTER.read_text()
    assert 'f"{name}_waiting"' in source
    assert f'"{metric["name"].removesuffix("_waiting")}"' in source
    assert metric["selector"]["matchLabels"] == {"status": QUEUED}
    assert ("Deployment", scaler["scaleTargetRef"]["name"]) in defaults
    budgets = {name for kind, name in defaults if kind == "PodDisruptionBudget"}
    assert budgets == {"r-web", "r-worker"}


def test_a_worker_has_a_sixth_of_the_share_of_web_on_busy_processors(defaults: Objects) -> None:
    pods = dict(_pods(defaults))
    web, worker = (_cpu_request(pods[f"r-{name}"]) for name in ("web", "worker"))
    docker = load(DEPLOY / "compose.yaml")["services"]
    unit = (DEPLOY / "systemd" / "tallystick-worker@.service").read_text()
    weight = int(unit.partition("CPUWeight=")[2].split()[0])
    # 1,024 and 100 are the defaults, which web has.
    assert "cpu_shares" not in docker["web"]
    shares = web / worker, 1024 / docker["worker"]["cpu_shares"], 100 / weight
    assert [round(share, 1) for share in shares] == [6.0, 6.0, 5.9]


def _cpu_request(pod: Any) -> int:
    """Return the thousandths of a processor that a pod's containers request."""
    requests = [one["resources"]["requests"]["cpu"] for one in pod["containers"]]
    return sum(int(one.removesuffix("m")) * (1 if one.endswith("m") else 1000) for one in requests)


def test_helm_lints_the_chart() -> None:
    linted = run(tool("helm"), "lint", "--strict", CHART)
    assert linted.returncode == 0, linted.stdout
