"""The ranks of a run on Ray and on Dask, with a worker that is killed: the same bytes as here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor
from pathlib import Path

import pytest

from stepwhy.engine import explain
from stepwhy.engine.executors.ray_cluster import RayCluster
from stepwhy.show import json as report

RANKS, STEPS, LATE = 12, 6, 7
KILLED = 5  # the file whose first worker is killed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Traces of ranks of which one is late."""
    path = tmp_path_factory.mktemp("ranks")
    for rank in range(RANKS):
        info = {"backend": "nccl", "rank": rank, "world_size": RANKS}
        document = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events(rank)}
        (path / f"rank{rank}.json").write_text(json.dumps(document))
    return path


def events(rank):
    found = []
    group = {
        "Collective name": "allreduce", "Process Group Name": "dp", "Group size": RANKS,
        "Process Group Ranks": str(list(range(RANKS))), "In msg nelems": 1000, "dtype": "Float",
    }  # fmt: skip
    for step in range(STEPS):
        start, work, end = 10_000 * step, 6000 if rank == LATE else 4000 + rank, 8000
        host, device = {"pid": 100, "tid": 1}, {"pid": 0, "tid": 7}
        rows = [
            ("user_annotation", f"ProfilerStep#{step}", start, 10_000, host, {}),
            ("kernel", "gemm", start + 100, work, device, {}),
            ("kernel", "ncclDevKernel_AllReduce", start + 100 + work, end - work, device, group),
        ]
        for number, (category, name, begin, length, track, more) in enumerate(rows):
            args = {"correlation": 3 * step + number + 1, **more}
            if category == "kernel":
                args |= {"device": 0, "stream": 7}
            found.append(
                {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": length, **track}
                | {"args": args}
            )
    return found


class Killing(Executor):
    """An executor whose task for one file kills its worker the first time."""

    def __init__(self, executor, mark):
        self.executor, self.mark = executor, str(mark)

    def submit(self, call, work, **options):
        mark = self.mark

        def once(work, **options):
            if work.number == KILLED and not os.path.exists(mark):  # noqa: PTH110 - sent as it is
                Path(mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return call(work, **options)

        return self.executor.submit(once, work, **options)


def rendered(folder, executor=None):
    result = explain([str(folder)], executor=executor)
    assert result.run.ranks == RANKS
    return report.render(result)


def test_ray_gives_the_same_bytes_with_a_killed_worker(folder, tmp_path):
    with RayCluster() as cluster:
        killing = Killing(cluster, tmp_path / "killed")
        assert rendered(folder, killing) == rendered(folder)
    assert (tmp_path / "killed").exists()


def test_a_cluster_of_this_machine_listens_on_the_loopback_interface_alone(folder):
    psutil = pytest.importorskip("psutil")
    with RayCluster() as cluster:
        rendered(folder, cluster)
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        found = [each for one in processes for each in one.net_connections("tcp")]
    addresses = {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_dask_gives_the_same_bytes_with_a_killed_worker(folder, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    options = {"processes": True, "host": "127.0.0.1", "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        killing = Killing(client.get_executor(), tmp_path / "killed")
        assert rendered(folder, killing) == rendered(folder)
    assert (tmp_path / "killed").exists()


def test_the_command_starts_a_cluster_of_its_own(folder):
    command = [sys.executable, "-m", "stepwhy", "explain", "--json", "--engine", "ray", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().rstrip("\n") == rendered(folder).rstrip("\n")
