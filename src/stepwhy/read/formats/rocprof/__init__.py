"""JSON results of AMD's rocprofv3 (`--output-format json`)."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("copy-bytes", "device-activity", "host-ops", "input", "runtime-calls"),
    magic=b'"rocprofiler-sdk-tool"',
    after=("exported",),
)

__all__ = ["FORMAT"]
