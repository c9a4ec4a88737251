"""Pack traces for the timeline of the page, which `report` draws."""

from stepwhy.export.timeline.build import MOST_SLICES, Part, part_of, timeline_of

__all__ = ["MOST_SLICES", "Part", "part_of", "timeline_of"]
