"""Names written from right to left keep to themselves.

Without isolation, the digits and signs that follow such a name are drawn before it: '8 %' after a
Hebrew name is read as part of the name.

Sources: UAX 9, section 6.1; HTML Living Standard, the bdi element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.patterns import regex

if TYPE_CHECKING:
    import re

# Blocks of scripts from right to left: Hebrew to Arabic Extended, presentation forms, and those of
# the supplementary plane.
_LETTER = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff"
_LETTERS = regex(f"[{_LETTER}]")
# Tags hold no elements, nor do titles; a run goes up to its last letter, without Latin ones.
_TAG_OR_RUN = regex(
    rf"<title>[^<]*</title>|<[^<>]*>|(?P<run>[{_LETTER}](?:[^<>&A-Za-z]*[{_LETTER}])*)"
)


def isolate(page: str) -> str:
    """A page of HTML in which each run of letters from right to left is an element `bdi`.

    Args:
        page: A page whose names are escaped, so that '<' and '>' are of tags alone; scripts and
            styles hold no such letters.
    """
    return _TAG_OR_RUN.sub(_isolated, page) if _LETTERS.search(page) else page


def _isolated(found: re.Match[str]) -> str:
    return f"<bdi>{found['run']}</bdi>" if found["run"] else found[0]
