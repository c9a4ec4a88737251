"""The step log, whichever framework takes the steps: their times, waits and meters."""
