"""Where the driving thread, its workers and its other threads run the program, by stack samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.trace import NULL, SampleRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.trace import Trace

# In these packages a thread executes the framework: calls that the breakdown has other names for.
FRAMEWORKS = frozenset(
    {"tensorflow", "torch", "keras", "tf_keras", "jax", "jaxlib", "flax", "optax"}
)
# Fewer samples than this put no line before another.
FEWEST_SAMPLES = 20


def python_lines(trace: Trace) -> list[tuple[str, float]]:
    """Lines of the program that hold the driving thread, outside the framework only.

    A sample in NumPy or the standard library counts for the line of the program that called it.

    Returns:
        (line, share of the driving thread's samples), largest first; [] where too few samples were
        taken.
    """
    return role_lines(trace, SampleRole.DRIVER, FRAMEWORKS)


def role_lines(
    trace: Trace, role: SampleRole, left_out: frozenset[str] = frozenset()
) -> list[tuple[str, float]]:
    """Lines of the program that hold the threads of one role.

    Args:
        trace: The trace, with `samples`.
        role: The role.
        left_out: Packages of the framework; samples inside them count for no line.

    Returns:
        (line, share of the role's samples), largest first; [] where too few samples were taken.
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

    Samples below an input pipeline are under the line ''. None with too few samples.
    """
    lines: Counter[tuple[str, bool]] = Counter()
    for line, package, is_input, count in _samples(trace, SampleRole.DRIVER):
        lines["" if is_input else line, package in FRAMEWORKS] += count
    return lines if lines.total() >= FEWEST_SAMPLES else None


def _samples(trace: Trace, role: SampleRole) -> Iterator[tuple[str, str, bool, int]]:
    """Line, package, whether an input pipeline called the line, and count of each row of a role."""
    samples, text = trace.samples, trace.string
    columns = (samples.line, samples.package, samples.entry, samples.count, samples.role)
    for line, package, entry, count, of in zip(*columns, strict=True):
        if of == role:
            yield text(int(line)), text(int(package)), bool(entry != NULL), int(count)
