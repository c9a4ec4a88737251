"""Answer one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.apps.agents.answers import WRONG_ARGUMENTS, Answer, Failure
from stepwhy.apps.agents.catalog import TOOLS
from stepwhy.apps.agents.folders import Folders
from stepwhy.apps.agents.tools import ANSWERS, Desk, paths_of
from stepwhy.base.errors import StepwhyError
from stepwhy.base.text import visible
from stepwhy.engine.privacy import redacted_errors, redactor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.apps.agents.arguments import Arguments
    from stepwhy.apps.agents.messages import Request
    from stepwhy.apps.agents.tools import Progress

    Within = Callable[[Sequence[str], Callable[[], Answer]], Answer]


def _without_limits(_paths: Sequence[str], make: Callable[[], Answer]) -> Answer:
    return make()


def answer(
    request: Request, progress: Progress | None = None, within: Within = _without_limits
) -> Answer | Failure:
    """The answer to a call, or why there is none.

    Secrets and private names are always redacted.

    Args:
        request: The call.
        progress: As in `engine.explain`.
        within: Called with the paths that are read, and with the function that makes the answer;
            may limit its time and memory.
    """
    if request.tool not in TOOLS:
        return _wrong(f"there is no tool {request.tool!r}", f"The tools are {', '.join(TOOLS)}")
    try:
        arguments: Arguments = msgspec.convert(
            request.arguments, TOOLS[request.tool].arguments, strict=False
        )
    except msgspec.ValidationError as error:
        what = f"the arguments of {request.tool} do not fit: {error}"
        return _wrong(what, "See the input schema of the tool")
    redactor = redactor_of(redact=True)
    desk = Desk(Folders(request.roots, request.allow_remote), redactor, progress)
    try:
        with redacted_errors(redactor):
            paths = paths_of(arguments, desk.folders)
            return within(paths, lambda: ANSWERS[request.tool](arguments, paths, desk))
    except StepwhyError as error:
        return Failure(error.slug, error.what, error.todo)


def _wrong(what: str, todo: str) -> Failure:
    return Failure(WRONG_ARGUMENTS, visible(what), todo)
