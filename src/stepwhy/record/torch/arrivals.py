"""When this rank entered its latest collectives, noted once, at the end of the run.

The traced window has a few steps only. What makes a rank late in every tenth step shows in the
times at which it entered collectives, which PyTorch's flight recorder keeps in any case.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from stepwhy.record.core.process import lifetime
from stepwhy.record.torch.flight_recorder import recorded_arrivals

if TYPE_CHECKING:
    from stepwhy.record.core.recorder import Recorder

COLLECTIVES_FILE = "collectives.json.gz"
_SCHEMA = "stepwhy.collectives/1"


class Arrivals:
    """Notes the collectives of this process when its observation ends.

    Args:
        recorder: Writes the file.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        lifetime.on_end(self.keep)

    def keep(self) -> None:
        """Write the file, if the process took part in any collective; never raises."""
        if "torch.distributed" not in sys.modules:
            return
        with contextlib.suppress(Exception):
            content = recorded_arrivals()
            if content["entries"]:
                self._recorder.note(COLLECTIVES_FILE, {"schema": _SCHEMA, "recorder": content})


__all__ = ["COLLECTIVES_FILE", "Arrivals"]
