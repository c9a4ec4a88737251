"""Chrome traces that `stepwhy export` wrote."""

from stepwhy.read.format import Format

FORMAT = Format(signals=None, magic=b'"stepwhy.chrome-trace/')

__all__ = ["FORMAT"]
