"""Lines of the program in a tfprof profile: where each node of the graph was made.

Source: `CodeDef` of tfprof_log.proto, `tfprof_logger.py` (frames outermost first, texts by number).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.importers.shared.tensorflow.graphs import text
from stepwhy.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Mapping

# Code that is not the user's, on a machine of which nothing but its paths is known: packages, the
# standard library, TensorFlow built from source, and what was never in a file.
_LIBRARY = regex(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|[/\\]tensorflow[/\\]python[/\\]"
    r"|^<|__autograph_generated_file"
)
_HOME = regex(r"^(?:(?:[A-Za-z]:)?[/\\](?:home|Users)[/\\][^/\\]+|/root)[/\\]")
_SEPARATOR = regex(r"[/\\]")
_KEPT_COMPONENTS = 2
# Number 0 stands for 'not known'.
_NO_TEXT = 0


class CodeDefs:
    """Finds the innermost line of the program's own code.

    Args:
        texts: `id_to_string` of the profile: texts by their numbers.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts

    def line(self, code: Any) -> str:
        """'train.py(41): tower' of a `CodeDef`; '' where none of its frames is the program's."""
        for frame in reversed(code.traces):
            file = self._text(frame.file_id, frame.file)
            if file and frame.lineno > 0 and not _LIBRARY.search(file):
                function = self._text(frame.function_id, frame.function)
                place = f"{_shorten(file)}({frame.lineno})"
                return f"{place}: {function}" if function else place
        return ""

    def _text(self, number: int, written: bytes) -> str:
        """A text by its number, or as early releases wrote it in its place."""
        return text(written) if number == _NO_TEXT else self._texts.get(number, "")


def _shorten(path: str) -> str:
    """The last components of a path, never of a home folder."""
    return "/".join(_SEPARATOR.split(_HOME.sub("", path))[-_KEPT_COMPONENTS:])


__all__ = ["CodeDefs"]
