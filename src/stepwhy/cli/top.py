"""`stepwhy top`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwhy.base import output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from stepwhy.apps.top import JobWatch, LiveRanks
    from stepwhy.engine.stopped_ranks import StoppedRanks
    from stepwhy.result.hangs import Standing
    from stepwhy.show.console import Console
    from stepwhy.show.metrics.ranks import Judged
    from stepwhy.show.metrics.watching import Noticed

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
@click.option(
    "--watch",
    "watches",
    is_flag=True,
    help="When the job has become slower for good, or another rank late, have the late rank and one"
    " that waits for it trace a few steps. A pipe gets a line for each such change.",
)
def top(folder: Path, interval: float, order: str, *, once: bool, watches: bool) -> None:
    """Watch the ranks of a job while it runs.

    DIR is the run directory, or the folder of a launcher that starts one 'stepwhy run' per rank; it
    may be shared by several machines. Shown are, for each rank, the median of its last 20 steps,
    its wait for input and the CPU time of the thread that drives it, cores, memory and GPU, which
    rank is late, and which has stopped, at which line of the program, and in which collective the
    others wait for it. The job does nothing for it, and nothing is written; except with --watch,
    where ranks that are asked trace a few steps. It ends with the job, or with Ctrl-C.
    """
    from stepwhy.apps.top import JobWatch, LiveRanks
    from stepwhy.base.errors import NotFoundError
    from stepwhy.show.console import Console as Terminal

    name = output.public(str(folder))
    if not folder.is_dir():
        raise NotFoundError(
            f"{name} is no folder", "Name a run directory, such as stepwhy-runs/<time>-train"
        )
    if once and watches:
        raise click.UsageError("--watch needs more than one look: leave --once out")
    live, title = LiveRanks(folder), output.public(folder.resolve().name)
    console = Terminal()
    view = _View(console, title, order, JobWatch() if watches else None)
    if console.is_terminal and not once:
        _follow_in_view(live, view, interval)
    elif watches:
        _follow_in_lines(live, view, interval)
    else:
        _print_once(live, view, name)


def _print_once(live: LiveRanks, view: _View, name: str) -> None:
    """Print all ranks.

    Raises:
        NoTracesError: There are none.
    """
    from stepwhy.base.errors import NoTracesError

    ranks = _judged(live)
    if not ranks:
        raise NoTracesError(
            f"no process in {name!r} has logged a step",
            "Name a run directory, such as stepwhy-runs/<time>-train, or wait for the first steps",
        )
    view.print(ranks)


def _judged(live: LiveRanks) -> list[Judged]:
    from stepwhy.show.metrics.ranks import judge

    return judge(live.read())


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
        from stepwhy.result.hangs import Standing

        if not any(one.has_stopped for one in ranks):
            return Standing({})
        if self._reader is None:
            from stepwhy.engine.stopped_ranks import StoppedRanks

            self._reader = StoppedRanks()
        return self._reader.read(ranks, longest_s)


class _View:
    """Shows the ranks, and what is noticed about them.

    Args:
        console: Where.
        title: Name of the folder.
        order: What to sort the ranks by.
        watch: Asks for windows; None to ask for none.
    """

    def __init__(self, console: Console, title: str, order: str, watch: JobWatch | None) -> None:
        self.console = console
        self._title, self._order = title, order
        self._watch = watch
        self._stopped = _Stopped()

    def notice(self, ranks: Sequence[Judged]) -> Noticed | None:
        """Ask for windows if something has changed for good; None without a change."""
        return self._watch.look(ranks) if self._watch is not None else None

    def of(self, ranks: Sequence[Judged], longest_s: float, height: int | None) -> RenderableType:
        """The ranks, and what was noticed.

        Args:
            ranks: All ranks.
            longest_s: For how long to read what stopped ranks have noted.
            height: Lines of the terminal; None for all ranks.
        """
        from stepwhy.show.terminal.top import top_view
        from stepwhy.show.terminal.watch import watch_sentence

        standing, width = self._stopped.standing(ranks, longest_s), self.console.width
        sentence = "" if self._watch is None else watch_sentence(self._watch.noticed)
        return top_view(
            self._title, ranks, width, height, self._order, standing=standing, watched=sentence
        )

    def print(self, ranks: Sequence[Judged]) -> None:
        """Print all ranks."""
        self.console.print(self.of(ranks, _READ_ONCE_S, None))

    def end(self) -> None:
        """Take back what was not answered."""
        if self._watch is not None:
            self._watch.end()


def _follow_in_view(live: LiveRanks, view: _View, interval: float) -> None:
    """Show the ranks on the whole screen until all have ended; the last state stays."""
    from stepwhy.show.console import whole_screen

    def show_in(screen: Callable[[RenderableType], None], ranks: Sequence[Judged]) -> None:
        view.notice(ranks)
        screen(view.of(ranks, _READ_S, view.console.height))

    try:
        with whole_screen(view.console) as screen:
            last = follow(
                lambda: _judged(live),
                lambda ranks: show_in(screen, ranks),
                lambda: time.sleep(interval),
            )
        view.console.print(view.of(last, _READ_S, view.console.height))
    except KeyboardInterrupt:
        return
    finally:
        view.end()


def _follow_in_lines(live: LiveRanks, view: _View, interval: float) -> None:
    """Print a line for each change until all ranks have ended, and then the ranks."""
    from stepwhy.show.terminal.watch import watch_sentence

    said = ""

    def say(ranks: Sequence[Judged]) -> None:
        nonlocal said
        sentence = watch_sentence(view.notice(ranks))
        if sentence != said:
            said = sentence
            view.console.print(sentence)

    try:
        view.print(follow(lambda: _judged(live), say, lambda: time.sleep(interval)))
    except KeyboardInterrupt:
        return
    finally:
        view.end()


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
