"""Check that a built site loads nothing from a network.

    python web/site/check.py FOLDER

Prints what would be loaded, a line for each, and exits with 1 if anything would be.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Attributes whose address a browser loads by itself; of <link>, only those that load something.
_LOADED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href", "imagesrcset"),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
_HARMLESS_LINKS = {"alternate", "author", "canonical", "help", "license", "next", "prev"}
_REMOTE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
_IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s;]+)", re.IGNORECASE)
# The theme loads a library from a server for pages with such a drawing.
_DRAWING = "mermaid"


class _Page(HTMLParser):
    """Collects the remote addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        self.found += _IN_STYLE.findall(values.get("style", ""))
        if _DRAWING in values.get("class", "").split():
            self.found.append(f"the library of <{tag} class={_DRAWING}>")
        if tag == "link" and set(values.get("rel", "").split()) <= _HARMLESS_LINKS:
            return
        for name in _LOADED.get(tag, ()):
            addresses = values.get(name, "").split(",") if "set" in name else [values.get(name, "")]
            self.found += [one.split()[0] for one in addresses if _REMOTE.match(one)]

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += _IN_STYLE.findall(data)


def loaded_by_page(text: str) -> list[str]:
    """Remote addresses that a browser would load for a page.

    Args:
        text: The page, as HTML.
    """
    page = _Page()
    page.feed(text)
    page.close()
    return page.found


def loaded_by_style(text: str) -> list[str]:
    """Remote addresses that a browser would load for a style sheet or an SVG picture."""
    return _IN_STYLE.findall(text)


def problems(site: Path) -> Iterator[str]:
    """One line for each remote address that the site would load."""
    readers = {".html": loaded_by_page, ".css": loaded_by_style, ".svg": loaded_by_page}
    for path in sorted(site.rglob("*")):
        reader = readers.get(path.suffix)
        if reader is not None:
            for address in reader(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)} would load {address}"


def main() -> int:
    """Check the folder that the command names."""
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        print(f"{site} holds no site")
        return 1
    found = list(problems(site))
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
