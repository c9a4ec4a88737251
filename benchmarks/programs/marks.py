"""The clock of the programs here: when they have done how many of their steps."""

import json
import time

PARTS = 100


class Marks:
    """Times at which a hundredth of the steps was done each, from the first step on; in s."""

    def __init__(self):
        self._times = [time.perf_counter()]

    def add(self):
        """Another hundredth of the steps is done."""
        self._times.append(time.perf_counter())

    def print(self):
        """Print the times, for the benchmark."""
        print(json.dumps(self._times))
