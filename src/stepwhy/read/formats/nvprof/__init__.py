"""nvprof databases (`nvprof -o FILE`)."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("copy-bytes", "device-activity", "host-ops", "input", "runtime-calls", "ranges"),
    magic=b"SQLite format 3\x00",
    after=("nsys",),
)

__all__ = ["FORMAT"]
