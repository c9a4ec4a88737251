"""Many inputs on several processes; one that fails in a new way is kept, and made small."""

from __future__ import annotations

import os
import shlex
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from fuzz.inputs import make
from fuzz.minimise import EnoughError, minimise
from fuzz.tally import Tally
from fuzz.trees import remove_tree, write_tree
from fuzz.worker import Batch, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from fuzz.formats import Files
    from fuzz.judge import Outcome

_BATCH = 100
# A reproducer is made small as long as this, s of wall time.
_PATIENCE_S = 20.0
_POLL_S = 0.5
# So often counts are handed on, s.
_SAVED_S = 60.0


def batches(formats: Iterable[str], seed: int, first: int, inputs: int) -> Iterator[Batch]:
    """Inputs of all formats, in turns, so that a run that is stopped early has seen all.

    Args:
        formats: Names of formats.
        seed: Of the whole run.
        first: Number of the first input of each format.
        inputs: How many, of each format.
    """
    for start in range(0, inputs, _BATCH):
        for name in formats:
            yield Batch(name, seed, first + start, min(_BATCH, inputs - start))


class Campaign:
    """Judges inputs and keeps what fails.

    Args:
        keep: Folder for reproducers.
        save: Takes the counts now and then, and at the end.
    """

    def __init__(self, keep: Path, save: Callable[[dict[str, Tally]], None]) -> None:
        self.tallies: dict[str, Tally] = {}
        self._keep = keep
        self._save = save
        self._end = 0.0
        self._known: dict[str, Batch] = {}

    def run(self, todo: Iterator[Batch], jobs: int, seconds: float) -> None:
        """Judge batches until there are none, or time is up.

        Args:
            todo: The batches.
            jobs: How many processes.
            seconds: For how long at most, s of wall time.
        """
        self._end, saved = time.monotonic() + seconds, time.monotonic()
        busy: dict[Worker, Batch] = {}
        idle = [Worker() for _ in range(jobs)]
        while True:
            while idle and not self._is_late and (batch := next(todo, None)) is not None:
                busy[self._begin(idle.pop(), batch)] = batch
            if self._is_late or not busy:
                break
            wait([worker.pipe for worker in busy], _POLL_S)
            for worker in list(busy):
                self._collect(worker, busy, idle)
            if time.monotonic() > saved + _SAVED_S:
                saved = time.monotonic()
                self._save(self.tallies)
        for worker in (*busy, *idle):
            worker.stop()
        self._save(self.tallies)

    def end(self) -> None:
        """Let the run end now, as if time were up."""
        self._end = 0.0

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._end

    def _begin(self, worker: Worker, batch: Batch) -> Worker:
        """Give a batch to a worker, or to a new one where that has grown too large."""
        if worker.is_worn:
            worker.stop()
            worker = Worker()
        worker.send(batch)
        return worker

    def _collect(self, worker: Worker, busy: dict[Worker, Batch], idle: list[Worker]) -> None:
        """Take all outcomes that a worker has; replace it if it is gone."""
        while worker in busy and not self._is_late:
            if (outcome := worker.receive()) is None:
                return
            batch = busy.pop(worker)
            self._note(batch, outcome)
            rest = Batch(batch.format, batch.seed, batch.first + 1, batch.count - 1)
            if not worker.is_alive:
                worker.stop()
                worker = Worker()
                if rest.count:
                    worker.send(rest)
            if rest.count:
                busy[worker] = rest
            else:
                idle.append(worker)

    def _note(self, batch: Batch, outcome: Outcome) -> None:
        self.tallies.setdefault(batch.format, Tally()).add(outcome)
        if outcome.kind == "failed" and outcome.what not in self._known:
            self._known[outcome.what] = batch
            _tell(batch, outcome)
            _keep(make(batch.format, batch.seed, batch.first), self._folder(batch))

    def _folder(self, batch: Batch) -> Path:
        return self._keep / f"{batch.format}-{batch.first}"

    def make_small(self) -> None:
        """Put a small input that fails alike in the place of each that was kept."""
        for what, batch in self._known.items():
            small = _made_small(make(batch.format, batch.seed, batch.first), what, batch.format)
            print(f"kept: {_keep(small, self._folder(batch))}", flush=True)


def _tell(batch: Batch, outcome: Outcome) -> None:
    """Say what failed, and how to see it again."""
    traces = os.environ.get("STEPWHY_TRACES")
    given = f"STEPWHY_TRACES={shlex.quote(traces)} " if traces else ""
    print(f"FAILED {batch.format} {batch.first}: {outcome.what}")
    print(
        f"  again: {given}python fuzz/run.py --format {batch.format} --seed {batch.seed} "
        f"--first {batch.first} --inputs 1"
    )
    print("", *outcome.details.splitlines()[-12:], sep="\n    ", flush=True)


def _keep(files: Files, folder: Path) -> str:
    """Write an input; which files, and their sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_tree(folder)
    write_tree(files, folder)
    return ", ".join(f"{str(folder / name)!r} ({len(data)} bytes)" for name, data in files.items())


def _made_small(files: Files, what: str, name: str) -> Files:
    """A smaller input that fails alike, judged by processes of its own."""
    workers = [Worker()]
    end = time.monotonic() + _PATIENCE_S

    def fails(smaller: Files) -> bool:
        if time.monotonic() > end:
            raise EnoughError
        outcome = workers[-1].judge(smaller, name)
        if not workers[-1].is_alive:
            workers.pop().stop()
            workers.append(Worker())
        return outcome.what == what

    small = minimise(files, fails)
    workers.pop().stop()
    return small
