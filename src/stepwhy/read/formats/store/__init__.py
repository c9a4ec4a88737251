"""stepwhy's own stored traces."""

from stepwhy.read.format import Format

FORMAT = Format(signals=None, magic=b"PK\x03\x04", memory_factor=6)

__all__ = ["FORMAT"]
