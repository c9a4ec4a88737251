"""The folder of results: one file per result, each written at once and whole."""

from __future__ import annotations

import json
import os
import shutil
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

    def clear(self) -> None:
        """Remove all results."""
        for each in (self.items, self.runs, self.explained):
            shutil.rmtree(each)
            each.mkdir()

    def get(self, name: str) -> dict[str, Any] | None:
        """A result; None if there is none, or if it could not be measured."""
        try:
            found = json.loads(self._file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return None if found.get("error") else found

    def all(self) -> dict[str, dict[str, Any]]:
        """All results by name."""
        found = {}
        for file in sorted(self.items.glob("*.json")):
            result = json.loads(file.read_text(encoding="utf-8"))
            found[result["name"]] = result
        return found

    def put(self, name: str, result: dict[str, Any]) -> None:
        """Write a result: complete, or not at all."""
        text = json.dumps({"name": name, **result}, indent=1)
        write_whole(self._file(name), text.encode())

    def fresh_run(self, name: str) -> Path:
        """Folder for a run; what an interrupted one has left is removed."""
        folder = self.runs / _flat(name)
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def run_of(self, name: str) -> Path:
        return self.runs / _flat(name)

    def explanation(self, name: str) -> Path:
        return self.explained / f"{_flat(name)}.json.gz"

    def _file(self, name: str) -> Path:
        return self.items / f"{_flat(name)}.json"


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that it is there complete, or not at all."""
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(content)
    os.replace(part, file)  # noqa: PTH105 - as `Path.replace`


def _flat(name: str) -> str:
    return name.replace("/", ".")
