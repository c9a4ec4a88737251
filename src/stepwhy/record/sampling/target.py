"""A process whose stacks are sampled: when a period is due, and when its samples can be judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwhy.record.core.clock import now_ns
from stepwhy.record.sampling.periods import DURATION_S
from stepwhy.record.sampling.usual_steps import logged_steps

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.record.sampling.periods import Period

QUIET_S = 0.3
"""Windows that have not grown for this long are complete."""

# Windows of long steps may appear one by one; a new window starts no period sooner than this.
_PAUSE_FOR_WINDOWS_S = 4.0
# Of usual steps, so many seconds are sampled. A period may fall into profiled ones, which take
# seconds where a step has very many operations; as many more begin once a usual step has ended.
_ENOUGH_NS = 1_500_000_000
_MOST_MORE = 4
# How long the end of the step that runs when a period ends is waited for, to know of its kind.
_LONGEST_STEP_NS = 30_000_000_000


@dataclass(slots=True)
class Target:
    """One observed process and its samples.

    Attributes:
        usual_ns: How much time of usual steps the latest periods have seen, since a window.
        more: How many further periods may follow them for the sake of usual steps.
        sampled_until_ns: End of the last period whose samples were counted; 0 for none.
        has_usual: Whether any period has seen usual steps.
    """

    pid: int
    folder: Path
    began: int | None
    seen_s: float
    processes: int = 1
    windows: int = 0
    grown_s: float = 0.0
    quiet_s: float = QUIET_S
    sampled_windows: int = 0
    due_s: float = 0.0
    running: Period | None = None
    is_over: bool = False
    failures: int = 0
    ended_s: float = -_PAUSE_FOR_WINDOWS_S
    usual_ns: int = 0
    more: int = 0
    sampled_until_ns: int = 0
    has_usual: bool = False
    stretches: list[dict[str, Any]] = field(default_factory=list)

    def is_due(self, now_s: float) -> bool:
        """Whether the next period is due."""
        if self.is_over or self.running is not None:
            return False
        if self.windows > self.sampled_windows:
            return now_s >= max(self.grown_s + self.quiet_s, self.ended_s + _PAUSE_FOR_WINDOWS_S)
        return now_s >= self.due_s or self._is_due_again()

    @property
    def _lacks_usual_steps(self) -> bool:
        """Whether the last periods were mostly in profiled steps, and another one may follow."""
        return bool(self.sampled_until_ns and self.more) and self.usual_ns < _ENOUGH_NS

    def _is_due_again(self) -> bool:
        """Whether a usual step has ended since the last of these periods."""
        return self._lacks_usual_steps and logged_steps(self.folder).is_usual_after(
            self.sampled_until_ns
        )

    def begin(self) -> int:
        """A period begins.

        Returns:
            How long it lasts, in whole seconds.
        """
        if self.windows > self.sampled_windows or not self._lacks_usual_steps:
            self.usual_ns, self.more = 0, _MOST_MORE
        else:
            self.more -= 1
        self.sampled_windows = self.windows
        return DURATION_S - self.usual_ns // 1_000_000_000

    @property
    def is_sampled(self) -> bool:
        """Whether a period runs."""
        return self.running is not None and not self.running.has_ended

    def is_judged(self) -> bool:
        """Whether the period that runs has ended, and so has the step that ran then, if any did."""
        period = self.running
        if period is None or not period.has_ended:
            return False
        last_ns = logged_steps(self.folder).until_ns or period.end_ns
        return last_ns >= period.end_ns or now_ns() > period.end_ns + _LONGEST_STEP_NS
