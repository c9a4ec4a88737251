"""Pipeline schedules of Primus (`pp_rank_<rank>.json`): the passes of one pipeline rank."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("passes",),
    magic=b'"fwd_start"',
)

__all__ = ["FORMAT"]
