"""Operation tables of pipeline-parallel jobs, as Parquet files."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("passes", "ranks"),
    magic=b"PAR1",
)

__all__ = ["FORMAT"]
