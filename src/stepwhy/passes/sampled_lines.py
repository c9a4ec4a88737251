"""Where the driving thread runs Python, from stack samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwhy.trace import Trace

# In these packages a thread executes the framework: calls that the breakdown has other names for.
FRAMEWORKS = frozenset(
    {"tensorflow", "torch", "keras", "tf_keras", "jax", "jaxlib", "flax", "optax"}
)
# Fewer samples than this put no line before another.
FEWEST_SAMPLES = 20


def python_lines(trace: Trace) -> list[tuple[str, float]]:
    """Lines of the program by their share of all samples, Python outside the framework only.

    A sample in NumPy or the standard library counts for the line of the program that called it.

    Returns:
        (line, share of the samples), largest first; [] where too few samples were taken.
    """
    samples = trace.samples
    total = int(samples.count.sum())
    if total < FEWEST_SAMPLES:
        return []
    counts: Counter[str] = Counter()
    for line, leaf, count in zip(samples.line, samples.leaf, samples.count, strict=True):
        if trace.string(int(line)) and trace.string(int(leaf)) not in FRAMEWORKS:
            counts[trace.string(int(line))] += int(count)
    return [(line, count / total) for line, count in counts.most_common()]
