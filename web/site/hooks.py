"""What MkDocs does not do by itself: the diagnoses in the navigation, and Markdown as on GitHub.

The pages are written for a repository's view first. Links to headings, and bars in the cells of
tables, mean the same on the site.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

SECTION = "Diagnoses"
INDEX = "diagnoses/index.md"
# Loaded before the theme's script, which starts a worker for the search.
WORKER = "assets/javascripts/file-worker.js"

_ROW = re.compile(r"^\| (?P<family>[\w -]+) \| \[`[\w-]+`\]\((?P<page>[\w-]+\.md)\)", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")


def on_config(config: Any, **_: Any) -> Any:
    """Complete the settings, after all plugins."""
    index = Path(config.docs_dir, INDEX).read_text(encoding="utf-8")
    config.nav = with_diagnoses(config.nav, index)
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    config.repo_url = address(Path(config.docs_dir).parent / "pyproject.toml")
    # The plugin `offline` names a script on a server here.
    config.extra["polyfills"] = [WORKER]
    return config


def address(project: Path) -> str | None:
    """The address of the project's sources, from its pyproject.toml; None until it has one."""
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["urls"]
    return urls.get("Source")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Change the text of a page before it becomes HTML."""
    return unescaped_bars(markdown)


def with_diagnoses(nav: list[dict[str, Any]], index: str) -> list[dict[str, Any]]:
    """Add the page of each diagnosis to the navigation, in a section for each family.

    Args:
        nav: The navigation of mkdocs.yml.
        index: Text of the page that lists the diagnoses.
    """
    families: dict[str, list[str]] = {}
    for row in _ROW.finditer(index):
        families.setdefault(row["family"], []).append(f"diagnoses/{row['page']}")
    sections = [{family.capitalize(): pages} for family, pages in families.items()]
    return [
        {SECTION: [*pages, *sections]} if name == SECTION else {name: pages}
        for entry in nav
        for name, pages in entry.items()
    ]


def slug(text: str, _separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")


def unescaped_bars(markdown: str) -> str:
    r"""Write `a|b` for `a\|b` in code within tables, where Python-Markdown needs no backslash."""
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in markdown.split("\n")
    )
