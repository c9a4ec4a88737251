"""Operation tables of pipeline-parallel jobs, as Parquet files."""

from stepwhy.importers.format import Format

FORMAT = Format(
    signals=("passes", "ranks"),
    magic=b"PAR1",
    most_unpacked=48 << 20,
)

__all__ = ["FORMAT"]
