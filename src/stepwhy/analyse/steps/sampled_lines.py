"""Lines of the program in the driving thread, its workers and other threads, by stack samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, SampleRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# Packages of the frameworks; the breakdown has other categories than Python for time in them.
FRAMEWORKS = frozenset(
    {"tensorflow", "torch", "keras", "tf_keras", "jax", "jaxlib", "flax", "optax"}
)
# With fewer samples than this, lines are not ranked.
FEWEST_SAMPLES = 20
# In these, a thread writes logs: `logging_time`.
LOGGERS = frozenset({"tensorboard", "tensorboardX", "wandb", "mlflow", "logging"})

WAITING = "threading"
"""Package of samples in which a line of the program waits for another thread or process."""

GENERATOR = "generator"
"""Entry of samples in a generator function of the program, and in what it calls."""

_OTHERS = LOGGERS | {WAITING}
NOT_OWN = FRAMEWORKS | {WAITING}
"""Packages in which time is not that of the program's own Python."""
_COMPREHENSION = regex(r"(?:\.<locals>)?\.?<(?:listcomp|dictcomp|setcomp|genexpr)>")
# Share of the samples in the framework that are in calls of a library which runs the loop.
_LEAST_OF_LOOP = 0.2
_NO_LIBRARIES = FRAMEWORKS | {"", "python"}
# Share of the samples in the framework; fewer outside of generators are the program's set-up.
_LEAST_OUTSIDE = 0.1


def generator_lines(trace: Trace) -> frozenset[str]:
    """Lines of the program in generators that make batches, by the driving thread's samples."""
    samples = trace.samples
    makes = samples.role == SampleRole.DRIVER
    makes = makes & np.isin(input_entries(trace), trace.strings_where({GENERATOR}))
    lines = np.unique(samples.line[makes & (samples.line != NULL)]).tolist()
    return frozenset(map(trace.string, lines)) - {""}


def python_lines(trace: Trace) -> list[tuple[str, float]]:
    """Lines of the program in which the driving thread spends its time outside the framework.

    A sample in NumPy or the standard library counts for the line of the program that called it,
    unless it waits there.

    Returns:
        (line, share of the driving thread's samples), largest first; [] if there are too few
        samples.
    """
    return role_lines(trace, SampleRole.DRIVER, NOT_OWN)


def role_lines(
    trace: Trace, role: SampleRole, left_out: frozenset[str] = frozenset()
) -> list[tuple[str, float]]:
    """Lines of the program in which the threads of one role spend their time.

    Args:
        trace: The trace, with `samples`.
        role: The role.
        left_out: Packages of the framework; samples inside them are left out.

    Returns:
        (line, share of the role's samples), largest first; [] if there are too few samples.
    """
    samples = list(_samples(trace, role))
    total = sum(count for *_, count in samples)
    if total < FEWEST_SAMPLES:
        return []
    counts: Counter[str] = Counter()
    for line, package, _, count in samples:
        if line and package not in left_out:
            counts[line] += count
    return [(line, count / total) for line, count in counts.most_common()]


def driver_lines(trace: Trace) -> Counter[tuple[str, bool]] | None:
    """Samples of the driving thread by line, and whether the thread was in the framework.

    Samples of code that an input pipeline or a callback called have the line '', and so have those
    in libraries that log, and at lines that wait for a disk, a thread or another process. None with
    too few samples.
    """
    lines: Counter[tuple[str, bool]] = Counter()
    events = trace.events
    waits = np.isin(events.kind, trace.strings_where({"fsync"}))
    waiting = frozenset(place_of(trace.string(line)) for line in set(events.source[waits].tolist()))
    for line, package, is_input, count in _samples(trace, SampleRole.DRIVER):
        is_other = is_input or package in _OTHERS or place_of(line) in waiting
        lines["" if is_other else line, package in FRAMEWORKS] += count
    return lines if lines.total() >= FEWEST_SAMPLES else None


