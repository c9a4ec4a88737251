"""Whether the recorded program trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.patterns import regex
from stepwhy.trace import Kind, Phase, among

if TYPE_CHECKING:
    from stepwhy.passes.facts import Facts

# Source: kernel names of PyTorch, cuDNN, MIOpen and XLA.
_BACKWARD = regex(r"[Bb]ackward|_bwd|wgrad|dgrad|_bw_|bprop|multi_tensor_apply|[Aa]dam")


def is_training(facts: Facts) -> bool | None:
    """Whether the program trains; None if the trace does not show it."""
    if among(facts.phases, (Phase.BACKWARD, Phase.OPTIMIZER)).any():
        return True
    names = facts.trace.slices.name[facts.slices(Kind.KERNEL)]
    if any(_BACKWARD.search(facts.trace.string(int(name))) for name in set(names.tolist())):
        return True
    # Where operations are recorded, those of a backward pass would be among them.
    return False if "host-ops" in facts.trace.meta.signals else None
