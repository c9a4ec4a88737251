"""Statistics of repeated measurements: intervals, paired comparisons and verdicts."""

from stepwhy.stats.bootstrap import Interval, median_interval
from stepwhy.stats.paired import Ratio, paired_difference, paired_ratio
from stepwhy.stats.verdict import Outcome, judge

__all__ = [
    "Interval",
    "Outcome",
    "Ratio",
    "judge",
    "median_interval",
    "paired_difference",
    "paired_ratio",
]
