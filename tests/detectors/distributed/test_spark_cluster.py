"""Audits on a real cluster of Spark: equal documents, or the true reason soon."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import detectors
from tests.detectors.distributed.cluster import (
    SETTINGS,
    Cluster,
    environment,
    running,
    start_program,
)
from tests.detectors.inputs.frames import NEEDS_JAVA, as_polars, spark
from tests.detectors.reference.traffic import draw_crowd_of_routes, draw_log

pytestmark = NEEDS_JAVA


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    return as_polars(draw_crowd_of_routes(1))


def _tell(folder: Path, log: pl.DataFrame, master: str, **more: Any) -> dict[str, Any]:
    log.write_parquet(folder / "log.parquet")
    settings = dict(SETTINGS) | ({"spark.master": master} if not master.startswith("sc:") else {})
    settings = {"spark.remote": master} if master.startswith("sc:") else settings
    told = {"path": str(folder / "log.parquet"), "out": str(folder / "out"), "partitions": 4}
    return told | {"settings": settings | more.pop("settings", {})} | more


def _finish(process: Any, folder: Path, seconds: float = 180) -> str:
    try:
        process.wait(seconds)
    finally:
        process.kill()
        process.wait()
    out = folder / "out"
    assert out.exists(), (folder / "program.log").read_text()[-3000:]
    return out.read_text()


def test_spark_audits_partitions_with_adaptive_queries_alike() -> None:
    frame = as_polars(draw_log(3))
    conf = spark().conf
    conf.set("spark.sql.adaptive.enabled", "true")
    try:
        rows = spark().createDataFrame(frame.to_arrow()).repartition(4)
        assert detectors.audit(rows).to_json() == detectors.audit(frame).to_json()
    finally:
        conf.set("spark.sql.adaptive.enabled", "false")


@pytest.mark.stress
def test_spark_connect_on_a_cluster_of_two_workers_audits_alike(
    cluster: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    told = _tell(tmp_path, log, cluster.start_connect())
    process = start_program(told, environment(), tmp_path / "program.log")
    assert _finish(process, tmp_path) == detectors.audit(log).to_json().decode()


@pytest.mark.stress
def test_spark_loses_executors_and_a_worker_and_audits_alike(
    cluster: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    """Each loss costs parts; executors that fail too often are for Spark to replace."""
    many = pl.concat([log.with_columns(request_id=pl.lit("")) for _ in range(60)])
    expected = detectors.audit(many).to_json().decode()
    told = _tell(tmp_path, many, cluster.master_url)
    process = start_program(told, environment(), tmp_path / "program.log")
    killed, source = 0, random.Random(7)
    deadline = time.monotonic() + 150
    while process.poll() is None and killed < 5 and time.monotonic() < deadline:
        time.sleep(source.uniform(0.5, 2.5))
        if executors := cluster.executors():
            source.choice(executors).kill()
            killed += 1
    cluster.workers[0].kill()
    assert _finish(process, tmp_path, 200) == expected
    assert killed


@pytest.mark.stress
@pytest.mark.parametrize("what", ["master", "connect"])
def test_a_spark_server_that_dies_ends_the_audit_soon(
    cluster: Cluster, log: pl.DataFrame, tmp_path: Path, what: str
) -> None:
    """Without its master, a session goes on with the executors that it has."""
    many = pl.concat([log.with_columns(request_id=pl.lit("")) for _ in range(300)])
    address = cluster.start_connect() if what == "connect" else cluster.master_url
    told = _tell(tmp_path, many, address, abrupt=True)
    process = start_program(told, environment(), tmp_path / "program.log")
    while not cluster.executors():
        assert process.poll() is None
        time.sleep(0.2)
    time.sleep(3)
    died = time.monotonic()
    (cluster.connect or cluster.master).kill()
    text = _finish(process, tmp_path, 150)
    if what == "connect":
        assert text.startswith("SparkUnreachableError: The Spark Connect server")
        assert time.monotonic() - died < 30
    else:
        assert text == detectors.audit(many).to_json().decode()


@pytest.mark.stress
def test_spark_executors_without_our_package_are_named(
    cluster: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    import sys

    bare = str(Path(sys.base_prefix) / "bin" / "python3")
    told = _tell(tmp_path, log, cluster.master_url, abrupt=True)
    started = time.monotonic()
    environ = environment(PYSPARK_PYTHON=bare)
    process = start_program(told, environ, tmp_path / "program.log")
    text = _finish(process, tmp_path, 90)
    assert text.startswith("ExecutorsLackPackageError: Spark's executors can't import"), text
    assert time.monotonic() - started < 60
