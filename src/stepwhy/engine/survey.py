"""Explain several unrelated runs, each by itself."""

from __future__ import annotations

from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from stepwhy.base.errors import InputError
from stepwhy.engine.explain import explain_opened
from stepwhy.engine.opening import open_places
from stepwhy.engine.privacy import redacted_errors, redactor_of
from stepwhy.engine.rank_sets import same_run
from stepwhy.read.inputs.places import resolve
from stepwhy.result.survey import Surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.base.redaction import Redactor
    from stepwhy.engine.explain import Progress
    from stepwhy.engine.privacy import Redact
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.read.inputs.places import Place


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
        for entry in _survey_folder(redactor.text(folder), list(group), redactor, progress)
    ]


def _survey_folder(
    folder: str, places: list[Place], redactor: Redactor, progress: Progress | None
) -> Iterator[Surveyed]:
    """The runs in one folder: ranks of one run count as one, also those of one run directory."""
    opened: list[tuple[str, list[Opened]]] = []
    for place in places:
        try:
            opened.append((redactor.text(place.shown), open_places([place], redactor, progress)[0]))
        except InputError as error:
            yield Surveyed(redactor.text(place.shown), None, redactor.text(error.what))
    ranks = [one for _, found in opened for one in found]
    if len(opened) > 1 and same_run([one.trace.meta for one in ranks]):
        yield _together(folder, ranks, progress)
        return
    for name, found in opened:
        if len(found) == 1 or same_run([one.trace.meta for one in found]):
            yield _together(name, found, progress)
        else:
            yield from (_together(one.path, [one], progress) for one in found)


def _together(name: str, opened: list[Opened], progress: Progress | None) -> Surveyed:
    """A run with all of its ranks."""
    try:
        return Surveyed(name, explain_opened(opened, [], progress))
    except InputError as error:  # ranks of different jobs in one file
        return Surveyed(name, None, error.what)
