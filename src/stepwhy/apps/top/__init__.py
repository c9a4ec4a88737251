"""Read the run directory while the training writes to it, for metrics and for `stepwhy top`.

This runs in the launcher's process, or in another one: the training does nothing for it. Logs are
read once, as they grow, so that the cost does not depend on the length of the run.
"""

from stepwhy.apps.top.ranks import LiveRanks
from stepwhy.apps.top.run import LiveRun
from stepwhy.apps.top.watch import JobWatch

__all__ = ["JobWatch", "LiveRanks", "LiveRun"]
