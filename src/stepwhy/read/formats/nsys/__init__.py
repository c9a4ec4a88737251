"""SQLite exports of Nsight Systems (`nsys export --type sqlite`).

What CUPTI notes of kernels and copies is read by `read.shared.cuda_activity`, as for nvprof.
"""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("copy-bytes", "device-activity", "host-ops", "input", "runtime-calls", "ranges"),
    magic=b"SQLite format 3\x00",
    memory_factor=1.1,
)

__all__ = ["FORMAT"]
