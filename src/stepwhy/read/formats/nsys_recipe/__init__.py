"""Tables that the Nsight Systems recipe `nvtx_gpu_proj_trace` writes, as Parquet files."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("device-activity", "ranks"),
    magic=b"PAR1",
)

__all__ = ["FORMAT"]
