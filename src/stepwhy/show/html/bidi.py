"""Isolate names in right-to-left scripts from the text around them.

Without isolation, digits and signs after such a name are displayed before it: '8 %' after a Hebrew
name looks like part of the name.

Sources: UAX 9, section 6.1; HTML Living Standard, the bdi element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    import re

# Unicode blocks of right-to-left scripts: Hebrew to Arabic Extended, presentation forms, and the
# blocks of the supplementary plane.
_LETTER = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff"
_LETTERS = regex(f"[{_LETTER}]")
# Tags and titles cannot contain elements. A run ends at its last letter and has no Latin ones.
_TAG_OR_RUN = regex(
    rf"<title>[^<]*</title>|<[^<>]*>|(?P<run>[{_LETTER}](?:[^<>&A-Za-z]*[{_LETTER}])*)"
)


def isolate(page: str) -> str:
    """Wrap each run of right-to-left letters in an HTML page in a `bdi` element.

    Args:
        page: A page whose names are escaped, so that '<' and '>' occur only in tags, and whose
            scripts and styles contain no such letters.
    """
    return _TAG_OR_RUN.sub(_isolated, page) if _LETTERS.search(page) else page


def _isolated(found: re.Match[str]) -> str:
    return f"<bdi>{found['run']}</bdi>" if found["run"] else found[0]
