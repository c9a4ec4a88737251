"""Chrome traces of any tool: read when no stricter importer recognises the file."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("device-activity", "host-ops", "input", "python-stacks", "ranges", "runtime-calls"),
    is_fallback=True,
)

__all__ = ["FORMAT"]
