"""What the server and the process of a call say to each other: one JSON object per line."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwhy.apps.agents.answers import Answer, Failure


class Request(msgspec.Struct, frozen=True):
    """A call of a tool; the only message to its process.

    Args:
        tool: Name of the tool.
        arguments: Its arguments, not checked.
        roots, allow_remote: The folders that it may read, as in `Folders`.
    """

    tool: str
    arguments: dict[str, Any]
    roots: tuple[str, ...]
    allow_remote: bool = False


class Progressed(msgspec.Struct, frozen=True, tag="progress"):
    """What the process of a call is doing.

    Args:
        activity: In words.
        done, total: How far it is, in files or bytes; a total of 0 is unknown.
    """

    activity: str
    done: int
    total: int


Reply = Progressed | Answer | Failure
"""A message of the process; the last one is an answer or a failure."""

_decoder: msgspec.json.Decoder[Progressed | Answer | Failure] = msgspec.json.Decoder(Reply)


def line_of(message: Request | Progressed | Answer | Failure) -> bytes:
    """A message as a line of JSON."""
    return msgspec.json.encode(message) + b"\n"


def request_in(line: bytes) -> Request:
    """The request in a line."""
    return msgspec.json.decode(line, type=Request)


def reply_in(line: bytes) -> Progressed | Answer | Failure | None:
    """The reply in a line; None for anything else, such as the output of a library."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        return None
