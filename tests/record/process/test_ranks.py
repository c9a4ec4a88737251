"""Which rank a process is, as its launcher or its framework says."""

import json
import sys
from types import SimpleNamespace

import pytest

from stepwhy.record.core.process.ranks import place_by_launcher, place_in_job, rank_members

NOWHERE = (None, None)


def tensorflow(kind, index, **sizes):
    cluster = {name: [f"host:{n}" for n in range(count)] for name, count in sizes.items()}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, NOWHERE),
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
        ({"RANK": "3"}, (3, None)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (2, 4)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"HOROVOD_RANK": "5", "HOROVOD_SIZE": "8"}, (5, 8)),
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}, (1, 2)),
        ({"SLURM_PROCID": "7", "SLURM_NTASKS": "16"}, (7, 16)),
        # torchrun in each task of SLURM: its ranks count.
        ({"RANK": "9", "WORLD_SIZE": "16", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (9, 16)),
        # MPI started by SLURM.
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, (3, 4)),
    ],
)
def test_launchers(environ, place):
    assert place_by_launcher(environ) == place


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (tensorflow("worker", 1, worker=2), (1, 2)),
        (tensorflow("chief", 0, chief=1, worker=2), (0, 3)),
        (tensorflow("worker", 1, chief=1, worker=2), (2, 3)),
        (tensorflow("ps", 0, worker=2, ps=1), NOWHERE),
        (tensorflow("evaluator", 0, worker=2, evaluator=1), NOWHERE),
        (tensorflow("worker", 0, worker=1), NOWHERE),
        (tensorflow("worker", 5, worker=2), NOWHERE),
        (tensorflow("worker", -1, worker=2), NOWHERE),
        ({"TF_CONFIG": "{"}, NOWHERE),
        ({"TF_CONFIG": "[]"}, NOWHERE),
        ({"TF_CONFIG": '{"cluster": [], "task": {"type": "worker", "index": 0}}'}, NOWHERE),
        ({"TF_CONFIG": "[" * 100_000}, NOWHERE),
    ],
)
def test_tasks_of_tensorflow(environ, place):
    assert place_by_launcher(environ) == place


@pytest.mark.parametrize(
    "environ",
    [
        {"RANK": "first", "WORLD_SIZE": "2"},
        {"RANK": "4", "WORLD_SIZE": "4"},
        {"RANK": "-1", "WORLD_SIZE": "4"},
        {"RANK": "1" * 5_000},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        # A batch script that starts one program itself, whatever the job may start with srun.
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "ENVIRONMENT": "BATCH"},
    ],
)
def test_what_is_no_rank(environ):
    assert place_by_launcher(environ) == NOWHERE


def test_a_job_step_of_a_batch_script_has_ranks():
    environ = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "ENVIRONMENT": "BATCH"}
    assert place_by_launcher(environ | {"SLURM_STEP_ID": "0"}) == (0, 8)


def fake(rank, size, *, initialised=True):
    return SimpleNamespace(
        is_initialized=lambda: initialised, get_rank=lambda: rank, get_world_size=lambda: size
    )


def test_a_framework_knows_better_than_the_environment(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setitem(sys.modules, "torch.distributed", fake(1, 2))
    assert rank_members() == {"rank": 1, "world_size": 2}
    for broken in (fake(1, 2, initialised=False), SimpleNamespace(), fake(None, None), fake(2, 2)):
        monkeypatch.setitem(sys.modules, "torch.distributed", broken)
        assert place_in_job() == (0, 8)


def test_processes_of_jax(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    distributed = SimpleNamespace(is_initialized=lambda: True)
    jax = SimpleNamespace(distributed=distributed, process_index=lambda: 3, process_count=lambda: 4)
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert place_in_job() == (3, 4)
