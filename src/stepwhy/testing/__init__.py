"""Tests of step times with pytest: the fixture `step_time`, and how its checks fail.

In: a program and a limit. Out: a test that passes or fails; the commands run in child processes.

pytest imports this at its start, so it imports nothing but the standard library.
"""

from stepwhy.testing.checks import StepTime, TooSlow, Unsure

__all__ = ["StepTime", "TooSlow", "Unsure"]
