"""Run a call in a process of its own, which ends with the call."""

from __future__ import annotations

import os
from contextlib import suppress
from subprocess import PIPE
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from stepwhy.apps.agents.answers import Answer, Failure
from stepwhy.apps.agents.messages import Progressed, line_of, reply_in
from stepwhy.base import children
from stepwhy.base.redaction.assignments import is_secret_variable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from subprocess import Popen

    from stepwhy.apps.agents.messages import Request

    Report = Callable[[str, int, int], Awaitable[None]]

LONGEST_S = 900.0
"""A call takes at most this long. Traces of gigabytes take minutes; a query may never end."""

# Each may need a large part of the memory.
_MOST_AT_ONCE = 2
# How `fsspec`, `aiohttp` and the programs of clouds find logins, certificates and proxies.
_OF_REMOTE = ("AWS_", "GOOGLE_", "GCS", "GCLOUD_", "CLOUDSDK_", "SSL_CERT_")
_PROXIES = frozenset(("http_proxy", "https_proxy", "all_proxy", "no_proxy"))


class Calls:
    """Answers calls in processes.

    Args:
        command: The command of such a process, which reads a request and writes replies.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._free = anyio.Semaphore(_MOST_AT_ONCE)

    async def answer(self, request: Request, report: Report) -> Answer | Failure:
        """The answer to a call. If it is cancelled, its process is killed.

        Args:
            request: The call.
            report: Called with what the process does: the activity, how much is done, and of how
                much; 0 if that is unknown.
        """
        try:
            async with self._free:
                with anyio.fail_after(LONGEST_S):
                    return await self._run_in_process(request, report)
        except TimeoutError:
            return Failure(
                "timeout",
                f"the call took more than {LONGEST_S / 60:.0f} minutes",
                "Ask for less, such as a simpler query or a smaller trace",
            )

    async def _run_in_process(self, request: Request, report: Report) -> Answer | Failure:
        variables = _variables(allow_remote=request.allow_remote)
        process = children.start(self._command, variables=variables, stdin=PIPE, stdout=PIPE)
        try:
            await anyio.to_thread.run_sync(_send, process, line_of(request))
            return await _reply(process, report)
        finally:
            process.kill()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_close, process)


async def _reply(process: Popen[bytes], report: Report) -> Answer | Failure:
    """The last reply of a process; others are reported."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    while line := await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True):
        message = reply_in(line)
        if isinstance(message, Progressed):
            await report(message.activity, message.done, message.total)
        elif message is not None:
            return message
    return _ended(await anyio.to_thread.run_sync(process.wait))


def _ended(code: int) -> Failure:
    """The failure of a process that ended without an answer."""
    if code < 0:
        return Failure(
            "ended",
            f"the process of the call was ended by signal {-code}, maybe for lack of memory",
            "Ask about a smaller trace, or on a machine with more memory",
        )
    return Failure(
        "bug",
        "the call failed for a reason that stepwhy does not know",
        "Show the user the log of this server, which has the details",
    )


def _send(process: Popen[bytes], line: bytes) -> None:
    """Send the request. The pipe stays open: the process ends when it is closed."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    try:
        process.stdin.write(line)
        process.stdin.flush()
    except BrokenPipeError:  # it has ended, and its exit code says why
        return


def _close(process: Popen[bytes]) -> None:
    process.wait()
    for stream in (process.stdout, process.stdin):
        if stream is not None:
            # Closing sends what is left of the request; the process that should read it has ended.
            with suppress(BrokenPipeError):
                stream.close()


def _variables(*, allow_remote: bool) -> dict[str, str]:
    """Variables for the process: secrets, so that it redacts their values, and logins."""
    return {
        name: value
        for name, value in os.environ.items()
        if is_secret_variable(name)
        or (allow_remote and (name.startswith(_OF_REMOTE) or name.lower() in _PROXIES))
    }
