"""Notes and tags of a run, kept in the run directory, so that they move and go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.apps.serve.scan import NOTE_FILE
from stepwhy.base.errors import InputError, OutputError
from stepwhy.base.text import plain, utf8, visible
from stepwhy.base.whole_files import write_whole
from stepwhy.read.inputs.side_files import read_side_file
from stepwhy.read.inputs.within import check_within

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = "stepwhy.note/1"
_MOST_BYTES = 1 << 16
_LONGEST_TEXT, _LONGEST_TAG, _MOST_TAGS = 2_000, 40, 10


class Note(msgspec.Struct, frozen=True):
    """What somebody wrote about a run.

    Args:
        text: Plain text.
        tags: Short words to filter by.
    """

    text: str = ""
    tags: tuple[str, ...] = ()
    schema: str = _SCHEMA


def note_of(text: str, tags: str) -> Note:
    """A note from a form, shortened to what is kept.

    Args:
        text: Plain text.
        tags: Tags, separated by commas.
    """
    words = [visible(" ".join(tag.split()), _LONGEST_TAG) for tag in tags.split(",")]
    kept = tuple(dict.fromkeys(filter(None, words)))[:_MOST_TAGS]
    lines = text.replace("\r\n", "\n").strip()
    return Note(plain(lines)[:_LONGEST_TEXT], kept)


def read_note(root: Path, folder: Path) -> Note:
    """The note of a run directory; an empty one if there is none or it is damaged.

    Args:
        root: The served folder.
        folder: The run directory.
    """
    try:
        data = read_side_file(root, folder / NOTE_FILE, _MOST_BYTES)
        found = msgspec.json.decode(data, type=Note) if data else Note()
    except (InputError, msgspec.DecodeError, UnicodeDecodeError):
        return Note()
    return note_of(found.text, ",".join(found.tags))


def write_note(root: Path, folder: Path, note: Note) -> None:
    """Write the note of a run directory; an empty one removes the file.

    Args:
        root: The served folder.
        folder: The run directory.
        note: The note.

    Raises:
        OutputError: It cannot be written.
        NotAFileError: The run directory has been replaced by a link out of the folder.
    """
    try:
        path = root.joinpath(*check_within(root, folder)) / NOTE_FILE
        if note == Note():
            path.unlink(missing_ok=True)
        else:
            write_whole(path, utf8(msgspec.json.encode(note).decode()))
    except OSError as error:
        raise OutputError(
            f"the note of {folder.name} cannot be written: {error.strerror}",
            "Check the permissions of the run directory",
        ) from None
