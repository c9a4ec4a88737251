"""Build the timeline data of the HTML report, which `stepwhy.report.html` draws."""

from stepwhy.export.timeline.build import MOST_SLICES, Part, part_of, timeline_of

__all__ = ["MOST_SLICES", "Part", "part_of", "timeline_of"]