class LibraryLoop(NamedTuple):
    """A call that runs the training loop of a library, such as that of a trainer.

    Args:
        line: Line of the program.
        called: Package and function that it calls, 'transformers: Trainer.train'.
        share: Share of the driving thread's samples in Python of the library, and of what it
            calls, 0..1.
        samples: Number of these samples.
    """

    line: str
    called: str
    share: float
    samples: int


def library_loop(trace: Trace) -> LibraryLoop | None:
    """The call of a library from which the driving thread mostly enters the framework.

    None if no call has a fifth of these samples: operations that the program calls itself, as in a
    model of its own, are samples at other lines.
    """
    samples = trace.samples
    drives = samples.role == SampleRole.DRIVER
    package = trace.matches(samples.called, lambda name: _package(name) not in _NO_LIBRARIES)
    by_call: Counter[tuple[int, int]] = Counter()
    in_framework = np.isin(samples.package, trace.strings_where(FRAMEWORKS))
    own = np.isin(samples.package, trace.strings_where(NOT_OWN | LOGGERS | {""}))
    for row in np.flatnonzero(drives & in_framework & package).tolist():
        by_call[int(samples.line[row]), int(samples.called[row])] += int(samples.count[row])
    (call, count), *_ = by_call.most_common(1) or [((NULL, NULL), 0)]
    if count < _LEAST_OF_LOOP * samples.count[drives & in_framework].sum() or not count:
        return None
    inside = drives & ~own & (samples.line == call[0]) & (samples.called == call[1])
    line, called = (trace.string(key) for key in call)
    spent = int(samples.count[inside].sum())
    return LibraryLoop(line, called, spent / int(samples.count[drives].sum()), spent)


def _package(called: str) -> str:
    """'transformers: Trainer.train' -> 'transformers'; '' for ''."""
    return called.partition(":")[0]


def place_of(line: str) -> str:
    """'train.py(12): update' -> 'train.py(12'; samples name functions with their class."""
    return line.partition(")")[0]


def driver_packages(trace: Trace) -> Counter[tuple[str, str]]:
    """Samples of the driving thread by line and package; empty if there are too few."""
    lines: Counter[tuple[str, str]] = Counter()
    for line, package, _, count in _samples(trace, SampleRole.DRIVER):
        lines[line, package] += count
    return lines if lines.total() >= FEWEST_SAMPLES else Counter()


def function_of(line: str) -> str:
    """'train.py(12): update' -> 'train.py: update'; a comprehension belongs to what contains it."""
    file, _, rest = _COMPREHENSION.sub("", line).rpartition("(")
    return f"{file}{rest.partition(')')[2]}" if file else line


def _samples(trace: Trace, role: SampleRole) -> Iterator[tuple[str, str, bool, int]]:
    """Line, package, whether an input pipeline called the line, and count of each row of a role."""
    samples, text = trace.samples, trace.string
    columns = (samples.line, samples.package, input_entries(trace), samples.count, samples.role)
    for line, package, entry, count, sampled in zip(*columns, strict=True):
        if sampled == role:
            yield text(int(line)), text(int(package)), bool(entry != NULL), int(count)


def input_entries(trace: Trace) -> NDArray[np.int32]:
    """Part of the input pipeline that called each sampled line, strings; (samples,).

    NULL if there is none. A generator that contains the training itself is no input pipeline: where
    almost all samples of the driving thread in the framework are in generators, none of them is.
    """
    samples = trace.samples
    in_generator = np.isin(samples.entry, trace.strings_where({GENERATOR}))
    in_framework = np.isin(samples.package, trace.strings_where(FRAMEWORKS))
    called = samples.count * (in_framework & (samples.role == SampleRole.DRIVER))
    entries: NDArray[np.int32] = samples.entry
    is_loop = called[~in_generator].sum() < _LEAST_OUTSIDE * max(called.sum(), 1)
    return np.where(in_generator, NULL, entries) if is_loop else entries
