"""A process that does the tasks of `engine.local_processes`, one after the other.

It reads tasks from standard input and writes what they return to standard output, each with its
length before it, until the input ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import BinaryIO

LENGTH_BYTES = 8


def send(pipe: BinaryIO, value: Any) -> None:
    """Write a value to a pipe.

    Args:
        pipe: The pipe.
        value: What `pickle` knows.
    """
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(len(data).to_bytes(LENGTH_BYTES, "little") + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read the next value from a pipe.

    Args:
        pipe: The pipe, between processes of this user that run the same program.

    Raises:
        EOFError: The other process has closed it, or has ended.
    """
    head = pipe.read(LENGTH_BYTES)
    data = pipe.read(int.from_bytes(head, "little")) if len(head) == LENGTH_BYTES else b""
    if not data:
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - from a process of ours, see above


def _answer(task: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> tuple[bool, Any]:
    """Whether a task has succeeded, and what it returned or raised."""
    call, arguments, options = task
    try:
        return True, call(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - raised where the task was given
        return False, error


def main() -> None:
    """Do tasks until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that gave the tasks stops this one
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a task prints is no answer
        while True:
            try:
                task = receive(sys.stdin.buffer)
            except EOFError:
                return
            send(answers, _answer(task))


if __name__ == "__main__":
    main()
