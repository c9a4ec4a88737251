"""The folder of results: one file per result, each written at once and whole."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Store:
    """A folder of results.

    Args:
        folder: The folder; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.items, self.runs = folder / "items", folder / "runs"
        self.explained = folder / "explained"
        for each in (self.items, self.runs, self.explained):
            each.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> dict[str, Any] | None:
        """A result; None if there is none, or if it failed or is damaged."""
        found = _read(self._file(name))
        return None if found is None or found.get("error") else found

    def all(self) -> dict[str, dict[str, Any]]:
        """All results by name, without damaged ones."""
        found = (_read(file) for file in sorted(self.items.glob("*.json")))
        return {each["name"]: each for each in found if each is not None}

    def damaged(self) -> list[str]:
        """Names of files that are no results."""
        return [file.name for file in sorted(self.items.glob("*.json")) if _read(file) is None]

    def put(self, name: str, result: dict[str, Any]) -> None:
        """Write a result: complete, or not at all."""
        text = json.dumps(_finite({**result, "name": name}), indent=1, allow_nan=False)
        write_whole(self._file(name), text.encode())

    def fresh_run(self, name: str) -> Path:
        """Folder for a run; what an earlier one has left is removed."""
        self.explanation(name).unlink(missing_ok=True)
        folder = self.runs / _flat(name)
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def run_of(self, name: str) -> Path:
        return self.runs / _flat(name)

    def explanation(self, name: str) -> Path:
        return self.explained / f"{_flat(name)}.json.gz"

    def explained_result(self, name: str) -> dict[str, Any] | None:
        """What stepwhy explained about a run; None if it was not explained."""
        try:
            found = json.loads(gzip.decompress(self.explanation(name).read_bytes()))
        except (OSError, ValueError, EOFError, zlib.error):
            return None
        return found if isinstance(found, dict) else None

    def _file(self, name: str) -> Path:
        return self.items / f"{_flat(name)}.json"


def _finite(value: Any) -> Any:
    """A result in which numbers that JSON does not know, as of a diverging loss, are null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(file: Path) -> dict[str, Any] | None:
    """A result; None if it is missing or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("name"), str) else None


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there complete, or not at all."""
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(content)
    os.replace(part, file)  # noqa: PTH105 - as `Path.replace`


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _flat(name: str) -> str:
    return name.replace("/", ".")
