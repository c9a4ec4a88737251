"""What cannot be observed with the installed version of a framework, for the notes of the run.

Observers use names that frameworks do not promise to keep. One that is missing ends what needs it,
and nothing else: neither the training nor other observations.
"""

from __future__ import annotations

import os

from stepwhy.record import RUN_DIR_VARIABLE
from stepwhy.record.core import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SLUG = "observation-incomplete"
# A framework that has changed beyond recognition need not be described name by name.
_MOST = 12

texts: list[str] = []
"""A sentence for each loss of this process, in order."""


def attempt(what: str, work: Callable[[], object]) -> bool:
    """Do a part of the instrumentation; a failure is noted, and never raised.

    Args:
        what: What that part observes, in the plural and with its framework.
        work: The part.

    Returns:
        Whether it succeeded.
    """
    try:
        work()
    except Exception as error:
        add(what, error)
        return False
    return True


def add(what: str, error: BaseException) -> None:
    """Note that something cannot be observed; never raises.

    Args:
        what: As in `attempt`.
        error: Why.
    """
    text = f"{what} cannot be observed: {_reason(error)}"
    if text in texts or len(texts) >= _MOST:
        return
    texts.append(text)
    if RUN_DIR_VARIABLE in os.environ:
        # For a process that logs no step, which has no other place for messages.
        registry.report(os.environ[RUN_DIR_VARIABLE], lost=text)


def _reason(error: BaseException) -> str:
    """Why, without paths: usually the name that this version of the framework lacks."""
    name = getattr(error, "name", None)
    if isinstance(error, ImportError):
        name = getattr(error, "name_from", None) or name
    if isinstance(error, (AttributeError, ImportError)) and name:
        return f"this version of the framework has no '{name}'"
    return f"an internal failure ({type(error).__name__})"
