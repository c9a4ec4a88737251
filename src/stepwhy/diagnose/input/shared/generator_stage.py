"""A generator of the program that a `tf.data` pipeline reads element by element."""

from __future__ import annotations

from typing import NamedTuple

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.pipeline_stages import stage_name, stage_rows
from stepwhy.result import Evidence
from stepwhy.trace import NULL

# Source: the name of the stage of `Dataset.from_generator` in TensorFlow's model of a pipeline.
_STAGE = regex(r"Generator\[\d+\]")
# Source: `stepwhy.record.tf2.generators`.
_EVENT = "generator"


class GeneratorStage(NamedTuple):
    """The stage with the generator.

    Args:
        name: Its name in TensorFlow's model.
        line: The line that yields; '' if unknown.
        per_batch: Elements that it yields for each element of the pipeline.
        element_ns: Time that each takes, with what TensorFlow does to convert it, ns.
    """

    name: str
    line: str
    per_batch: float
    element_ns: int

    def evidence(self) -> tuple[Evidence, ...]:
        """What it yields, and how long that takes."""
        what = "elements that the generator yields per batch"
        return (
            Evidence(what, self.per_batch, "count", self.line),
            Evidence("time for each of them", self.element_ns, "ns", self.name),
        )


def generator_stage(facts: Facts) -> GeneratorStage | None:
    """The stage of the only generator of the pipeline; None if there is none, or no time of it."""
    stages, rows = facts.trace.stages, stage_rows(facts.trace)
    found = [row for row in rows if _STAGE.fullmatch(facts.trace.string(int(stages.name[row])))]
    last = [row for row in rows if stages.consumer[row] == NULL]
    if len(found) != 1 or not last:
        return None
    elements, batches = int(stages.elements[found[0]]), int(stages.elements[last[0]])
    element_ns = int(stages.processing_ns[found[0]])
    if elements <= 0 or batches <= 0 or element_ns <= 0:
        return None
    name = stage_name(facts.trace, found[0])
    return GeneratorStage(name, _line(facts), elements / batches, element_ns)


def _line(facts: Facts) -> str:
    """The line of the only generator; '' if there are several, or none is known."""
    events = facts.trace.events
    sources = {int(events.source[row]) for row in rows_of_kinds(facts.trace, _EVENT).tolist()}
    return facts.trace.string(sources.pop()) if len(sources) == 1 and NULL not in sources else ""
