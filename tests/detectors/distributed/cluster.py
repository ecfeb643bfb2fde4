"""A standalone Spark master with two workers, and a Connect server on it, on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark
import pytest

from tests.detectors.inputs.frames import SMALL_JAVA, SMALL_SPARK
from tests.service.support.live import free_port

_HOME: Final = Path(pyspark.__file__).parent
_ROOT: Final = Path(__file__).parents[3]
_START_SECONDS: Final = 300
_ENVIRONMENT: Final = {
    "SPARK_HOME": str(_HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(_ROOT),
    "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
}
# What a program of the cluster's user sets.
SETTINGS: Final = {
    **SMALL_SPARK,
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.executor.memory": "512m",
}


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **_ENVIRONMENT, **more}


class Cluster:
    """The processes of a cluster, which are stopped at the end, whatever has been killed.

    A small one is the process of the Connect server alone, with two Python workers.
    """

    def __init__(self, folder: Path, *, is_small: bool = False) -> None:
        self.folder = folder
        self.connect: subprocess.Popen[bytes] | None = None
        self.started: list[subprocess.Popen[bytes]] = []
        if is_small:
            self.master_url = "local[2]"
            return
        self.port = free_port()
        self.master_url = f"spark://127.0.0.1:{self.port}"
        self.master = self._start("master.Master", "--port", str(self.port))
        _wait(self.port, self.master, folder / "master.Master.log")
        self.workers = [self._start_worker(number) for number in range(2)]

    def _start(self, name: str, *options: str, log: str = "") -> subprocess.Popen[bytes]:
        arguments = ["--host", "127.0.0.1", "--webui-port", str(free_port()), *options]
        command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        return self._run([*command, *arguments], log or name)

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        folder = str(self.folder / f"worker{number}")
        options = ["--cores", "1", "--memory", "1g", "--work-dir", folder, self.master_url]
        return self._start("worker.Worker", *options, log=f"worker{number}")

    def _run(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("wb") as file:
            process = subprocess.Popen(
                command, env=environment(), cwd=self.folder, stdout=file, stderr=subprocess.STDOUT
            )
        self.started.append(process)
        return process

    def start_connect(self, port: int | None = None) -> str:
        """Start a Connect server whose driver uses the cluster; return its address."""
        port = port or free_port()
        settings = {
            **SETTINGS,
            "spark.master": self.master_url,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        command = [str(_HOME / "bin" / "spark-submit")]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        self.connect = self._run([*command, "spark-internal"], "connect")
        _wait(port, self.connect, self.folder / "connect.log")
        return f"sc://127.0.0.1:{port}"

    def executors(self) -> list[psutil.Process]:
        """Return the processes of the workers' executors."""
        found = list[psutil.Process]()
        for worker in self.workers:
            with suppress(psutil.Error):
                found += [
                    child
                    for child in psutil.Process(worker.pid).children(recursive=True)
                    if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())
                ]
        return found

    def has_tasks(self) -> bool:
        """Check whether an executor has started Python, as it does for the first task."""
        with suppress(psutil.Error):
            return any(executor.children() for executor in self.executors())
        return False

    def stop(self) -> None:
        left = list[psutil.Process]()
        for process in reversed(self.started):
            with suppress(psutil.Error):
                left += psutil.Process(process.pid).children(recursive=True)
            process.terminate()
        for process in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait(10)
        for child in left:
            with suppress(psutil.Error):
                child.kill()


@contextmanager
def running(folder: Path, *, is_small: bool = False) -> Iterator[Cluster]:
    cluster = Cluster(folder, is_small=is_small)
    try:
        yield cluster
    finally:
        cluster.stop()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"Spark did not start:\n{log.read_text()[-2000:]}")


# Audits a frame for each case that it is told, and writes the documents, or the errors' types and
# texts. Then no job may run on.
PROGRAM: Final = """
import faulthandler, json, os, sys, time, warnings
warnings.simplefilter("ignore")
faulthandler.dump_traceback_later(600)
import pyarrow.parquet
import detectors
from detectors.distributed.spark import auditing
from pyspark.sql import SparkSession
auditing.GATHERED_BYTES = 0  # small frames, too, are audited on executors
told = json.loads(sys.argv[1])
builder = SparkSession.builder
for name, value in told["settings"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
found = []
for case in told["cases"]:
    for name, value in case.get("conf", {}).items():
        spark.conf.set(name, value)
    try:
        if "engine" in case:
            frame = case["path"]
        elif "in_order" in case:
            frame = spark.createDataFrame(pyarrow.parquet.read_table(case["path"]))
        else:
            frame = spark.read.parquet(case["path"])
        if "partitions" in case:
            frame = frame.repartition(case["partitions"])
        if "table" in case:
            frame.write.saveAsTable(case["table"])
            frame = spark.read.table(case["table"])
        report = detectors.audit(frame, keep_calls=False, engine=case.get("engine"))
        found.append(report.to_json().decode())
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
if not told["settings"].get("spark.remote") and not told.get("is_lost"):
    deadline = time.monotonic() + 10
    while spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds(), found
with open(told["out"], "w") as out:
    json.dump(found, out)
os._exit(0) if told.get("is_lost") else spark.stop()
"""


class Program:
    """A user's program in a process of its own: a process has classic sessions or remote ones."""

    def __init__(
        self,
        folder: Path,
        address: str,
        cases: Sequence[dict[str, Any]],
        *,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        is_lost: bool = False,
    ) -> None:
        own = {"spark.remote": address} if address.startswith("sc:") else {"spark.master": address}
        own |= {} if address.startswith("sc:") else SETTINGS
        self._out, self._log = folder / "out", folder / "program.log"
        told = {"settings": own | dict(settings or {}), "cases": cases, "out": str(self._out)}
        command = [sys.executable, "-c", PROGRAM, json.dumps(told | {"is_lost": is_lost})]
        with self._log.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                cwd=folder,  # where Spark puts its tables
                env=environment(**environ or {}),
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def finish(self, seconds: float = 600) -> list[str]:
        """Return what it has found for each case."""
        try:
            self.process.wait(seconds)
        finally:
            self.process.kill()
            self.process.wait()
        assert self._out.exists(), self._log.read_text()[-3000:]
        found = json.loads(self._out.read_text())
        assert isinstance(found, list)
        return found
