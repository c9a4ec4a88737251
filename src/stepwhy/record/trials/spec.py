"""What `stepwhy try` asks of a process, as it stands in the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

from stepwhy.record import TRIAL_VARIABLE


@dataclass(frozen=True, slots=True)
class Spec:
    """The fix of a process.

    Args:
        fix: Its name; '' to change nothing and only set seeds.
        value: Its argument; '' for the default.
        block_steps: Switch the fix after so many steps; 0 to leave it on.
        warm_up: Steps before the first block, which are not timed.
        timed: Time the steps in the trial itself, and observe nothing.
        steps: End the program after so many steps; 0 for never.
        variables: Environment variables that are part of the fix.
    """

    fix: str = ""
    value: str = ""
    block_steps: int = 0
    warm_up: int = 0
    steps: int = 0
    timed: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    def as_variable(self) -> str:
        """The value of the environment variable."""
        return json.dumps(asdict(self))

    def count(self, default: int) -> int:
        """The argument as a positive number; `default` without one."""
        return max(int(self.value), 1) if self.value.isdigit() else default


def spec_of_process() -> Spec | None:
    """The fix of this process; None without one."""
    try:
        return Spec(**json.loads(os.environ[TRIAL_VARIABLE]))
    except (KeyError, ValueError, TypeError):
        return None
