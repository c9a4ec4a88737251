"""Stack frames of a compiled program: from which line of the program an instruction comes.

JAX records the stack at which each operation was traced, without its own frames. The innermost one
is often of another library.

Source: `StackFrameIndexProto` of xla/service/hlo.proto. Ids start at 1; 0 is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.read.shared.program_files import folder_of, is_program_file, shown_line
from stepwhy.read.shared.tensorflow.graphs import text

if TYPE_CHECKING:
    from collections.abc import Iterator

# Deeper stacks are of damaged files, whose frames may call each other in a circle.
_DEEPEST = 1000


class _Place(NamedTuple):
    """File, line and function of a frame."""

    file: str
    line: int
    function: str


class StackFrames:
    """The frames of one program.

    Args:
        message: The message with the frames.
    """

    def __init__(self, message: Any) -> None:
        self._files = [text(name) for name in message.file_names]
        self._functions = [text(name) for name in message.function_names]
        self._locations = message.file_locations
        self._frames = message.stack_frames
        self._lines: dict[int, str] = {}
        self._root = self._script_folder()

    def line(self, frame: int) -> str:
        """The innermost line of the program's own code, '' if there is none.

        Args:
            frame: Id of the innermost frame.
        """
        if frame not in self._lines:
            places = (self._place(one) for one in self._stack(frame))
            own = next((place for place in places if is_program_file(place.file)), None)
            self._lines[frame] = self.shown(own) if own else ""
        return self._lines[frame]

    def shown(self, place: tuple[str, int, str]) -> str:
        """A line as it is shown: file, line and function."""
        return shown_line(*place, self._root)

    def common_line(self, frames: list[int]) -> str:
        """The innermost line of the program in all of several stacks, '' if there is none.

        Stacks without a line of the program do not count: they are cut off.
        """
        stacks = [list(self._stack(frame)) for frame in set(frames) if self.line(frame)]
        if not stacks:
            return ""
        common = set.intersection(*(set(stack) for stack in stacks))
        return self.line(next((frame for frame in stacks[0] if frame in common), 0))

    def _stack(self, frame: int) -> Iterator[int]:
        """Ids of a frame and its callers, innermost first."""
        for _ in range(_DEEPEST):
            if not 0 < frame <= len(self._frames):
                return
            yield frame
            frame = self._frames[frame - 1].parent_frame_id

    def _place(self, frame: int) -> _Place:
        number = self._frames[frame - 1].file_location_id
        if not 0 < number <= len(self._locations):
            return _Place("", 0, "")
        location = self._locations[number - 1]
        file = _named(self._files, location.file_name_id)
        return _Place(file, location.line, _named(self._functions, location.function_name_id))

    def _script_folder(self) -> str:
        """Folder of the script, whose module calls all that is traced; '' if it is not recorded."""
        outermost = (n + 1 for n, frame in enumerate(self._frames) if not frame.parent_frame_id)
        for frame in outermost:
            place = self._place(frame)
            if place.function == "<module>" and is_program_file(place.file):
                return folder_of(place.file)
        return ""


def _named(names: list[str], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""
