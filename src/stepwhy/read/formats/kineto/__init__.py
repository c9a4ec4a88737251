"""PyTorch Kineto traces (`torch.profiler`, `export_chrome_trace`)."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=(
        "copy-bytes",
        "device-activity",
        "host-ops",
        "input",
        "memory",
        "python-stacks",
        "runtime-calls",
    ),
    after=("exported", "megascan", "rocprof"),
)

__all__ = ["FORMAT"]
