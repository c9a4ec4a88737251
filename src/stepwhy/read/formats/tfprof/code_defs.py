"""Lines of the program in a tfprof profile: where each node of the graph was made.

Source: `CodeDef` of tfprof_log.proto, `tfprof_logger.py` (frames outermost first, texts by number).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.read.shared.program_files import is_program_file, shown_line
from stepwhy.read.shared.tensorflow.graphs import text

if TYPE_CHECKING:
    from collections.abc import Mapping

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
            if frame.lineno > 0 and is_program_file(file):
                function = self._text(frame.function_id, frame.function)
                return shown_line(file, frame.lineno, function)
        return ""

    def _text(self, number: int, written: bytes) -> str:
        """A text by its number, or as early releases wrote it in its place."""
        return text(written) if number == _NO_TEXT else self._texts.get(number, "")


__all__ = ["CodeDefs"]
