"""Repeat and compare whole runs.

In: results, and a function that runs and explains a program, so that commands, stored runs and
traces of other profilers are measured in the same way. Out: comparisons with their statistics
(`stats`), trials of fixes, grades of the lab. Imports: `result` and below; nothing of it runs a
program itself.
"""

from stepwhy.measure.accuracy import accuracy_of, failed
from stepwhy.measure.compare import compare
from stepwhy.measure.forecast import forecast
from stepwhy.measure.gate import gate
from stepwhy.measure.grade import grade_pair, graded
from stepwhy.measure.lab import judge_pair
from stepwhy.measure.measure import Program, measure, measure_pairs, order
from stepwhy.measure.sample import Sample, sample
from stepwhy.measure.summary import summarise, valid_pairs
from stepwhy.measure.until import Budget, Trial, measure_until_answered, measure_until_precise
from stepwhy.measure.world import Truth, grade_program, graded_world

__all__ = [
    "Budget",
    "Program",
    "Sample",
    "Trial",
    "Truth",
    "accuracy_of",
    "compare",
    "failed",
    "forecast",
    "gate",
    "grade_pair",
    "grade_program",
    "graded",
    "graded_world",
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
