"""A loop of 80 steps; a framework's own profiler watches five, started and saved within."""

import json
import tempfile

STEPS = 80
FIRST, LAST = 40, 44


def watched(step, profiler, clock):
    """Wall time of each step in ns; the profiler starts in step 40 and is saved in step 44."""
    times = []
    for number in range(STEPS):
        start = clock()
        if profiler and number == FIRST:
            profiler.start()
        step()
        if profiler and FIRST <= number <= LAST:
            profiler.step()
        if profiler and number == LAST:
            with tempfile.TemporaryDirectory() as folder:
                profiler.stop(folder)
        times.append(clock() - start)
    return times


def report(times):
    """Print the times, with the steps that the profiler watched on their own."""
    print(json.dumps({"free": times[10:FIRST], "profiled": times[FIRST : LAST + 1]}))
