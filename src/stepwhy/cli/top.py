"""`stepwhy top`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy import output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from stepwhy.capture.live import LiveRanks
    from stepwhy.engine.stopped_ranks import StoppedRanks
    from stepwhy.findings.hangs import Standing
    from stepwhy.metrics.ranks import Judged
    from stepwhy.report.console import Console

# What stopped ranks have noted is read for so long per refresh, s, and before all is printed once.
_READ_S = 0.05
_READ_ONCE_S = 10.0
_ORDERS = ("rank", "step", "late", "input", "cpu", "gpu", "memory")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--interval",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Time between two refreshes, in seconds.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(_ORDERS),
    default="rank",
    show_default=True,
    help="What to sort the ranks by; by rank, those that matter are listed if not all fit.",
)
@click.option("--once", is_flag=True, help="Print all ranks once. So does output into a pipe.")
def top(folder: Path, interval: float, order: str, *, once: bool) -> None:
    """Watch the ranks of a job while it runs.

    DIR is the run directory, or the folder of a launcher that starts one 'stepwhy run' per rank; it
    may be shared by several machines. Shown are, for each rank, the median of its last 20 steps,
    its wait for input and the CPU time of the thread that drives it, cores, memory and GPU, which
    rank is late, and which has stopped, at which line of the program, and in which collective the
    others wait for it. The job does nothing for it, and nothing is written.
    It ends with the job, or with Ctrl-C.
    """
    from stepwhy.capture.live import LiveRanks
    from stepwhy.errors import NotFoundError, NoTracesError
    from stepwhy.report.console import Console as Terminal

    name = output.public(str(folder))
    if not folder.is_dir():
        raise NotFoundError(f"{name} is no folder", "Name the folder that 'stepwhy run' writes to")
    live, title = LiveRanks(folder), output.public(folder.resolve().name)
    console = Terminal()
    if once or not console.is_terminal:
        ranks = _judged(live)
        if not ranks:
            raise NoTracesError(
                f"no process has logged a step in {name}",
                "Name the folder that 'stepwhy run' writes to, or wait for the first steps",
            )
        _print(console, title, ranks, order)
        return
    try:
        _watch(live, console, title, interval, order)
    except KeyboardInterrupt:
        return


def _judged(live: LiveRanks) -> list[Judged]:
    from stepwhy.metrics.ranks import judge

    return judge(live.read())


def _print(console: Console, title: str, ranks: Sequence[Judged], order: str) -> None:
    from stepwhy.report.terminal.top import top_view

    standing = _Stopped().standing(ranks, _READ_ONCE_S)
    console.print(top_view(title, ranks, console.width, None, order, standing=standing))


class _Stopped:
    """Where ranks stand; until one has stopped, no module is imported for it."""

    def __init__(self) -> None:
        self._reader: StoppedRanks | None = None

    def standing(self, ranks: Sequence[Judged], longest_s: float) -> Standing:
        """Where they stand.

        Args:
            ranks: All ranks.
            longest_s: For how long to read at most.
        """
        from stepwhy.findings.hangs import Standing

        if not any(one.has_stopped for one in ranks):
            return Standing({})
        if self._reader is None:
            from stepwhy.engine.stopped_ranks import StoppedRanks

            self._reader = StoppedRanks()
        return self._reader.read(ranks, longest_s)


def _watch(live: LiveRanks, console: Console, title: str, interval: float, order: str) -> None:
    """Show the ranks on the whole screen until all have ended; the last state stays."""
    from stepwhy.report.console import whole_screen
    from stepwhy.report.terminal.top import top_view

    stopped = _Stopped()

    def view(ranks: Sequence[Judged]) -> RenderableType:
        standing = stopped.standing(ranks, _READ_S)
        return top_view(title, ranks, console.width, console.height, order, standing=standing)

    with whole_screen(console) as show:
        last = follow(
            lambda: _judged(live), lambda ranks: show(view(ranks)), lambda: time.sleep(interval)
        )
    console.print(view(last))


def follow(
    read: Callable[[], list[Judged]],
    show: Callable[[list[Judged]], None],
    wait: Callable[[], None],
) -> list[Judged]:
    """Show the ranks again and again until all have ended, and return their last state.

    Args:
        read: Reads the ranks.
        show: Shows them.
        wait: Waits until they are to be read again.
    """
    while True:
        ranks = read()
        show(ranks)
        if ranks and all(one.now.is_ended for one in ranks):
            return ranks
        wait()
