"""One call of a tool of `stepwhy mcp`, in a process of its own.

Reads a request from standard input, and writes replies to standard output. Ends when the server
closes the input, so no call outlives its server.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from stepwhy.base import output
from stepwhy.base.text import visible
from stepwhy.cli.small_inputs import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.apps.agents.answers import Answer, Failure
    from stepwhy.apps.agents.messages import Progressed

_STDIN = 0
# Clients show progress to people, who read no more than a few lines per second.
_LEAST_INTERVAL_S = 0.25


def main() -> None:
    """Answer the request on standard input."""
    output.guard()
    line = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_server, daemon=True).start()

    from stepwhy.cli.numpy_import import import_numpy_without_threads

    import_numpy_without_threads()
    from stepwhy.apps.agents.messages import request_in
    from stepwhy.apps.agents.work import answer

    _send(answer(request_in(line), _reporter(), _limited))


def _end_with_server() -> None:
    """Wait until the server closes the input, then end this process.

    Past the buffer of `sys.stdin`, whose lock Python needs at its end.
    """
    while os.read(_STDIN, 1):
        continue
    os._exit(1)


def _limited(paths: Sequence[str], make: Callable[[], Answer]) -> Answer:
    """Make an answer within the limits of small inputs."""

    @bounded
    def make_of(*, paths: tuple[str, ...]) -> Answer:
        del paths
        return make()

    return make_of(paths=tuple(paths)) if paths else make()


def _reporter() -> Callable[[str, int, int], None]:
    """Sends what this process is doing, at most a few times per second."""
    from stepwhy.apps.agents.messages import Progressed

    next_s = 0.0

    def report(activity: str, done: int, total: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + _LEAST_INTERVAL_S
            _send(Progressed(visible(activity), done, total))

    return report


def _send(reply: Progressed | Answer | Failure) -> None:
    from stepwhy.apps.agents.messages import line_of

    output.document(line_of(reply).decode())


if __name__ == "__main__":
    main()
