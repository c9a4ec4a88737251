"""The outcome of one check, and the report of all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

CHECK_SCHEMA = "stepwhy.check/1"

State = Literal["ok", "limited", "missing", "conflict"]
Need = Literal["must", "any", "none"]


@dataclass(frozen=True, slots=True)
class Item:
    """The outcome of one check.

    Args:
        name: What was checked: a noun, in lower case, with hyphens.
        state: 'ok': can be observed; 'limited': in part, or unknown; 'missing': not;
            'conflict': something else is in the way or distorts what is measured.
        found: What was found, a phrase without values of the environment.
        meaning: What that means for the observation.
        todo: What to do next; empty if nothing needs to be done.
        need: 'must': nothing is observed while this is missing; 'any': one of these is enough;
            'none': the observation does without.
    """

    name: str
    state: State
    found: str
    meaning: str
    todo: str = ""
    need: Need = "none"


@dataclass(frozen=True, slots=True)
class Report:
    """What can be observed of a command on this machine.

    Args:
        command: The command that was checked, redacted; empty for none in particular.
        items: The outcomes, those that decide first.
    """

    command: tuple[str, ...]
    items: tuple[Item, ...]

    @property
    def observable(self) -> bool:
        """Whether a training could be observed: nothing that it must have is missing."""
        there = [item.state != "missing" for item in self.items if item.need == "any"]
        must = [item.state != "missing" for item in self.items if item.need == "must"]
        return any(there) and all(must)

    @property
    def obstacle(self) -> str:
        """Why no training could be observed, the first reason; empty when one could."""
        if self.observable:
            return ""
        gone = [item for item in self.items if item.state == "missing"]
        return next(
            (item.found for need in ("must", "any") for item in gone if item.need == need), ""
        )

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON shows it (`stepwhy.check/1`)."""
        return {
            "schema": CHECK_SCHEMA,
            "observable": self.observable,
            "command": list(self.command),
            "items": [asdict(item) for item in self.items],
        }
