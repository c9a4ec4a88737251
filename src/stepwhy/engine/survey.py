"""Explain several unrelated runs, each by itself."""

from __future__ import annotations

from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from stepwhy.engine.explain import explain_opened
from stepwhy.engine.opening import open_places
from stepwhy.engine.privacy import redacted_errors, redactor_of
from stepwhy.engine.rank_sets import same_run
from stepwhy.errors import InputError
from stepwhy.findings.survey import Surveyed
from stepwhy.inputs.places import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.engine.explain import Progress
    from stepwhy.engine.privacy import Redact
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.inputs.places import Place
    from stepwhy.redaction import Redactor


def survey(
    names: Sequence[str], progress: Progress | None = None, *, redact: Redact = True
) -> list[Surveyed]:
    """Explain every run behind the names; ranks of one run in one folder count as one.

    Args:
        names: What the user named.
        progress: As in `explain`.
        redact: As in `explain`.

    Returns:
        One entry per run or unreadable file, in the order of the folders.

    Raises:
        InputError: Nothing exists under a name.
    """
    redactor = redactor_of(redact)
    with redacted_errors(redactor):
        places = resolve(names)
    folders = groupby(places, key=lambda place: str(PurePosixPath(place.shown).parent))
    return [
        entry
        for folder, group in folders
        for entry in _of_folder(redactor.text(folder), list(group), redactor, progress)
    ]


def _of_folder(
    folder: str, places: list[Place], redactor: Redactor, progress: Progress | None
) -> Iterator[Surveyed]:
    opened: list[Opened] = []
    for place in places:
        try:
            opened += open_places([place], redactor, progress)[0]
        except InputError as error:
            yield Surveyed(redactor.text(place.shown), None, redactor.text(error.what))
    if len(opened) > 1 and same_run([one.trace.meta for one in opened]):
        yield Surveyed(folder, explain_opened(opened, [], progress))
        return
    for one in opened:
        yield _alone(one, progress)


def _alone(one: Opened, progress: Progress | None) -> Surveyed:
    try:
        return Surveyed(one.path, explain_opened([one], [], progress))
    except InputError as error:  # ranks of different jobs in one file
        return Surveyed(one.path, None, error.what)


__all__ = ["survey"]
