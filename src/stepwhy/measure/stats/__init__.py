"""Statistics of repeated measurements: intervals, paired comparisons and verdicts."""

from stepwhy.measure.stats.bootstrap import Interval, median_interval
from stepwhy.measure.stats.looks import look_level
from stepwhy.measure.stats.moderated import Mean, expected_spread, moderated_mean
from stepwhy.measure.stats.paired import Ratio, paired_difference, paired_ratio
from stepwhy.measure.stats.planning import USUAL_SPREAD, detectable_change, pairs_needed
from stepwhy.measure.stats.single import SingleRatio, single_ratio, usual_change
from stepwhy.measure.stats.switched import arm_of_block, switched_ratio
from stepwhy.measure.stats.verdict import Outcome, judge

__all__ = [
    "USUAL_SPREAD",
    "Interval",
    "Mean",
    "Outcome",
    "Ratio",
    "SingleRatio",
    "arm_of_block",
    "detectable_change",
    "expected_spread",
    "judge",
    "look_level",
    "median_interval",
    "moderated_mean",
    "paired_difference",
    "paired_ratio",
    "pairs_needed",
    "single_ratio",
    "switched_ratio",
    "usual_change",
]
