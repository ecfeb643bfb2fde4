"""Audits on a real cluster of Spark: equal documents, or the true reason soon."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import psutil
import pytest

import detectors
from detectors.distributed.spark import auditing
from tests.detectors.distributed.cluster import Cluster, Program, running
from tests.detectors.inputs.frames import NEEDS_JAVA, as_polars, spark
from tests.detectors.reference.traffic import STARTS, draw_crowd_of_routes, draw_log

_LONG = 900
pytestmark = [NEEDS_JAVA, pytest.mark.timeout(_LONG)]
_SOON = 30  # seconds
_HELD_UP = 40
_AS_SHIPPED = {"spark.sql.adaptive.enabled": "true"}
_TAGS, _CALLS = 60_004, 62_400
_SMALL = 16 << 20  # bytes that a frame may take to be audited by the driver
_MOST = "spark.driver.maxResultSize"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server without a cluster."""
    with running(tmp_path_factory.mktemp("small"), is_small=True) as started:
        yield started.start_connect()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of the tests that leave it as it is."""
    with running(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of one test, which kills its processes, or keeps its executors busy."""
    with running(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    return as_polars(draw_crowd_of_routes(1))


@pytest.fixture
def odd() -> pl.DataFrame:
    """Calls with invalid rows in each of four partitions; some have hashes by level."""
    own, row = as_polars(draw_log(9))[:800].with_row_index("row"), pl.col("row")
    bad = pl.when(row % 8 == 0).then(-1).otherwise(pl.col("prompt_tokens"))
    levels = pl.concat_list(pl.lit("a" * 16), pl.format("{}{}", pl.lit("0" * 15), row % 9))
    has_none = pl.col("prefix_hash").fill_null("") == ""
    own = own.with_columns(
        bad.alias("prompt_tokens"), pl.when(has_none).then(levels).alias("prefix_hashes")
    ).drop("row")
    assert not own["prefix_hashes"].is_null().all()
    return own


def _case(folder: Path, log: pl.DataFrame, **more: Any) -> dict[str, Any]:
    path = folder / f"log-{len(list(folder.iterdir()))}.parquet"
    log.write_parquet(path)
    return {"path": str(path), "partitions": 4, "conf": _AS_SHIPPED} | more


def _repeat(log: pl.DataFrame, times: int) -> pl.DataFrame:
    return pl.concat([log.with_columns(request_id=pl.lit(""))] * times)


def _audit(log: pl.DataFrame) -> str:
    return detectors.audit(log).to_json().decode()


def test_the_driver_of_spark_audits_a_small_frame_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the frame again for calls. One that is larger than expected is for executors."""
    log = as_polars(draw_log(9))
    log.write_parquet(tmp_path / "log.parquet")
    frame, here = spark().read.parquet(str(tmp_path)), detectors.audit(log)
    monkeypatch.setattr(auditing, "GATHERED_BYTES", _SMALL)
    steps = list[tuple[int, int]]()
    report = detectors.audit(frame, progress=lambda *step: steps.append(step))
    assert report.to_json() == here.to_json()
    assert {total for _, total in steps} == {2}
    assert report.calls(here.findings[0]).equals(here.calls(here.findings[0]))
    by_executors = Mock()
    monkeypatch.setattr("detectors.distributed.spark.audit", by_executors)
    conf = spark().sparkContext._jsc.sc().conf()
    conf.set(_MOST, "10k")
    try:
        assert detectors.audit(frame) is by_executors.return_value
    finally:
        conf.remove(_MOST)
    assert by_executors.call_args.args == (frame,)


def test_spark_audits_partitions_as_here(odd: pl.DataFrame) -> None:
    """Two Python workers audit four partitions, adaptively as Spark is shipped."""
    conf, adaptive = spark().conf, "spark.sql.adaptive.enabled"
    before = str(conf.get(adaptive))
    conf.set(adaptive, _AS_SHIPPED[adaptive])
    try:
        frame = spark().createDataFrame(odd.to_arrow())
        assert frame.rdd.getNumPartitions() == 4
        assert detectors.audit(frame).to_json().decode() == _audit(odd)
    finally:
        conf.set(adaptive, before)
    assert detectors.audit(odd).invalid_rows.count == 100


@pytest.mark.stress
def test_spark_audits_through_connect_as_here(
    small: str, odd: pl.DataFrame, tmp_path: Path
) -> None:
    """By default, the same rows in a session of the test's own process: the test above."""
    conf = _AS_SHIPPED | {"spark.sql.leafNodeDefaultParallelism": "4"}
    case = {"path": _case(tmp_path, odd)["path"], "in_order": True, "conf": conf}
    (found,) = Program(tmp_path, small, [case]).finish()
    assert found == _audit(odd)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_stops_when_an_audit_is_given_up() -> None:
    """Progress is reported while a job runs, so that what it raises ends the job."""

    def hold_up(batches: Iterator[Any]) -> Iterator[Any]:
        time.sleep(_HELD_UP)
        yield from batches

    frame = spark().createDataFrame(as_polars(draw_log(3)[:5]).to_arrow())
    active = spark().sparkContext.statusTracker().getActiveJobsIds

    def give_up(done: int, total: int) -> None:
        assert (done, total, len(active())) == (0, 3, 1)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        detectors.audit(frame.mapInArrow(hold_up, frame.schema), progress=give_up)
    while active() and time.monotonic() < began + _HELD_UP:
        time.sleep(0.05)
    assert time.monotonic() < began + _HELD_UP


@pytest.mark.stress
@pytest.mark.parametrize("address", ["classic", "connect"])
def test_spark_audits_any_partitions_and_tags_as_here(
    fragile: Cluster, log: pl.DataFrame, tmp_path: Path, address: str
) -> None:
    """Of 60,004 tags, most have one call; a table of Spark's own catalog is a frame as well."""
    first = STARTS[0]
    row = pl.int_range(_CALLS, eager=True).alias("row")
    times = pl.Series("ts", [first + timedelta(seconds=30 * n) for n in range(_CALLS)])
    many = log.head(1).select(pl.all().repeat_by(_CALLS).explode())
    many = many.with_columns(
        times.cast(log.schema["ts"]), pl.format("tag-{}", row % _TAGS).alias("tag")
    )
    one = log.with_columns(tag=pl.lit("one"))
    cases, expected = list[dict[str, Any]](), list[str]()
    for calls in (log, many, one):
        case, document = _case(tmp_path, calls), _audit(calls)
        for partitions in (1, 2, 7, 200) if calls is not one else (1, 7):
            for is_adaptive in ("true", "false"):
                conf = {
                    "spark.sql.adaptive.enabled": is_adaptive,
                    "spark.sql.shuffle.partitions": str(partitions),
                }
                cases.append(case | {"partitions": partitions, "conf": conf})
                expected.append(document)
    cases.append(_case(tmp_path, log, table=f"calls_{address}"))
    expected.append(_audit(log))
    where = fragile.master_url if address == "classic" else fragile.start_connect()
    found = Program(tmp_path, where, cases).finish(_LONG)
    differing = [case for case, a, b in zip(cases, found, expected, strict=True) if a != b]
    assert not differing, found[cases.index(differing[0])][:500]


@pytest.mark.stress
def test_spark_loses_executors_and_a_worker_and_audits_alike(
    fragile: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    """Each loss costs parts; executors that fail too often are for Spark to replace."""
    case = _case(tmp_path, _repeat(log, 60))
    program = Program(tmp_path, fragile.master_url, [case] * 3)
    killed, source = 0, random.Random(7)
    deadline = time.monotonic() + 150
    while program.process.poll() is None and killed < 5 and time.monotonic() < deadline:
        time.sleep(source.uniform(0.5, 2.5))
        if executors := fragile.executors():
            source.choice(executors).kill()
            killed += 1
    fragile.workers[0].kill()
    assert program.finish() == [_audit(_repeat(log, 60))] * 3
    assert killed == 5


def _wait_until(holds: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.stress
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_spark_connect_server_that_dies_ends_the_audit_soon(
    fragile: Cluster, log: pl.DataFrame, tmp_path: Path, is_restarted: bool
) -> None:
    address = fragile.start_connect()
    program = Program(tmp_path, address, [_case(tmp_path, _repeat(log, 300))], is_lost=True)
    _wait_until(fragile.has_tasks, 300)
    executors = fragile.executors()
    died = time.monotonic()
    assert fragile.connect is not None
    fragile.connect.kill()
    if is_restarted:
        fragile.connect.wait()
        fragile.start_connect(int(address.rpartition(":")[2]))
    (text,) = program.finish()
    assert time.monotonic() - died < _SOON
    if is_restarted:
        assert text.startswith(("SparkJobError: The Spark Connect server was", "SparkUnreach"))
    else:
        assert text.startswith("SparkUnreachableError: The Spark Connect server")
    _, left = psutil.wait_procs(executors, _SOON)
    assert not left


@pytest.mark.stress
def test_spark_without_its_master_goes_on_with_its_executors(
    fragile: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    case = _case(tmp_path, _repeat(log, 300))
    program = Program(tmp_path, fragile.master_url, [case], is_lost=True)
    _wait_until(fragile.has_tasks, 300)
    fragile.master.kill()
    assert program.finish() == [_audit(_repeat(log, 300))]


@pytest.mark.stress
def test_spark_executors_without_our_package_are_named(
    cluster: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    bare = str(Path(sys.base_prefix) / "bin" / "python3")
    started = time.monotonic()
    environ = {"PYSPARK_PYTHON": bare}
    program = Program(tmp_path, cluster.master_url, [_case(tmp_path, log)], environ=environ)
    (text,) = program.finish()
    assert text.startswith("ExecutorsLackPackageError: Spark's executors can't import"), text
    assert time.monotonic() - started < 2 * _SOON  # with the start of Spark


@pytest.mark.stress
def test_spark_executors_of_another_version_are_refused(
    cluster: Cluster, log: pl.DataFrame, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "tallystick_server-0.0.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Name: tallystick-server\nVersion: 0.0.9\n")
    paths = f"{other.parent}:{Path(detectors.__file__).parents[1]}"
    settings = {"spark.executorEnv.PYTHONPATH": paths}
    program = Program(tmp_path, cluster.master_url, [_case(tmp_path, log)], settings=settings)
    (text,) = program.finish()
    assert text.startswith("VersionsDifferError: Spark's executors have tallystick-server 0.0.9")


@pytest.mark.stress
def test_spark_without_a_library_for_s3_says_so(cluster: Cluster, tmp_path: Path) -> None:
    cases = [
        {"path": f"{kind}://bucket/calls.parquet", "engine": "pyspark"} for kind in ("s3", "s3a")
    ]
    for text in Program(tmp_path, cluster.master_url, cases).finish():
        assert text.startswith("NoFileSystemError: Spark can't read this kind of address. For s3")
