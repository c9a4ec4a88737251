"""Change the `DataLoader`s of a program when it makes them, or repeat their first batch.

Source of the parameters: `torch/utils/data/dataloader.py`, versions 1.13 to 2.13.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING

from stepwhy.record.core.process.cores import visible_cores
from stepwhy.record.core.user_code import user_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.reports import Trial

    Change = Callable[[dict[str, Any], Trial], None]

# More workers than that rarely help one process, and each takes memory.
_MOST_WORKERS = 8
_MAP = 0  # `_DatasetKind.Map`
_BATCH = "_stepwhy_batch"
_CONSTANT = "DataLoader: the first batch is repeated"


def add_workers(module: Any, trial: Trial) -> None:
    """Give each loader workers that stay over epochs: one core less than there are, or `value`."""
    _change_loaders(module, trial, functools.partial(_add_workers, module))


def _add_workers(module: Any, given: dict[str, Any], trial: Trial) -> None:
    before = given.get("num_workers", 0)
    wanted = trial.spec.count(max(1, min(visible_cores() - 1, _MOST_WORKERS)))
    if isinstance(given.get("dataset"), module.IterableDataset) and wanted > 1:
        trial.left("an IterableDataset: several workers would repeat its data")
        return
    if before < wanted:
        given["num_workers"] = wanted
        given["persistent_workers"] = True
        trial.changed(f"{_loader()}: num_workers {before} -> {wanted}, persistent_workers")
    else:
        trial.left(f"a DataLoader with {before} workers, which has enough")


def prefetch_more(module: Any, trial: Trial) -> None:
    """Let the workers of each loader prepare more batches ahead: 4 each, or `value`."""
    _change_loaders(module, trial, _prefetch_more)


def _prefetch_more(given: dict[str, Any], trial: Trial) -> None:
    wanted = trial.spec.count(4)
    before = given.get("prefetch_factor") or 2
    if not given.get("num_workers"):
        trial.left("a DataLoader without workers, which prefetches nothing")
    elif before < wanted:
        given["prefetch_factor"] = wanted
        trial.changed(f"{_loader()}: prefetch_factor {before} -> {wanted}")


def keep_workers(module: Any, trial: Trial) -> None:
    """Keep the workers of each loader over epochs."""
    _change_loaders(module, trial, _keep_workers)


def _keep_workers(given: dict[str, Any], trial: Trial) -> None:
    if not given.get("num_workers"):
        trial.left("a DataLoader without workers")
    elif not given.get("persistent_workers"):
        given["persistent_workers"] = True
        trial.changed(f"{_loader()}: persistent_workers")
    else:
        trial.left("a DataLoader whose workers stay already")


def pin_memory(module: Any, trial: Trial) -> None:
    """Return batches in pinned memory, where there is an accelerator."""
    _change_loaders(module, trial, _pin_memory)


def _pin_memory(given: dict[str, Any], trial: Trial) -> None:
    import torch

    if not torch.cuda.is_available():
        trial.left("a DataLoader on a machine without an accelerator")
    elif not given.get("pin_memory"):
        given["pin_memory"] = True
        trial.changed(f"{_loader()}: pin_memory")


def _loader() -> str:
    """The loader that the program makes here: a program may have others, such as for validation."""
    return f"DataLoader of {user_line().rpartition(': ')[0]}".removesuffix(" of ")


def _change_loaders(module: Any, trial: Trial, change: Change) -> None:
    """Change the arguments of each `DataLoader` that the program makes."""
    original = module.DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
            given.pop("self")
            change(given, trial)
        except Exception as error:
            trial.failed(error)
            original(self, *args, **kwargs)
        else:
            original(self, **given)

    module.DataLoader.__init__ = init


def repeat_batch(module: Any, trial: Trial) -> None:
    """Return the first batch of each loader again and again, for as many batches as before."""
    base = module._BaseDataLoaderIter
    original = base.__init__

    @functools.wraps(original)
    def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        original(self, loader, *args, **kwargs)
        self._stepwhy_loader = loader

    base.__init__ = init
    for kind in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
        _repeat(kind, trial)


def _repeat(kind: Any, trial: Trial) -> None:
    fetch = kind._next_data

    @functools.wraps(fetch)
    def next_data(self: Any) -> Any:
        kept = vars(self._stepwhy_loader)
        if _BATCH in kept:
            _draw(self)
            trial.changed(_CONSTANT)
            return kept[_BATCH]
        batch = fetch(self)
        if _has_end(self):
            kept[_BATCH] = batch
        else:
            trial.left("a DataLoader of unknown length")
        return batch

    kind._next_data = next_data


def _has_end(iterator: Any) -> bool:
    """Whether it is known without data where an epoch ends."""
    if not iterator._num_workers:
        return bool(iterator._dataset_kind == _MAP)  # others end where their data end
    try:
        return len(iterator._index_sampler) > 0
    except TypeError:
        return False


def _draw(iterator: Any) -> None:
    """Draw the next indices, which ends the epoch; workers have drawn theirs before."""
    if not iterator._num_workers:
        iterator._next_index()
    elif iterator._num_yielded >= len(iterator._index_sampler):
        raise StopIteration
