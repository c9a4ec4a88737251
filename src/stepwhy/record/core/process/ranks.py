"""Which rank of how many a process is: as its framework knows, or as its launcher says.

Source: torchrun, "Environment Variables"; TensorFlow, "Multi-worker training with Keras"
(`TF_CONFIG`; the chief is the first rank, then the workers follow); `horovodrun`; Open MPI,
"Environment variables passed to MPI processes"; MPICH's Hydra (`PMI_RANK`); MVAPICH2; JAX,
`jax.distributed.initialize`; srun(1) and sbatch(1), "OUTPUT ENVIRONMENT VARIABLES".
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Place = tuple[int | None, int | None]

_TORCHRUN = ("RANK", "WORLD_SIZE")
_TF_CONFIG = "TF_CONFIG"
# Launchers that are started by another one come first: torchrun runs inside of a task of SLURM.
_LAUNCHERS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")
_NOWHERE: Place = (None, None)
_MOST_DIGITS = 9


def place_in_job() -> Place:
    """Rank and number of ranks of this process; None each where it is not known. Never raises."""
    for known in (_of_torch, _of_jax):
        place = known()
        if place != _NOWHERE:
            return place
    return place_by_launcher(os.environ)


def rank_members() -> dict[str, int | None]:
    """The members of `process.json` about the place of this process in its job."""
    rank, world_size = place_in_job()
    return {"rank": rank, "world_size": world_size}


def place_by_launcher(environ: Mapping[str, str]) -> Place:
    """Rank and number of ranks that a launcher wrote into the environment; None if unknown.

    Args:
        environ: The environment.
    """
    return next((place for place in _places(environ) if place[0] is not None), _NOWHERE)


def _places(environ: Mapping[str, str]) -> Iterator[Place]:
    yield _pair(environ, *_TORCHRUN)
    yield _of_cluster(environ.get(_TF_CONFIG, ""))
    for rank, size in _LAUNCHERS:
        yield _in_company(_pair(environ, rank, size))
    # SLURM runs a batch script once, however many tasks the job has.
    if not (environ.get("ENVIRONMENT") == "BATCH" and "SLURM_STEP_ID" not in environ):
        yield _in_company(_pair(environ, *_SLURM))


def _in_company(place: Place) -> Place:
    """The place, unless it is that of the only process: a job step may hold a single one."""
    return _NOWHERE if place[1] == 1 else place


def _pair(environ: Mapping[str, str], rank: str, size: str) -> Place:
    number, count = (_number(environ.get(name, "")) for name in (rank, size))
    is_inside = number is not None and (count is None or number < count)
    return (number, count) if is_inside else _NOWHERE


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _of_cluster(config: str) -> Place:
    """The place of a task of TensorFlow; parameter servers and evaluators are no ranks."""
    try:
        found: Any = json.loads(config)
        kind, index = found["task"]["type"], int(found["task"]["index"])
        chiefs, workers = (found["cluster"].get(name) for name in ("chief", "worker"))
        before = 1 if chiefs is not None and kind == "worker" else 0
        count = len(chiefs or ()) + len(workers or ())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _NOWHERE
    rank = before + index
    if kind not in {"chief", "worker"} or index < 0 or 0 < count <= rank or count == 1:
        return _NOWHERE
    return rank, count or None


def _of_torch() -> Place:
    """The place in the default process group of PyTorch, if there is one."""
    distributed = sys.modules.get("torch.distributed")
    return _asked(distributed, distributed, "get_rank", "get_world_size")


def _of_jax() -> Place:
    """The place among the processes that called `jax.distributed.initialize`."""
    jax = sys.modules.get("jax")
    return _asked(getattr(jax, "distributed", None), jax, "process_index", "process_count")


def _asked(distributed: Any, framework: Any, rank: str, size: str) -> Place:
    """What a framework says, if its processes have found each other."""
    try:
        if distributed is None or not distributed.is_initialized():
            return _NOWHERE
        number, count = int(getattr(framework, rank)()), int(getattr(framework, size)())
    except Exception:
        return _NOWHERE
    return (number, count) if 0 <= number < count else _NOWHERE
