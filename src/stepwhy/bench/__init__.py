"""Repeat and compare whole runs.

Pure functions over results. The function that runs and explains a program is an argument, so
commands, stored runs and traces of other profilers are measured in the same way.
"""

from stepwhy.bench.accuracy import accuracy_of, failed
from stepwhy.bench.compare import compare
from stepwhy.bench.forecast import forecast
from stepwhy.bench.gate import gate
from stepwhy.bench.grade import grade_pair, graded
from stepwhy.bench.lab import judge_pair
from stepwhy.bench.measure import Program, measure, measure_pairs, order
from stepwhy.bench.sample import Sample, sample
from stepwhy.bench.summary import summarise, valid_pairs
from stepwhy.bench.until import Budget, Trial, measure_until_answered, measure_until_precise

__all__ = [
    "Budget",
    "Program",
    "Sample",
    "Trial",
    "accuracy_of",
    "compare",
    "failed",
    "forecast",
    "gate",
    "grade_pair",
    "graded",
    "judge_pair",
    "measure",
    "measure_pairs",
    "measure_until_answered",
    "measure_until_precise",
    "order",
    "sample",
    "summarise",
    "valid_pairs",
]
