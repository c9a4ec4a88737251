"""Repeating and comparing whole runs.

Pure functions over results: how a run is made and explained is handed in, so that commands, stored
runs and foreign traces are measured alike.
"""

from stepwhy.bench.compare import compare
from stepwhy.bench.lab import judge_pair
from stepwhy.bench.measure import Program, measure, measure_pairs, order
from stepwhy.bench.sample import Sample, sample
from stepwhy.bench.summary import summarise

__all__ = [
    "Program",
    "Sample",
    "compare",
    "judge_pair",
    "measure",
    "measure_pairs",
    "order",
    "sample",
    "summarise",
]
