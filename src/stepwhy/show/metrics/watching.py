"""What `stepwhy top --watch` has noticed about a running job, and what it has asked for."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["asked", "accepted", "traced", "refused", "missed", "silent"]


class Asked(NamedTuple):
    """A rank that was asked for a traced window.

    Attributes:
        rank: Its number; None without one.
        state: 'asked': it has not answered yet. 'accepted': it opens a window. 'traced': it has
            kept one. 'refused': it cannot, or has opened enough. 'missed': it said that it would,
            and has kept none. 'silent': it has never answered.
        first_step: First traced step, by its line in the log, from 0; None without one.
        last_step: The last one.
    """

    rank: int | None
    state: State = "asked"
    first_step: int | None = None
    last_step: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether more is to come."""
        return self.state in {"asked", "accepted"}


class Noticed(NamedTuple):
    """A lasting change of a job, and the ranks that were asked for a traced window of it.

    Attributes:
        late: The rank that is late; None if the logs show none.
        before_ns: The step time before the change; None if only another rank is late.
        after_ns: The step time after it.
        step: The step that the windows begin at; None if the ranks had traced by themselves.
        asked: These ranks.
        failure: Why they could not be asked; ''.
    """

    late: int | None
    before_ns: int | None = None
    after_ns: int | None = None
    step: int | None = None
    asked: tuple[Asked, ...] = ()
    failure: str = ""
