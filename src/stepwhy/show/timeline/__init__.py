"""Build the timeline data of the HTML report, which `stepwhy.show.html` draws."""

from stepwhy.show.timeline.alignment import alignment_of
from stepwhy.show.timeline.build import MOST_SLICES, Part, part_of, timeline_of
from stepwhy.show.timeline.run import PackedRun, packed_run

__all__ = [
    "MOST_SLICES", "PackedRun", "Part", "alignment_of", "packed_run", "part_of", "timeline_of",
]  # fmt: skip
