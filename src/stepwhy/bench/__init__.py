"""Repeat and compare whole runs.

Pure functions over results. The function that runs and explains a program is an argument, so
commands, stored runs and traces of other profilers are measured in the same way.
"""

from stepwhy.bench.compare import compare
from stepwhy.bench.grade import grade_pair, graded
from stepwhy.bench.lab import judge_pair
from stepwhy.bench.measure import Program, measure, measure_pairs, order
from stepwhy.bench.sample import Sample, sample
from stepwhy.bench.summary import summarise

__all__ = [
    "Program",
    "Sample",
    "compare",
    "grade_pair",
    "graded",
    "judge_pair",
    "measure",
    "measure_pairs",
    "order",
    "sample",
    "summarise",
]
